"""Counts the coverage of cases independently of the generator.

A tuple is a choice of levels for t parameters. It is valid if some complete case that the constraints allow contains
it, and covered if one of the given allowed cases contains it. Coverage is the ratio of covered to valid tuples; missing
tuples are listed. Parameters with one level are omitted, because they would add tuples of a lower strength.

Validity is computed by the solver (`network`): for the parameters of a tuple that belong to one component of the
constraint graph, the projection of all allowed combinations, computed once per set of parameters. The tuples of an
allowed case are valid, and a tuple with an impossible pair is not; the solver decides the others. Coverage is computed
by marking the tuples of the cases in a table. For n parameters of d levels and m cases the cost is O(C(n, t) (m + t^2
d^t)), plus one elimination per pair and at most one per set of up to t parameters within a component, which is
exponential only in the width of the constraints.

Cases with an invalid level cover no valid tuple. They are counted separately: for each invalid level, the valid levels
of the other parameters with which it was combined; the constraints that mention its parameter do not apply to these
cases.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcpassay.cover.generate import STRENGTHS, TWay
from tcpassay.cover.network import Network
from tcpassay.cover.space import Rows, Space
from tcpassay.cover.tables import Allowed, Matrix, matrix
from tcpassay.plan.quantity import Value

Codes = NDArray[np.int64]
Tuple = dict[str, Value]
"""A choice of levels for some parameters."""

INVALID: Final = "invalid values"
EXAMPLES: Final = 10
"""Maximum number of listed missing tuples per line, by default."""


@dataclass(frozen=True, slots=True)
class Line:
    """The coverage of one demand at one strength: all parameters, a family, or the invalid levels."""

    name: str
    """`all parameters`, the name of a family, or `invalid values`."""
    strength: int
    parameters: int
    """Number of parameters that vary."""
    total: int
    """Valid tuples."""
    covered: int
    excluded: int
    """Number of tuples that the constraints exclude."""
    examples: tuple[Tuple, ...]
    """The first missing tuples."""

    @property
    def missing(self) -> int:
        """Number of valid tuples that no case covers."""
        return self.total - self.covered

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.missing == 0

    @property
    def invalid(self) -> bool:
        """Whether the line is about combinations with invalid levels."""
        return self.name == INVALID

    @property
    def ratio(self) -> float:
        """From 0 to 1; 1 if there is nothing to cover."""
        return self.covered / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A case that is ignored because it is not allowed."""

    case: int
    """From 0."""
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The coverage of a set of cases."""

    lines: tuple[Line, ...]
    cases: int
    forbidden: tuple[Forbidden, ...] = field(default=())

    @property
    def complete(self) -> bool:
        """Whether no line misses a tuple."""
        return all(line.complete for line in self.lines)


def verify(
    space: Space, cases: Iterable[Mapping[str, Value]], strategy: TWay, examples: int | None = EXAMPLES
) -> Report:
    """The coverage at each strength up to that of `strategy` and for each of its families.

    `examples` limits the listed missing tuples per line; `None` lists all. Raises `UserError` for a case outside the
    space.
    """
    return verify_rows(space, space.rows(cases), strategy, examples)


def verify_rows(
    space: Space, cases: Rows | Matrix, strategy: TWay, examples: int | None = EXAMPLES
) -> Report:
    """As `verify`, for cases that are rows already."""
    rows = matrix(cases, len(space.parameters))
    forbidden, invalid = _judge(space, rows)
    good = np.ones(len(rows), dtype=np.bool_)
    good[[f.case for f in forbidden]] = False
    whole, *families = strategy.demands(space)
    counter = _Counter(space, Network(space.sizes, space.tables), rows[good & (invalid < 0)], examples)
    lines = [
        counter.line("all parameters", space.free, strength)
        for strength in range(STRENGTHS[0], min(whole.strength, len(space.free)) + 1)
    ] or [counter.line("all parameters", space.free, len(space.free))]
    for family, demand in zip(strategy.families, families, strict=True):
        lines.append(
            counter.line(family.name, demand.parameters, min(demand.strength, len(demand.parameters)))
        )
    lines += _refused(space, rows[good], invalid[good], examples)
    return Report(tuple(lines), len(rows), tuple(forbidden))


def _judge(space: Space, rows: Matrix) -> tuple[list[Forbidden], NDArray[np.int64]]:
    """The cases that are not allowed; and for each case the parameter with an invalid level, or -1."""
    outside = rows >= np.array(space.sizes, dtype=np.int32)
    invalid = np.where(outside.any(axis=1), outside.argmax(axis=1), -1).astype(np.int64)
    reasons = {int(n): "more than one invalid value" for n in np.flatnonzero(outside.sum(axis=1) > 1)}
    for table in space.tables:
        scope = list(table.scope)
        judged = np.flatnonzero(~outside[:, scope].any(axis=1))
        broken = judged[~table.allowed[tuple(rows[judged][:, scope].T)]]
        for n in broken.tolist():
            reasons.setdefault(n, f"violates the constraint {table.constraint}")
    return [Forbidden(n, reason) for n, reason in sorted(reasons.items())], invalid


@dataclass(frozen=True)
class _Counter:
    """Counts tuples of valid levels in allowed rows."""

    space: Space
    network: Network
    rows: Matrix
    examples: int | None
    _projections: dict[tuple[int, ...], Allowed | None] = field(default_factory=dict, init=False)

    def line(self, name: str, parameters: Sequence[int], strength: int) -> Line:
        total = covered_total = possible = 0
        examples: list[Tuple] = []
        for scope, valid, covered in self.tuples(parameters, strength):
            number = int(np.count_nonzero(valid))
            hit = int(np.count_nonzero(valid & covered))
            total, covered_total, possible = total + number, covered_total + hit, possible + valid.size
            if hit < number and (self.examples is None or len(examples) < self.examples):
                examples += self._missing(scope, valid & ~covered)
        return Line(
            name,
            strength,
            len(parameters),
            total,
            covered_total,
            possible - total,
            tuple(examples[: self.examples]),
        )

    def tuples(
        self, parameters: Sequence[int], strength: int
    ) -> Iterator[tuple[tuple[int, ...], Allowed, Allowed]]:
        """For each set of `strength` parameters, the valid and the covered tuples, as flat arrays over levels."""
        columns = np.ascontiguousarray(self.rows.T).astype(np.int64)
        # Sets with a common prefix are consecutive, so that the code of the prefix is reused.
        codes: list[Codes] = [np.zeros(len(self.rows), dtype=np.int64)]
        before: tuple[int, ...] = ()
        for scope in combinations(sorted(parameters), strength):
            same = next(
                (n for n, (a, b) in enumerate(zip(before, scope, strict=False)) if a != b), len(before)
            )
            del codes[same + 1 :]
            for v in scope[same:]:
                codes.append(codes[-1] * self.space.sizes[v] + columns[v])
            before = scope
            covered = np.zeros(prod(self.space.sizes[v] for v in scope), dtype=np.bool_)
            covered[codes[-1]] = True
            yield scope, self._valid(scope, covered), covered

    def _valid(self, scope: tuple[int, ...], covered: Allowed) -> Allowed:
        """The valid tuples.

        The pairs of a tuple give an upper bound, the allowed cases a lower bound; the solver is used only where they
        differ.
        """
        component = self.network.component
        parts = [
            tuple(v for v in scope if component[v] == c) for c in sorted({component[v] for v in scope} - {-1})
        ]
        bound = self._product(
            scope, [pair for part in parts for pair in (combinations(part, 2) if part[1:] else [part])]
        )
        if not np.any(bound & ~covered):
            return bound
        return self._product(scope, parts)

    def _product(self, scope: tuple[int, ...], parts: Iterable[tuple[int, ...]]) -> Allowed:
        sizes = self.space.sizes
        valid = np.ones(tuple(sizes[v] for v in scope), dtype=np.bool_)
        for part in parts:
            allowed = self._projection(part)
            if allowed is not None:
                valid &= allowed.reshape([sizes[v] if v in part else 1 for v in scope])
        return valid.reshape(-1)

    def _projection(self, part: tuple[int, ...]) -> Allowed | None:
        """The allowed combinations of parameters of one component; `None` for all combinations."""
        if part not in self._projections:
            allowed = self.network.parts[self.network.component[part[0]]].project(part)
            self._projections[part] = None if allowed.all() else allowed
        return self._projections[part]

    def _missing(self, scope: tuple[int, ...], missing: Allowed) -> list[Tuple]:
        shape = tuple(self.space.sizes[v] for v in scope)
        parameters = [self.space.parameters[v] for v in scope]
        return [
            {
                p.name: p.levels[int(level)]
                for p, level in zip(parameters, np.unravel_index(code, shape), strict=True)
            }
            for code in np.flatnonzero(missing)[: self.examples]
        ]


def _refused(space: Space, rows: Matrix, invalid: NDArray[np.int64], examples: int | None) -> list[Line]:
    """For each invalid level, the levels of other parameters with which it was combined in allowed rows.

    `invalid` is for each row the parameter with an invalid level, or -1. The result has one line, or none without an
    invalid level.
    """
    total = covered = excluded = 0
    missing: list[Tuple] = []
    concerned = [v for v, parameter in enumerate(space.parameters) if parameter.invalid]
    for v in concerned:
        parameter = space.parameters[v]
        network = Network(space.sizes, tuple(table for table in space.tables if v not in table.scope))
        others = [u for u in space.free if u != v]
        for level in range(len(parameter.levels), len(parameter.all_levels)):
            mine = rows[(invalid == v) & (rows[:, v] == level)]
            line = _Counter(space, network, mine, examples).line("", others, min(1, len(others)))
            total, covered, excluded = total + line.total, covered + line.covered, excluded + line.excluded
            missing += [{parameter.name: parameter.all_levels[level], **t} for t in line.examples]
    if not concerned:
        return []
    return [Line(INVALID, 2, len(space.free), total, covered, excluded, tuple(missing[:examples]))]
