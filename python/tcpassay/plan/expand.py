"""A case of a plan, and how it comes from the levels of what varies.

A plan varies factors: an axis (one parameter, a list of values) and a group (several parameters that change
together, a name for each set). `combine` says which combinations of their levels become cases; here each becomes
what it sets, is shown to the data plane, and gets its name.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from tcpassay import _native
from tcpassay.cover.space import Space
from tcpassay.errors import Place, Problem
from tcpassay.plan import axis, model, table
from tcpassay.plan.document import Document, Step
from tcpassay.substrate import substrate_of

CONTROLLER: Final = "stack.cc"
SUBSTRATE: Final = "substrate"
"""What varies in a plan that names several; no parameter has this name."""


@dataclass(frozen=True, slots=True)
class Script:
    """A packetdrill script that is a case, and how it is run."""

    file: str
    """Relative to the plan."""
    profile: str
    loose: bool
    """Whether window, PSH and SYN options do not count."""
    options: tuple[tuple[str, str], ...] = ()
    """Of packetdrill's command line, without their dashes."""

    def as_json(self) -> dict[str, Any]:
        """As a worker and `result.json` have it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a plan."""

    id: str
    """Function of what the case says beyond the defaults, so that a case keeps its name when a plan grows."""
    triples: dict[str, model.Scalar]
    """Parameter and value, as the plan gives them."""
    varied: dict[str, model.Scalar]
    """The value of each factor, in the plan's order."""
    expect: Literal["done", "refused"] = "done"
    """What must become of its runs: a case with a value from `negative` must be refused."""
    negative: str = ""
    """The parameter whose value must be refused."""
    substrate: str = "model"
    """Where it runs."""
    script: Script | None = None
    """What is run, where that is no traffic over a path that parameters describe."""

    @property
    def label(self) -> str:
        """What makes the case differ from the others of its plan."""
        return ", ".join(f"{name.split('.')[-1]}={show(value)}" for name, value in self.varied.items())

    def matches(self, selector: Mapping[str, model.Scalar | list[model.Scalar]]) -> bool:
        """Whether everything that the selector names has the value, or one of the values."""
        said = {SUBSTRATE: self.substrate} | self.triples | self.varied
        for name, wanted in selector.items():
            values = wanted if isinstance(wanted, list) else [wanted]
            if name not in said or not any(same(said[name], value) for value in values):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Level:
    """One value of a factor: what it sets, and where the plan says so."""

    value: model.Scalar
    triples: dict[str, model.Scalar]
    path: tuple[Step, ...]


