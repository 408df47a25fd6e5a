"""The settings of a case as triples `<entity, parameter, value>`, and the sets of triples that can be run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tcpassay._native import CaseError
from tcpassay.plan.constraints import Constraint
from tcpassay.plan.expand import SUBSTRATE, name_of, show
from tcpassay.plan.fields import Scalar
from tcpassay.plan.quantity import quantity
from tcpassay.plan.table import parameters
from tcpassay.substrate import substrate_of
from tcpassay.substrate.base import Substrate

DURATION: Final = "app.duration"
"""The duration of a run is not a cause: it is kept while triples are removed, and reduced afterwards."""


@dataclass(frozen=True, slots=True)
class Triple:
    """An entity's parameter, and its value."""

    path: str
    """`stack.sack`, or with an address `sender/stack.sack`."""
    value: Scalar

    @property
    def entity(self) -> str:
        """The entity of the parameter, as in `stack` or `sender/stack`."""
        return self.path[: self.path.rindex(".")] if "." in self.path else self.path

    @property
    def parameter(self) -> str:
        """The parameter's name without its entity."""
        return self.path.rpartition(".")[2]

    @property
    def default(self) -> str:
        """The default of the parameter table, for cases that do not set the parameter."""
        row = parameters().get(self.path.rpartition("/")[2])
        return row.default if row else ""

    @property
    def text(self) -> str:
        """The value as the data plane prints it."""
        return show(self.value)

    def same(self, other: "Triple") -> bool:
        """Whether both triples mean the same, also with different units."""
        return self.path == other.path and quantity(self.value) == quantity(other.value)

    def __str__(self) -> str:
        return f"{self.path}={self.text}"


Triples = frozenset[Triple]


def triples_of(said: Mapping[str, Scalar]) -> Triples:
    """The triples of a mapping from paths to values."""
    return frozenset(Triple(path, value) for path, value in said.items())


def mapping_of(triples: Iterable[Triple]) -> dict[str, Scalar]:
    """The inverse of `triples_of`, in the order of the paths, so that equal sets are equal to the byte."""
    return {one.path: one.value for one in sorted(triples, key=lambda one: one.path)}


def contains(case: Mapping[str, Scalar], triples: Iterable[Triple]) -> bool:
    """Whether a case sets all of these triples; values may have other units."""
    return all(one.path in case and one.same(Triple(one.path, case[one.path])) for one in triples)


def differing(mine: Triples, other: Triples) -> tuple[Triples, Triples]:
    """The settings of two cases where they differ: those of the first one, and those of the other for the same paths.

    A path that a case does not set has there the value of the path without address, or the default.
    """
    here, there = ({one.path: one.value for one in triples} for triples in (mine, other))

    def value(path: str, said: Mapping[str, Scalar]) -> Triple:
        plain = path.rpartition("/")[2]
        return Triple(path, said.get(path, said.get(plain, Triple(path, "").default)))

    pairs = [(value(path, here), value(path, there)) for path in sorted(here.keys() | there.keys())]
    apart = [(one, two) for one, two in pairs if not one.same(two)]
    return frozenset(one for one, _ in apart), frozenset(two for _, two in apart)


