"""The cases of a plan that a kernel can run; unsupported settings have their defaults."""

from dataclasses import dataclass
from pathlib import Path

from tcpassay import _native
from tcpassay.errors import Place, UserError
from tcpassay.messages import Value
from tcpassay.plan import model, write
from tcpassay.plan.read import Plan, read, read_file
from tcpassay.substrate import substrate_of


@dataclass(frozen=True, slots=True)
class Fitted:
    """A plan for a kernel."""

    plan: Plan
    changed: int = 0
    """Cases in which settings are at their defaults because the kernel does not support them."""
    omitted: int = 0
    """Cases that the kernel cannot run, or that are equal to another one without these settings."""


def fit(file: Path, substrate: str) -> Fitted:
    """The plan with `substrate` instead of its own; raises `UserError` if no case can run there.

    If the kernel refuses settings of a plan that is for other substrates, each case is run without these settings.
    """
    try:
        return Fitted(read_file(file, substrates=[substrate]))
    except UserError as error:
        original = read_file(file)
        if substrate.partition(":")[0] in {one.partition(":")[0] for one in original.spec.substrates}:
            raise
        spec = original.spec
        if isinstance(spec.strategy, model.Search):
            raise UserError(f"the kernel refuses settings of this search: {error}", Place(file)) from None
    made: dict[frozenset[tuple[str, str]], dict[str, Value]] = {}
    changed = omitted = 0
    base = str(file.parent.resolve())
    for case in original.cases:
        found = _supported(case.triples, substrate, base) if case.expect == "done" else None
        if found is None or found.key in made:
            omitted += 1
            continue
        changed += found.triples != case.triples
        made[found.key] = found.triples
    if not made:
        raise UserError("the kernel can run none of the cases", Place(file))
    text = write.toml(
        _spec(spec, list(made.values()), file.parent), f"Cases of {spec.name} that a kernel can run."
    )
    return Fitted(read(text, file, substrates=[substrate]), changed, omitted)


@dataclass(frozen=True, slots=True)
class _Supported:
    triples: dict[str, Value]
    key: frozenset[tuple[str, str]]
    """The settings that differ from the defaults: equal for equal cases."""


def _supported(triples: dict[str, Value], substrate: str, base: str) -> _Supported | None:
    """The triples that the substrate supports; `None` if it refuses the case for another reason than a triple."""
    left = dict(triples)
    while True:
        try:
            return _Supported(left, frozenset(substrate_of(substrate).check(left, base).items()))
        except _native.CaseError as refused:
            path, other, *_ = refused.args[0][0]
            culprit = next((one for one in (path, other) if one in left), None)
            if culprit is None:
                return None
            del left[culprit]


def _spec(spec: model.PlanFile, cases: list[dict[str, Value]], base: Path) -> model.PlanFile:
    said: dict[str, object] = {
        "name": spec.name,
        "doc": spec.doc,
        "seeds": spec.seeds,
        "oracles": spec.oracles,
        "collect": spec.collect.model_dump(exclude_unset=True),
    }
    absolute = [{path: write.absolute(value, base) for path, value in case.items()} for case in cases]
    if len(absolute) == 1:
        said["fixed"] = absolute[0]
    else:
        said["groups"] = {"cases": {str(number): case for number, case in enumerate(absolute, 1)}}
    return model.PlanFile.model_validate(said)
