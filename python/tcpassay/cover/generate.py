"""Cases from a space, by a strategy. A suite is a function of (space, strategy, seed, existing cases).

| strategy | cases | how many |
| --- | --- | --- |
| `Full` | every allowed combination of valid levels, in lexical order | their number, known before |
| `TWay` | a covering array: all allowed combinations of any t; more in families | about d^t log n |
| `Random` | different allowed combinations, each equally likely | the requested number |
| `Boundary` | the default; each ordered parameter at its lowest and highest; all lowest; all highest | 2 n |
| `OneAtATime` | the default, then each other level of each parameter alone | the number of levels |

If the default or a single change of it is not allowed, it is replaced by the allowed case that differs from it in the
fewest parameters.

A case has at most one invalid level, because the refusal of one would hide that of another (PICT's "negative testing");
the constraints that mention its parameter do not apply to the case. `TWay` combines an invalid level with every level
of the other parameters for any t; the other strategies have one case per invalid level, otherwise with defaults.

All strategies keep existing cases as a prefix. `TWay` builds strength t on its own array of strength t - 1, and
families before strengths above 2, so that increasing the strength from 2 to 4 keeps the existing cases even if only the
seed is known.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from tcpassay.cover.space import Demand, Rows, Space
from tcpassay.errors import UserError
from tcpassay.plan.quantity import Value, quantity

if TYPE_CHECKING:
    from tcpassay.cover.network import Network

STRENGTHS: Final = range(2, 7)
"""Interaction strengths of `TWay` and of families."""


@dataclass(frozen=True, slots=True)
class Family:
    """Parameters that are covered with a strength of their own."""

    name: str
    parameters: tuple[str, ...]
    strength: int
    """2 to 6; with as many parameters or fewer, their full product."""


@dataclass(frozen=True, slots=True)
class Full:
    """Every allowed combination."""

    limit: int = 100_000
    """The maximum number of cases."""


@dataclass(frozen=True, slots=True)
class TWay:
    """A covering array of one strength over all parameters, and of other strengths over families."""

    strength: int = 2
    families: tuple[Family, ...] = ()

    def demands(self, space: Space) -> list[Demand]:
        """The required coverage. The first demand applies to all parameters.

        Raises `UserError` for a strength out of range or a family without parameters.
        """
        return self.stages(space)[-1]

    def stages(self, space: Space) -> list[list[Demand]]:
        """The stages of construction; the last one includes everything.

        The order is: pairs of all parameters, the families, higher strengths of all parameters. A plan therefore keeps
        its cases when its strength increases, and when a family is added or strengthened at strength 2.
        """
        _in_range(self.strength, "the plan")
        members = []
        for family in self.families:
            what = f"the family `{family.name}`"
            _in_range(family.strength, what)
            named = {space.parameter(name, what) for name in family.parameters}
            members.append(tuple(v for v in sorted(named) if v in space.free))
        strengths = [min(STRENGTHS)] * (1 + len(members))
        steps = [list(strengths)]
        for n, wanted in [*enumerate((f.strength for f in self.families), 1), (0, self.strength)]:
            while strengths[n] < wanted:
                strengths[n] += 1
                steps.append(list(strengths))
        return [[Demand(on, t) for on, t in zip((space.free, *members), step, strict=True)] for step in steps]


@dataclass(frozen=True, slots=True)
class Random:
    """Different combinations, drawn with equal probability; all combinations if there are fewer."""

    count: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """The default case, and the cases with lowest and highest levels."""


@dataclass(frozen=True, slots=True)
class OneAtATime:
    """The default case, and one case for each other level."""


Strategy = Full | TWay | Random | Boundary | OneAtATime


@dataclass(frozen=True)
class Suite:
    """Cases of a space."""

    space: Space
    rows: Rows
    notes: tuple[str, ...] = field(default=())
    """Limitations of the result, each as a sentence."""

    def __len__(self) -> int:
        return len(self.rows)

    def cases(self) -> Iterator[dict[str, Value]]:
        """The cases in order."""
        for row in self.rows:
            yield self.space.values(row)


def generate(
    space: Space, strategy: Strategy, seed: int = 0, existing: Iterable[Mapping[str, Value]] = ()
) -> Suite:
    """The cases of `strategy`, after the `existing` ones.

    Raises `UserError` for a contradiction, a product above the limit, or an existing case outside the space.
    """
    if space.tables:
        from tcpassay.cover.contradiction import check  # noqa: PLC0415 - numpy is a quarter of the start-up time

        check(space)
    before = space.rows(existing)
    _check_existing(space, before)
    notes: list[str] = []
    if isinstance(strategy, TWay):
        from tcpassay.cover.coverwise_model import covering  # noqa: PLC0415 - numpy is a quarter of the start-up time

        rows = before
        for demands in strategy.stages(space):
            rows = covering(space, demands, seed, rows)
    else:
        match strategy:
            case Full(limit):
                wanted = _full(space, limit)
            case Random(count):
                wanted = _random(space, count, seed)
            case Boundary():
                wanted = _departures(space, _boundaries(space), notes)
            case OneAtATime():
                wanted = _departures(space, _singles(space), notes)
        negatives = [_refused(space, v, level) for v, level in space.invalid]
        rows = _extended(before, [*wanted, *negatives])
    return Suite(space, rows, tuple(notes))


def count(space: Space) -> int:
    """The exact number of allowed combinations of valid levels, without generating them."""
    return _network(space).count() if space.tables else prod(space.sizes)


def _network(space: Space, but: int | None = None) -> "Network":
    """The solver without the constraints that mention a parameter."""
    from tcpassay.cover.network import Network  # noqa: PLC0415 - numpy is a quarter of the start-up time

    return Network(space.sizes, tuple(table for table in space.tables if but not in table.scope))


def _in_range(strength: int, what: str) -> None:
    if strength not in STRENGTHS:
        raise UserError(
            f"{what} has the interaction strength {strength}; allowed are {STRENGTHS[0]} to {STRENGTHS[-1]}"
        )


def _check_existing(space: Space, rows: Rows) -> None:
    for n, row in enumerate(rows):
        bad = [v for v, level in enumerate(row) if level >= space.sizes[v]]
        if len(bad) > 1:
            named = " and ".join(f"`{space.parameters[v].name}`" for v in bad)
            raise UserError(f"existing case {n} has invalid values of {named}; at most one is allowed")
        for table in space.tables:
            if (
                not any(v in table.scope for v in bad)
                and not table.allowed[tuple(row[v] for v in table.scope)]
            ):
                raise UserError(f"existing case {n} violates the constraint {table.constraint}")


def _refused(space: Space, variable: int, level: int) -> list[int]:
    """The case for one invalid level that is closest to the default under the other constraints."""
    row = _network(space, but=variable).nearest(_default(space), {})
    if row is None:
        raise AssertionError("fewer constraints cannot contradict each other when all do not")
    row[variable] = level
    return row


def _full(space: Space, limit: int) -> list[list[int]]:
    number = count(space)
    if number > limit:
        raise UserError(
            f"the full product has {number} cases, more than the limit of {limit}; raise the limit, fix "
            "parameters, or use the strategy t-way"
        )
    if not space.tables:
        return [list(row) for row in product(*map(range, space.sizes))]
    return _network(space).all()


def _random(space: Space, wanted: int, seed: int) -> list[list[int]]:
    if wanted < 0:
        raise UserError(f"{wanted} random cases: the number must be 0 or more")
    network = _network(space)
    draw, rng = network.sampler(), random.Random(seed)  # noqa: S311  (the numbers must be reproducible)
    most = min(wanted, network.count())
    rows: dict[tuple[int, ...], None] = {}
    # When all combinations are requested, drawing until the last one is found would take number * log(number) draws.
    while len(rows) < most:
        rows.setdefault(tuple(draw(rng)))
    return [list(row) for row in rows]


def _default(space: Space) -> list[int]:
    return [parameter.default for parameter in space.parameters]


def _departures(
    space: Space, wanted: Iterable[tuple[list[int], Mapping[int, int]]], notes: list[str]
) -> list[list[int]]:
    network = _network(space)
    rows = []
    for target, fixed in wanted:
        row = network.nearest(target, fixed)
        if row is not None:
            rows.append(row)
            continue
        for v, level in fixed.items():
            parameter = space.parameters[v]
            notes.append(
                f"no case has `{parameter.name}` = `{parameter.levels[level]}`: the constraints exclude it"
            )
    return rows


def _singles(space: Space) -> Iterator[tuple[list[int], Mapping[int, int]]]:
    default = _default(space)
    yield default, {}
    for v, parameter in enumerate(space.parameters):
        for level in range(len(parameter.levels)):
            if level != parameter.default:
                yield default, {v: level}


def _boundaries(space: Space) -> Iterator[tuple[list[int], Mapping[int, int]]]:
    default = _default(space)
    lowest, highest = list(default), list(default)
    yield default, {}
    for v, parameter in enumerate(space.parameters):
        ends = _ends(parameter.levels)
        if ends is not None:
            lowest[v], highest[v] = ends
            yield from ((default, {v: end}) for end in ends)
    yield lowest, {}
    yield highest, {}


def _ends(levels: Sequence[Value]) -> tuple[int, int] | None:
    """The lowest and the highest ordered level; with several kinds of values, those of the first kind."""
    meanings = [(n, meaning) for n, level in enumerate(levels) if (meaning := quantity(level)).ordered]
    lowest = highest = meanings[0] if meanings else None
    if lowest is None or highest is None:
        return None
    for candidate in meanings[1:]:
        if candidate[1].less(lowest[1]):
            lowest = candidate
        if highest[1].less(candidate[1]):
            highest = candidate
    return (lowest[0], highest[0]) if lowest != highest else None


def _extended(existing: Rows, wanted: Iterable[Sequence[int]]) -> Rows:
    """The existing rows, then the wanted rows that are not among them."""
    seen = {tuple(row) for row in existing}
    return [*existing, *(list(row) for row in dict.fromkeys(map(tuple, wanted)) if row not in seen)]
