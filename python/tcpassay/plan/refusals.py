"""Cases that the data plane refuses: the errors, and the constraint that excludes the cases.

Refused cases are not omitted silently, because the plan would then not have its defined coverage. The plan is refused
with a constraint that its author may add. The constraint is found by checking neighbours of a refused case with the
data plane: a factor is relevant if another of its levels is accepted.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from tcpassay.errors import Problem
from tcpassay.plan import fields
from tcpassay.plan.constraints import compare
from tcpassay.plan.expand import Expander

Error = tuple[str, str | None, str | None, str]
"""Path, conflicting path, value, error."""
Rule = tuple[str, str | None]
"""The identity of a rule: equal for all cases that violate the same rule."""

_MOST_QUESTIONS: Final = 5_000
"""Maximum number of checks per refusal, about a second; plans with longer lists get no suggestion."""
_RELATIONS: Final[tuple[Literal["=", "<=", ">=", "<", ">"], ...]] = ("=", "<=", ">=", "<", ">")


class _TooManyError(Exception):
    """The search for a suggestion needs too many checks."""


@dataclass(slots=True)
class _Refusal:
    """A violated rule, and the cases that violate it."""

    rule: Rule
    error: Error
    row: list[int]
    among: dict[int, frozenset[int]]
    """For relevant factors, the levels that violate the rule."""
    pair: tuple[int, int] | None = None
    """Two factors that contradict each other if the others have levels in `among`."""
    bad: dict[int, frozenset[int]] = field(default_factory=dict)
    """For each level of the first factor of the pair, the incompatible levels of the second."""
    count: int = 0

    def holds(self, row: Sequence[int]) -> bool:
        if any(row[v] not in levels for v, levels in self.among.items()):
            return False
        return self.pair is None or row[self.pair[1]] in self.bad.get(row[self.pair[0]], ())


class Refusals:
    """Collects the refusals of the `total` cases of a plan."""

    def __init__(self, expander: Expander, total: int, most: int) -> None:
        self._expander = expander
        self._total = total
        self._most = most
        self._found: list[_Refusal] = []
        self._asked: dict[tuple[int, ...], frozenset[Rule]] = {}

    @property
    def found(self) -> bool:
        """Whether a case was refused."""
        return bool(self._found)

    def count(self, rows: Iterable[Sequence[int]]) -> None:
        """Counts the cases among all `rows` with the refusals found, without checking them."""
        for one in self._found:
            one.count = 0
        for row in rows:
            for one in self._found:
                one.count += one.holds(row)

    @property
    def full(self) -> bool:
        """Whether enough refusals have been collected."""
        return len(self._found) >= self._most

    def add(self, row: list[int], errors: Iterable[Error]) -> None:
        """Adds a refused case."""
        for error in errors:
            rule = error[:2]
            known = [one for one in self._found if one.rule == rule and one.holds(row)]
            if not known and not self.full:
                known = [self._understood(rule, error, row)]
                self._found += known
            for one in known[:1]:
                one.count += 1

    def problems(self) -> Iterator[Problem]:
        """The errors, each with its position and suggestion."""
        for one in self._found:
            more = ""
            if one.pair is not None:
                texts = "\n".join(f"    {_quoted(text)}," for text in self._constraints(one))
                more = f"; {one.count} of {self._total} cases; excluded by `constraints` =\n{texts}"
            yield self._expander.problem(one.error, one.row, more)

    def _broken(self, rule: Rule, row: Sequence[int]) -> bool:
        key = tuple(row)
        if key not in self._asked:
            if len(self._asked) == _MOST_QUESTIONS:
                raise _TooManyError
            errors = self._expander.errors(self._expander.case(row)[0])
            self._asked[key] = frozenset(error[:2] for error in errors)
        return rule in self._asked[key]

    def _understood(self, rule: Rule, error: Error, row: list[int]) -> _Refusal:
        self._asked.clear()
        try:
            return self._explained(rule, error, row)
        except _TooManyError:
            return _Refusal(rule, error, row, {})

    def _explained(self, rule: Rule, error: Error, row: list[int]) -> _Refusal:
        space = self._expander.space
        among = {}
        for v in space.free:
            levels = frozenset(
                n
                for n in range(space.sizes[v])
                if n == row[v] or self._broken(rule, [*row[:v], n, *row[v + 1 :]])
            )
            if len(levels) < space.sizes[v]:
                among[v] = levels
        if len(among) <= 1:
            # Each value or fixed setting is a separate problem.
            return _Refusal(rule, error, row, {v: frozenset([row[v]]) for v in among})
        first, second = self._ends(rule, row, list(among))
        others = {v: levels for v, levels in among.items() if v not in (first, second)}
        # A factor that is irrelevant for this case may be relevant for another one with the same rule, where it is
        # tried again.
        rest = [v for v in space.free if v not in among]
        pairs = [
            (a, b)
            for a, b in itertools.product(range(space.sizes[first]), range(space.sizes[second]))
            if (a, b) == (row[first], row[second])
            or self._always_broken(rule, _changed(row, {first: a, second: b}), rest)
        ]
        names = (first, second, *others)
        if not all(
            self._always_broken(rule, _changed(row, dict(zip(names, (*pair, *met), strict=True))), rest)
            for pair in pairs
            for met in itertools.product(*others.values())
        ):
            others = {v: frozenset([row[v]]) for v in others}
        bad = {a: frozenset(b for met, b in pairs if met == a) for a in range(space.sizes[first])}
        return _Refusal(rule, error, row, others, (first, second), bad)

    def _always_broken(self, rule: Rule, row: list[int], rest: Sequence[int]) -> bool:
        """Whether the rule is violated by a case with every other level of the factors assumed irrelevant."""
        sizes = self._expander.space.sizes
        return self._broken(rule, row) and all(
            self._broken(rule, _changed(row, {v: n})) for v in rest for n in range(sizes[v]) if n != row[v]
        )

    def _ends(self, rule: Rule, row: Sequence[int], among: list[int]) -> tuple[int, int]:
        """The factors of the two parameters of the rule, if they are relevant; otherwise other factors."""
        index = self._expander.space.index
        setters = [self._expander.setter(path, row) for path in rule if path]
        named = [index[str(where[1])] for where in setters if where and where[0] != "fixed"]
        order = list(dict.fromkeys([v for v in named if v in among] + among))
        return order[0], order[1]

    def _constraints(self, one: _Refusal) -> Iterator[str]:
        """Constraints that exclude exactly the cases of a refusal."""
        assert one.pair is not None  # noqa: S101 - for the type checker
        a, b = one.pair
        space = self._expander.space
        conditions = [self._in(v, levels) for v, levels in one.among.items()]
        left, right = space.parameters[a], space.parameters[b]
        for operator in _RELATIONS:
            if all(
                compare(x, operator, y) is (j not in one.bad[i])
                for i, x in enumerate(left.levels)
                for j, y in enumerate(right.levels)
            ):
                yield _rule(conditions, f"[{left.name}] {operator} [{right.name}]")
                return
        alike: dict[frozenset[int], list[int]] = {}
        for level, bad in one.bad.items():
            if bad:
                alike.setdefault(bad, []).append(level)
        for bad, levels in alike.items():
            good = frozenset(range(space.sizes[b])) - bad
            if not good:
                rest = frozenset(range(space.sizes[a])) - set(levels)
                yield _rule(conditions, self._in(a, rest))
            else:
                yield _rule([*conditions, self._in(a, frozenset(levels))], self._in(b, good))

    def _in(self, v: int, levels: frozenset[int]) -> str:
        """The condition that a factor has one of these levels (not all and not none), in its shorter form."""
        parameter = self._expander.space.parameters[v]
        others = frozenset(range(len(parameter.levels))) - levels
        chosen, single, several = (
            (levels, "=", "IN") if len(levels) <= len(others) else (others, "<>", "NOT IN")
        )
        texts = [_literal(parameter.levels[n]) for n in sorted(chosen)]
        if len(texts) == 1:
            return f"[{parameter.name}] {single} {texts[0]}"
        return f"[{parameter.name}] {several} {{{', '.join(texts)}}}"


def _changed(row: Sequence[int], levels: dict[int, int]) -> list[int]:
    return [levels.get(v, n) for v, n in enumerate(row)]


def _rule(conditions: list[str], then: str) -> str:
    return f"IF {' AND '.join(conditions)} THEN {then}" if conditions else then


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if "'" in text else f"'{text}'"


def _literal(value: fields.Scalar) -> str:
    """A value in the syntax of constraints."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return f"{Decimal(repr(value)):f}"
