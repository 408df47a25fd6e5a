"""Cases that the data plane refuses: what is wrong, and the constraint that would leave them out.

A refused case is never dropped in silence: what a plan covers must be what it says. So the plan is refused, with the
constraint that its author may add. It is found by asking the data plane about the neighbours of a refused case: a
factor matters when another of its levels makes the refusal go away.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from tcpassay.errors import Problem
from tcpassay.plan import model
from tcpassay.plan.constraints import compare
from tcpassay.plan.expand import Expander

Error = tuple[str, str | None, str | None, str]
"""Path, the other path that it contradicts, value, what is wrong."""
Rule = tuple[str, str | None]
"""What a refusal is about: the same for all cases that break the same rule."""

_MOST_QUESTIONS: Final = 5_000
"""To the data plane about one refusal, a second's worth; a plan of longer lists gets no suggestion."""
_RELATIONS: Final[tuple[Literal["=", "<=", ">=", "<", ">"], ...]] = ("=", "<=", ">=", "<", ">")


class _TooManyError(Exception):
    """More would have to be asked than a suggestion is worth."""


@dataclass(slots=True)
class _Refusal:
    """A rule that cases break, and which of them."""

    rule: Rule
    error: Error
    row: list[int]
    among: dict[int, frozenset[int]]
    """For factors that matter, the levels with which the rule is broken."""
    pair: tuple[int, int] | None = None
    """Two factors that contradict each other where the others are as in `among`."""
    bad: dict[int, frozenset[int]] = field(default_factory=dict)
    """For each level of the first of the pair the levels of the second that it cannot meet."""
    count: int = 0

    def holds(self, row: Sequence[int]) -> bool:
        if any(row[v] not in levels for v, levels in self.among.items()):
            return False
        return self.pair is None or row[self.pair[1]] in self.bad.get(row[self.pair[0]], ())


class Refusals:
    """Collects what the data plane refuses of a plan's `total` cases."""

    def __init__(self, expander: Expander, total: int, most: int) -> None:
        self._expander = expander
        self._total = total
        self._most = most
        self._found: list[_Refusal] = []
        self._asked: dict[tuple[int, ...], frozenset[Rule]] = {}

    @property
    def full(self) -> bool:
        """Whether there is enough to show."""
        return len(self._found) >= self._most

    def add(self, row: list[int], errors: Iterable[Error]) -> None:
        """A case that was refused."""
        for error in errors:
            rule = error[:2]
            known = [one for one in self._found if one.rule == rule and one.holds(row)]
            if not known and not self.full:
                known = [self._understood(rule, error, row)]
                self._found += known
            for one in known[:1]:
                one.count += 1

    def problems(self) -> Iterator[Problem]:
        """Each thing that is wrong, with its place and what to do."""
        for one in self._found:
            more = ""
            if one.pair is not None:
                texts = "\n".join(f"    {_quoted(text)}," for text in self._constraints(one))
                more = f"; {one.count} of {self._total} cases; left out by `constraints` =\n{texts}"
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
            # The value itself, or what is fixed: each value is a problem of its own.
            return _Refusal(rule, error, row, {v: frozenset([row[v]]) for v in among})
        first, second = self._ends(rule, row, list(among))
        others = {v: levels for v, levels in among.items() if v not in (first, second)}
        # What does not matter in this case may matter in another of the same rule: there it is tried again.
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
        """Whether a case breaks the rule, and with each other level of what is not to matter."""
        sizes = self._expander.space.sizes
        return self._broken(rule, row) and all(
            self._broken(rule, _changed(row, {v: n})) for v in rest for n in range(sizes[v]) if n != row[v]
        )

    def _ends(self, rule: Rule, row: Sequence[int], among: list[int]) -> tuple[int, int]:
        """The factors that set the two parameters of the rule, as far as they matter; others in their place."""
        index = self._expander.space.index
        setters = [self._expander.setter(path, row) for path in rule if path]
        named = [index[str(where[1])] for where in setters if where and where[0] != "fixed"]
        order = list(dict.fromkeys([v for v in named if v in among] + among))
        return order[0], order[1]

    def _constraints(self, one: _Refusal) -> Iterator[str]:
        """Constraints that leave out exactly the cases of a refusal."""
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
        """That a factor has one of these levels, not all and not none, said the shorter way."""
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


def _literal(value: model.Scalar) -> str:
    """A value as a constraint writes it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return f"{Decimal(repr(value)):f}"
