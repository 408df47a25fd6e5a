"""Cases that a plan states with all their settings (`[[case]]`), beside those that its strategy selects."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tcpassay import _native
from tcpassay.errors import Problem, UserError
from tcpassay.plan import fields, model
from tcpassay.plan.document import Document
from tcpassay.plan.expand import SUBSTRATE, Case, name_of, reason, show
from tcpassay.substrate import substrate_of

Settings = Mapping[str, fields.Scalar]


def made(settings: Settings, spec: model.PlanFile, base: Path) -> Iterator[Case]:
    """The case with these settings on each substrate of the plan. Raises `CaseError` if one refuses it."""
    triples = {**spec.fixed, **settings}
    for name in spec.substrates:
        several: dict[str, fields.Scalar] = {SUBSTRATE: name} if len(spec.substrates) > 1 else {}
        named = substrate_of(name).check(triples, str(base))
        where = {} if name == "model" else {SUBSTRATE: name}
        yield Case(name_of(named | where), triples, several | dict(settings), substrate=name)


def cases(spec: model.PlanFile, doc: Document) -> list[Case]:
    """The stated cases of a plan. Raises `UserError` with all errors."""
    found: list[Case] = []
    problems: list[Problem] = []
    for number, settings in enumerate(spec.case):
        try:
            found += made(settings, spec, doc.file.parent)
        except _native.CaseError as error:
            for path, _, read, why in error.args[0]:
                value = show(settings[path]) if path in settings and read is not None else read
                said = f"`{path}`" if value is None else f"`{path}` = `{value}`"
                problems.append(
                    Problem(f"{said}: {reason(path, read, why)}", doc.place("case", number, path))
                )
    if problems:
        raise UserError.several(problems)
    return found
