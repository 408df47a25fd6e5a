"""The cases of a plan, created from the levels of its factors.

A factor is an axis (a parameter with a list of values) or a group (parameters that change together, with a name for
each set of values). `combine` selects the combinations of levels. This module converts each combination to settings,
checks it with the data plane, and computes its name.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tcpassay import _native
from tcpassay.cover.space import Space
from tcpassay.errors import Place, Problem
from tcpassay.messages import Expected, Script
from tcpassay.plan import axis, fields, hints, model, table
from tcpassay.plan.document import Document, Step
from tcpassay.plan.quantity import quantity
from tcpassay.substrate import substrate_of

CONTROLLER: Final = "stack.cc"
SUBSTRATE: Final = "substrate"
"""The factor of a plan with several substrates; no parameter has this name."""


def _short(name: str) -> str:
    """The last part of a path, with its address."""
    address, slash, plain = name.rpartition("/")
    return f"{address}{slash}{plain.rpartition('.')[2]}"


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a plan."""

    id: str
    """A hash of the settings that differ from the defaults, so that a case keeps its name when a plan is extended."""
    triples: dict[str, fields.Scalar]
    """Parameters and values as in the plan."""
    varied: dict[str, fields.Scalar]
    """The value of each factor, in the order of the plan."""
    expect: Expected = "done"
    """The expected outcome of its runs: a case with a value from `negative` must be refused."""
    negative: str = ""
    """The parameter whose value must be refused."""
    substrate: str = "model"
    """The substrate of the case."""
    script: Script | None = None
    """The script, if the case is a packetdrill script."""

    @property
    def label(self) -> str:
        """The settings that distinguish the case from the others of its plan."""
        return ", ".join(f"{_short(name)}={show(value)}" for name, value in self.varied.items())

    def matches(self, selector: Mapping[str, fields.Scalar | list[fields.Scalar]]) -> bool:
        """Whether each name of the selector has the value, or one of the values."""
        said = {SUBSTRATE: self.substrate} | self.triples | self.varied
        for name, wanted in selector.items():
            values = wanted if isinstance(wanted, list) else [wanted]
            if name not in said or not any(same(said[name], value) for value in values):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a factor: its settings, and its position in the plan."""

    value: fields.Scalar
    triples: dict[str, fields.Scalar]
    path: tuple[Step, ...]


def show(value: object) -> str:
    """A value in the format of the data plane."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def heading(values: Mapping[str, str], labels: Mapping[str, str] | None = None) -> str:
    """The values of some factors as the heading of a figure, as in `cubic, limit 62KB`, with labels for some values.

    An amount beside others says nothing without the last part of its parameter's name.
    """
    known = labels or {}
    return ", ".join(
        known.get(value)
        or (
            f"{_short(name).replace('_', ' ')} {value}"
            if len(values) > 1 and quantity(value).ordered
            else value
        )
        for name, value in values.items()
    )


def same(a: fields.Scalar, b: fields.Scalar) -> bool:
    """Equality as in the data plane: `"10"` and 10 are equal, 1 and true are not."""
    return show(a) == show(b)


def factors(spec: model.PlanFile) -> dict[str, list[Level]]:
    """The factors in the order of the file: axes, then groups."""
    made = {
        path: [
            Level(value, {path: value}, ("axes", path, i)) for i, value in enumerate(axis.values(path, one))
        ]
        for path, one in spec.axes.items()
    }
    for name, sets in spec.groups.items():
        made[name] = [Level(level, triples, ("groups", name, level)) for level, triples in sets.items()]
    return made


def levels(spec: model.PlanFile) -> dict[str, list[fields.Scalar]]:
    """The levels of each factor, including the substrates."""
    made: dict[str, list[fields.Scalar]] = {SUBSTRATE: list(spec.substrates)}
    return made | {name: [level.value for level in among] for name, among in factors(spec).items()}