def show(value: model.Scalar) -> str:
    """A value as the data plane prints it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def same(a: model.Scalar, b: model.Scalar) -> bool:
    """Equality as the data plane sees it: `"10"` and 10 are the same, 1 and true are not."""
    return show(a) == show(b)


def factors(spec: model.PlanFile) -> dict[str, list[Level]]:
    """What varies, in the order of the file: axes, then groups."""
    made = {
        path: [
            Level(value, {path: value}, ("axes", path, i)) for i, value in enumerate(axis.values(path, one))
        ]
        for path, one in spec.axes.items()
    }
    for name, sets in spec.groups.items():
        made[name] = [Level(level, triples, ("groups", name, level)) for level, triples in sets.items()]
    return made


def levels(spec: model.PlanFile) -> dict[str, list[model.Scalar]]:
    """The values of each factor, and of where cases run."""
    made: dict[str, list[model.Scalar]] = {SUBSTRATE: list(spec.substrates)}
    return made | {name: [level.value for level in among] for name, among in factors(spec).items()}


class Expander:
    """Turns rows, the numbers of levels, into cases, and asks the data plane about them."""

    def __init__(self, spec: model.PlanFile, doc: Document, space: Space) -> None:
        self.spec = spec
        self.doc = doc
        self.space = space
        # The space may hold parameters that do not vary, for constraints to mention; only these do.
        self.factors = factors(spec)
        self._base = str(doc.file.parent)

    def case(self, row: Sequence[int]) -> tuple[dict[str, model.Scalar], dict[str, model.Scalar], str]:
        """What the row sets, what varies, and the parameter of an invalid value."""
        triples, varied, negative = dict(self.spec.fixed), {}, ""
        for parameter, number in zip(self.space.parameters, row, strict=True):
            if number >= len(parameter.levels):
                negative = parameter.name
                triples[negative] = varied[negative] = parameter.all_levels[number]
            elif parameter.name in self.factors:
                level = self.factors[parameter.name][number]
                varied[parameter.name] = level.value
                triples |= level.triples
        return triples, varied, negative

    def errors(self, triples: Mapping[str, model.Scalar]) -> list[tuple[str, str | None, str | None, str]]:
        """Why the first substrate that refuses what a case sets does so; empty when none does."""
        for name in self.spec.substrates:
            try:
                substrate_of(name).check(triples, self._base)
            except _native.CaseError as error:
                found: list[tuple[str, str | None, str | None, str]] = error.args[0]
                return found
        return []

    def cases(self, row: Sequence[int]) -> list[Case]:
        """The cases of a row, one a substrate. Raises `CaseError` when one of them refuses it."""
        triples, varied, negative = self.case(row)
        made = []
        for name in self.spec.substrates:
            where: dict[str, model.Scalar] = {SUBSTRATE: name} if len(self.spec.substrates) > 1 else {}
            expect: Literal["done", "refused"] = "refused" if negative else "done"
            case = self._named(triples, negative, name)
            made.append(Case(case, triples, where | varied, expect, negative, name))
        return made

    def _named(self, triples: Mapping[str, model.Scalar], negative: str, substrate: str) -> str:
        """The name of a case. Raises `CaseError`, but not for a value that must be refused."""
        check = substrate_of(substrate).check
        where = {} if substrate == "model" else {SUBSTRATE: substrate}
        if not negative:
            return name_of(check(triples, self._base) | where)
        rest = {path: value for path, value in triples.items() if path != negative}
        try:
            said = check(rest, self._base)
        except _native.CaseError:
            # Without the value that must be refused another one may be; a name is needed all the same.
            said = {path: show(value) for path, value in rest.items() if show(value) != _default(path)}
        return name_of(said | where | {negative: show(triples[negative])})

    def setter(self, path: str, row: Sequence[int]) -> tuple[Step, ...] | None:
        """Where the plan sets, in this row, `path` or what it is an address of; `None` where it does not."""
        for name in dict.fromkeys((path, path.rpartition("/")[2])):
            for parameter, number in zip(self.space.parameters, row, strict=True):
                level = self.factors.get(parameter.name, [])[number : number + 1]
                if level and name in level[0].triples:
                    return (*level[0].path, name)
            if name in self.spec.fixed:
                return ("fixed", name)
        return None

    def problem(
        self, error: tuple[str, str | None, str | None, str], row: Sequence[int], more: str = ""
    ) -> Problem:
        """What the data plane said about the case of a row, with the places of what it is about."""
        path, other, read, why = error
        why = _elsewhere(path, read) or why
        triples = self.case(row)[0]
        value = show(triples[path]) if path in triples and read is not None else read
        said = f"`{path}`: {why}" if value is None else f"`{path}` = `{value}`: {why}"
        here, there = self.setter(path, row), other and self.setter(other, row)
        # A contradiction with a default stands where the plan set the other of the two.
        place = self.doc.place(*(here or there or ("fixed", path)))
        if here and there:
            second = self.doc.place(*there)
            said += f" (`{other}` is set in {beside(second, place)})"
        return Problem(said + more, place)


def _elsewhere(path: str, value: str | None) -> str:
    """That a value is for other substrates, where the model refuses one that the table allows; otherwise empty."""
    row = table.parameters().get(path.rpartition("/")[2])
    if row is None or row.path != CONTROLLER or value not in row.choices or value in row.levels:
        return ""
    return (
        f'the model does not have this controller, but real kernels do: run it with `substrates = ["kernel"]` or '
        f'`["host"]`; the model has {", ".join(row.levels)}'
    )


def beside(place: Place, other: Place) -> str:
    """How to name a place in a message that stands at another: its line, and its file where that differs."""
    return f"line {place.line}" if place.file == other.file else str(place)


def name_of(said: Mapping[str, str]) -> str:
    """The name of a case that says this beyond the defaults."""
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _default(path: str) -> str:
    row = table.parameters().get(path.rpartition("/")[2])
    return row.default if row else ""