@dataclass(frozen=True)
class Setting:
    """Where the triples of a case are tried: the substrate, its files, and what the plan does not allow."""

    substrate: str
    base: str
    """The base folder of file names in values."""
    constraints: tuple[Constraint, ...] = ()
    """The constraints of the plan; excluded cases are not tested."""
    groups: Mapping[str, Mapping[str, Mapping[str, Scalar]]] | None = None
    """The groups of the plan, which its constraints may mention: the settings of each level."""

    @cached_property
    def _substrate(self) -> Substrate:
        return substrate_of(self.substrate)

    def said(self, triples: Triples) -> dict[str, str]:
        """The settings of a set that differ from the defaults. Raises `CaseError` if it cannot be run."""
        return self._substrate.check(mapping_of(triples), self.base)

    def name(self, triples: Triples) -> str:
        """The id of the case, as plans name it. Raises `CaseError`."""
        where = {} if self.substrate == "model" else {SUBSTRATE: self.substrate}
        return name_of(self.said(triples) | where)

    def beyond_defaults(self, triples: Triples) -> Triples:
        """The set without triples that equal the defaults. Raises `CaseError`."""
        said = self.said(triples)
        return frozenset(
            one for one in triples if one.path in said and not one.same(Triple(one.path, one.default))
        )

    def refusal(self, triples: Triples) -> str:
        """Why a set cannot be run, in words; empty if it can."""
        try:
            self.said(triples)
        except CaseError as error:
            return "; ".join(f"{path}: {why}" for path, _, _, why in error.args[0])
        broken = self._broken(triples)
        return f"the plan excludes it: {' '.join(broken.text.split())}" if broken else ""

    def close(self, triples: Triples) -> Triples | None:
        """The set without the triples whose required triples are missing; `None` if these are unknown."""
        current = triples
        while True:
            by_path = {one.path: one for one in current}
            named = self._conflict(current, by_path)
            if named is None:
                return current
            dropped = next((by_path[path] for path in named if path in by_path), None)
            if dropped is None:
                dropped = self._requires(current, named)
            if dropped is None or dropped.path == DURATION:
                return None
            current -= {dropped}

    def _requires(self, triples: Triples, named: list[str]) -> Triple | None:
        """The triple that requires a missing parameter, which alone the refusal names (`paced` needs a rate)."""
        for one in sorted(triples, key=str):
            rest = triples - {one}
            if one.path != DURATION and self._conflict(rest, {other.path: other for other in rest}) != named:
                return one
        return None

    def complete(self, triples: Triples, whole: Triples) -> Triples | None:
        """The set with the triples of `whole` that it requires to be run; `None` if there are none."""
        current, known = triples, {one.path: one for one in whole}
        while True:
            named = self._conflict(current, {one.path: one for one in current})
            if named is None:
                return current
            added = {known[path] for path in named if path in known} - current
            if not added:
                return None
            current |= added

    def _conflict(self, triples: Triples, by_path: Mapping[str, Triple]) -> list[str] | None:
        """The parameters of a contradiction in the order of their removal; `None` if there is no contradiction."""
        try:
            self.said(triples)
        except CaseError as error:
            path, other, _, _ = error.args[0][0]
            return [one for one in (path, path.rpartition("/")[2], other) if one]
        broken = self._broken(triples)
        if broken is None:
            return None
        members = [path for name in broken.parameters for path in self._members(name)]
        # Prefer a parameter whose removal alone resolves the contradiction.
        return sorted(
            members,
            key=lambda path: path not in by_path or not self._allows(broken, triples - {by_path[path]}),
        )

    def _members(self, name: str) -> list[str]:
        levels = (self.groups or {}).get(name)
        return [name] if levels is None else list(dict.fromkeys(p for sets in levels.values() for p in sets))

    def _broken(self, triples: Triples) -> Constraint | None:
        return next((one for one in self.constraints if not self._allows(one, triples)), None)

    def _allows(self, constraint: Constraint, triples: Triples) -> bool:
        """Whether a constraint of the plan holds; one that cannot be evaluated for this set does."""
        values = {one.path: one.value for one in triples}
        case: dict[str, Scalar] = {}
        for name in constraint.parameters:
            value = self._value(name, values)
            if value is None:
                return True
            case[name] = value
        return constraint.holds(case)

    def _value(self, name: str, values: Mapping[str, Scalar]) -> Scalar | None:
        if name == SUBSTRATE:
            return self.substrate
        levels = (self.groups or {}).get(name)
        if levels is None:
            return values.get(name, Triple(name, "").default)
        members = {path for sets in levels.values() for path in sets}

        def said(path: str, sets: Mapping[str, Scalar]) -> Triple:
            return Triple(path, sets.get(path, Triple(path, "").default))

        for level, sets in levels.items():
            if all(said(path, sets).same(said(path, values)) for path in members):
                return level
        return None