class Expander:
    """Converts rows of level indices to cases, and checks them with the data plane."""

    def __init__(self, spec: model.PlanFile, doc: Document, space: Space) -> None:
        self.spec = spec
        self.doc = doc
        self.space = space
        # The space may contain parameters that do not vary, for use in constraints; they are excluded here.
        self.factors = factors(spec)
        self._base = str(doc.file.parent)

    def case(self, row: Sequence[int]) -> tuple[dict[str, fields.Scalar], dict[str, fields.Scalar], str]:
        """The settings of the row, its factors, and the parameter of an invalid value."""
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

    def errors(self, triples: Mapping[str, fields.Scalar]) -> list[tuple[str, str | None, str | None, str]]:
        """The errors of the first substrate that refuses a case; empty if none does."""
        for name in self.spec.substrates:
            try:
                substrate_of(name).check(triples, self._base)
            except _native.CaseError as error:
                found: list[tuple[str, str | None, str | None, str]] = error.args[0]
                return found
        return []

    def cases(self, row: Sequence[int]) -> list[Case]:
        """The cases of a row, one per substrate. Raises `CaseError` if a substrate refuses it."""
        triples, varied, negative = self.case(row)
        made = []
        for name in self.spec.substrates:
            where: dict[str, fields.Scalar] = {SUBSTRATE: name} if len(self.spec.substrates) > 1 else {}
            expect: Expected = "refused" if negative else "done"
            case = self._named(triples, negative, name)
            made.append(Case(case, triples, where | varied, expect, negative, name))
        return made

    def _named(self, triples: Mapping[str, fields.Scalar], negative: str, substrate: str) -> str:
        """The name of a case. Raises `CaseError`, but not for a value that must be refused."""
        check = substrate_of(substrate).check
        where = {} if substrate == "model" else {SUBSTRATE: substrate}
        if not negative:
            return name_of(check(triples, self._base) | where)
        rest = {path: value for path, value in triples.items() if path != negative}
        try:
            said = check(rest, self._base)
        except _native.CaseError:
            # Without the value that must be refused, another value may be refused; the case still needs a name.
            said = {path: show(value) for path, value in rest.items() if show(value) != _default(path)}
        return name_of(said | where | {negative: show(triples[negative])})

    def setter(self, path: str, row: Sequence[int]) -> tuple[Step, ...] | None:
        """The position in the plan that sets `path`, or a parameter that it addresses, in this row.

        `None` if there is none.
        """
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
        """An error of the data plane about the case of a row, with the positions of the settings involved."""
        path, other, read, why = error
        why = reason(path, read, why)
        triples = self.case(row)[0]
        value = show(triples[path]) if path in triples and read is not None else read
        said = f"`{path}`: {why}" if value is None else f"`{path}` = `{value}`: {why}"
        here, there = self.setter(path, row), other and self.setter(other, row)
        # A contradiction with a default is reported at the setting of the other parameter.
        place = self.doc.place(*(here or there or ("fixed", path)))
        if here and there:
            second = self.doc.place(*there)
            said += f" (`{other}` is set in {beside(second, place)})"
        return Problem(said + more, place)


def reason(path: str, read: str | None, why: str) -> str:
    """Why the data plane refuses a value, with what to write or where it is supported."""
    return _hinted(path, read, _elsewhere(path, read) or why)


def _hinted(path: str, read: str | None, why: str) -> str:
    """An error with a hint about the name of the parameter or the spelling of its value."""
    unknown = "no such parameter"
    if why.startswith(unknown):
        hint = hints.other_name(path)
        return unknown + hint if hint else why
    hint = hints.spelling(path, read) if read is not None else ""
    # The unit is known by then; only its spelling is not.
    return (why.replace("the unit is unknown here", "it is written in another way") if hint else why) + hint


def _elsewhere(path: str, value: str | None) -> str:
    """A hint that other substrates support the value, if the model refuses a value that the table allows.

    Otherwise empty.
    """
    row = table.parameters().get(path.rpartition("/")[2])
    if row is None or row.path != CONTROLLER or value not in row.choices or value in row.levels:
        return ""
    return (
        f'the model does not have this controller, but real kernels do: run it with `substrates = ["kernel"]` or '
        f'`["host"]`; the model has {", ".join(row.levels)}'
    )


def beside(place: Place, other: Place) -> str:
    """The name of a position in a message at another position: its line, and its file if that differs."""
    return f"line {place.line}" if place.file == other.file else str(place)


def name_of(said: Mapping[str, str]) -> str:
    """The name of a case with these settings that differ from the defaults."""
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _default(path: str) -> str:
    row = table.parameters().get(path.rpartition("/")[2])
    return row.default if row else ""
