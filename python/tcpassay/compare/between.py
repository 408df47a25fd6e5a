"""Which value of a parameter is better for which metric, by the levels of another parameter.

Several parameters are ranked by their combinations. Each two values are compared as the two sides of a comparison:
paired by case and seed, tested by the signed ranks of the seeds. The statements hold together at the confidence of the
options: the correction covers the metrics, the pairs of values and the levels. With `simultaneous=False` each two
values are tested for themselves.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, islice, product

from tcpassay.compare.comparison import Comparison, compare
from tcpassay.compare.direction import direction
from tcpassay.compare.effect import Effect, Options, Verdict, corrected, describe, reversed_, undecided
from tcpassay.compare.pairing import SUBSTRATE, Sides
from tcpassay.errors import Place, UserError
from tcpassay.interface import Direction
from tcpassay.levels import unit_of
from tcpassay.plan.document import suggest
from tcpassay.result_format import RunRow
from tcpassay.results import Results, as_text


@dataclass(frozen=True, slots=True)
class Better:
    """One value is significantly better than another."""

    value: str
    than: str
    effect: str
    """From `than` to `value`, with its interval."""
    p: float
    """After the correction for several metrics."""


@dataclass(frozen=True, slots=True)
class Against:
    """A value beside the one with the best median."""

    value: str
    verdict: Verdict
    effect: str
    """From the best to this value, with its interval."""
    p: float | None
    """After the correction; `None` if all pairs are equal, or without a test."""
    needed: int | None
    """For an undecided difference about the number of seeds that decide, or of cases."""
    unit: str
    """What was counted: `seed` or `case`."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The values of the parameter for one metric at one level."""

    level: str
    """The level of the other parameter; of several as `queue.limit = 50KB, link.loss = 0`; empty for all runs."""
    metric: str
    medians: dict[str, float]
    """By value; of the seeds (`Effect.median_a`).

    First those to which no other is significantly better, in each part the best first."""
    best: tuple[str, ...]
    """Values to which no other is significantly better, the best median first."""
    better: tuple[Better, ...]
    against: tuple[Against, ...]
    """Each other value beside the first of `medians`."""
    undecided: tuple[str, ...]
    """Pairs of values about which these runs cannot decide, in words."""

    @property
    def hidden(self) -> list[str]:
        """Those of the undecided pairs that `against` does not show."""
        shown = {one.value for one in self.against if one.verdict is Verdict.UNDECIDED}
        first = next(iter(self.medians), "")
        pairs = {f"{a} and {b}" for value in shown for a, b in ((first, value), (value, first))}
        return [words for words in self.undecided if words.partition(": ")[0] not in pairs]


@dataclass(frozen=True, slots=True)
class Rankings:
    """All rankings of a result."""

    folder: str
    between: str
    by: str | None
    confidence: float
    correction: str
    pairs: int
    """Number of pairs of values, at all levels, that the correction covers."""
    tests: int
    """Number of tests that it covers: of the metrics of each pair those that differ."""
    metrics: str
    """Where the metrics come from, in words."""
    over: tuple[str, ...]
    """Other parameters, over all values of which the statements are."""
    rankings: tuple[Ranking, ...]

    @property
    def undecided(self) -> bool:
        """Whether the runs cannot decide about some pair of values."""
        return any(ranking.undecided for ranking in self.rankings)

    def as_json(self) -> dict[str, object]:
        """The rankings as a JSON object."""
        return asdict(self)


def between(  # noqa: PLR0913 - what is compared, and how
    results: Results,
    parameter: str | Sequence[str],
    by: str | Sequence[str] | None = None,
    options: Options | None = None,
    *,
    simultaneous: bool = True,
    among: Collection[str] | None = None,
    where: Sequence[tuple[str, str]] = (),
) -> Rankings:
    """Compares each two values of `parameter`, or combinations of several, at each level of `by`, or of several.

    With `where` only runs with these values are compared; a compared parameter, or one of `by`, may have several. Names
    may be the last parts of paths. With `among` only these values are compared; the correction covers all, so that the
    choice may depend on the results.
    Raises `UserError` if the parameters do not vary, if one has no level, or if nothing can be compared.
    """
    names = [named(results, "--between", name) for name in _listed(parameter)]
    below = [named(results, "--by", name) for name in _listed(by)]
    only, several = _wheres(results, where, {*names, *below})
    if twice := next((name for name in below if name in names), None):
        raise UserError(f"`--by {twice}`: it is in `--between`, too; leave out one")
    sides = {
        value: parts for value, parts in candidates(results, names, only).items() if _within(parts, several)
    }
    if len(sides) == 1:
        raise UserError(
            f"`{', '.join(names)}` has one value in these runs; there is nothing to compare",
            Place(results.folder),
        )
    places: dict[str, dict[str, str]] = candidates(results, below, only) if below else {"": {}}
    places = {value: parts for value, parts in places.items() if _within(parts, several)}
    pairs = list(combinations(sides, 2))
    shown = [value for value in sides if among is None or value in among]
    tests = len(pairs) * len(places) if simultaneous else 1
    chosen = replace(options or Options(), beside=tests)
    compared: list[tuple[str, list[_Pair]]] = []
    for place in places.values():
        at = only | place
        level = next(iter(place.values()), "")
        if len(place) > 1:
            level = ", ".join(f"{name} = {value}" for name, value in place.items())
        of_level = [
            _Pair(a, b, compare(results, results, chosen, Sides(sides[a] | at, sides[b] | at)))
            for a, b in combinations(shown, 2)
        ]
        compared.append((level, of_level))
    all_pairs = [pair for _, of_level in compared for pair in of_level]
    metrics = dict.fromkeys(effect.metric for pair in all_pairs for effect in pair.comparison.effects)
    if simultaneous:
        unknown = (tests - len(all_pairs)) * len(metrics)
        tests = _together(all_pairs, chosen, unknown)
    made = [
        _ranking(level, metric, shown, of_level)
        for level, of_level in compared
        for metric in dict.fromkeys(effect.metric for pair in of_level for effect in pair.comparison.effects)
    ]
    return Rankings(
        str(results.folder),
        ", ".join(names),
        ", ".join(below) or None,
        chosen.confidence,
        chosen.correction,
        len(pairs) * len(places) if simultaneous else 1,
        tests,
        all_pairs[0].comparison.family,
        _over(results, {*names, *below}, only),
        tuple(made),
    )


@dataclass(slots=True)
class _Pair:
    """Two values and their comparison."""

    a: str
    b: str
    comparison: Comparison


def _together(pairs: Sequence[_Pair], options: Options, unknown: int) -> int:
    """Corrects the p values of all these comparisons at once, beside `unknown` others; returns the number of tests."""
    made = [effect for pair in pairs for effect in pair.comparison.effects]
    tests = sum(effect.p is not None for effect in made) + unknown
    effects = iter(corrected(made, options, tests))
    for pair in pairs:
        count = len(pair.comparison.effects)
        pair.comparison = replace(pair.comparison, effects=tuple(islice(effects, count)))
    return tests


def _wheres(
    results: Results, where: Sequence[tuple[str, str]], compared: Collection[str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The parameters with one value, and the compared ones with several. Raises `UserError` for several of another."""
    given: dict[str, list[str]] = {}
    for name, value in where:
        given.setdefault(named(results, "--where", name), []).append(value)
    for name, values in given.items():
        if wrong := next((value for value in values if value not in (known := levels(results, name))), None):
            raise UserError(f"`--where {name}={wrong}`: the values are {', '.join(known)}")
        if len(values) > 1 and name not in compared:
            raise UserError(f"`--where {name}=...`: give one value, or the parameter to `--by`")
    only = {name: values[0] for name, values in given.items() if len(values) == 1}
    return only, {name: values for name, values in given.items() if len(values) > 1}


def _within(parts: Mapping[str, str], several: Mapping[str, Sequence[str]]) -> bool:
    return all(parts[name] in values for name, values in several.items() if name in parts)


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def named(results: Results, option: str, name: str) -> str:
    """The parameter or group that a name means: a path, or the last part of one. Raises `UserError`."""
    known = dict.fromkeys(
        path
        for run in results.runs
        for path in (SUBSTRATE, *(run.get("varied") or {}), *(run.get("triples") or {}))
    )
    meant = [name] if name in known else [path for path in known if path.rpartition(".")[2] == name]
    if len(meant) == 1:
        return meant[0]
    if meant:
        listed = ", ".join(f"`{path}`" for path in meant)
        raise UserError(f"`{option} {name}`: several parameters are called so; give one of {listed}")
    raise UserError(
        f"`{option} {name}`: no run has this parameter or group{suggest(name, known)}", Place(results.folder)
    )


def candidates(
    results: Results, names: Sequence[str], where: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """The combinations of values that runs have, by their text, in the order of the plan.

    With `where` only of runs with these values. Raises `UserError` if there are none.
    """
    if len(set(names)) < len(names):
        raise UserError(f"`{','.join(names)}`: a parameter is named twice")
    known = [levels(results, name) for name in names]
    there = {tuple(_value(run, name) for name in names) for run in _runs(results, where or {})}
    found = {
        ", ".join(values): dict(zip(names, values, strict=True))
        for values in product(*known)
        if values in there
    }
    if not found:
        said = ", ".join(f"{name}={value}" for name, value in (where or {}).items())
        raise UserError(f"`--where`: no run has {said}", Place(results.folder))
    return found


def _runs(results: Results, where: Mapping[str, str]) -> list[RunRow]:
    return [
        run
        for run in results.runs
        if run.get("outcome") != "refused"
        and all(_value(run, name) == value for name, value in where.items())
    ]


def _over(results: Results, names: Collection[str], where: Mapping[str, str]) -> tuple[str, ...]:
    """The other parameters that vary in runs with the same values of these."""
    seen: dict[str, dict[tuple[str | None, ...], set[str]]] = {}
    for run in _runs(results, where):
        place = tuple(_value(run, name) for name in names)
        for name in (SUBSTRATE, *(run.get("varied") or {})):
            seen.setdefault(name, {}).setdefault(place, set()).add(_value(run, name) or "")
    return tuple(name for name, places in seen.items() if any(len(values) > 1 for values in places.values()))


def cases_of(results: Results, names: Sequence[str]) -> dict[str, str]:
    """The combination of values (`candidates`) of each case."""
    return {str(run["case"]): ", ".join(_value(run, name) or "" for name in names) for run in results.runs}


def levels(results: Results, parameter: str) -> list[str]:
    """The values of a parameter or group in the runs of a result, in the order of the plan.

    Raises `UserError` if there is none.
    """
    found: dict[str, None] = {}
    for run in results.runs:
        if run.get("outcome") == "refused":
            continue
        value = _value(run, parameter)
        if value is not None:
            found[value] = None
    if not found:
        raise UserError(f"no run has the parameter or group `{parameter}`", Place(results.folder))
    return list(found)


def _value(run: RunRow, parameter: str) -> str | None:
    """The value of a parameter, group or the substrate in a run; `None` if it sets none."""
    said = {
        SUBSTRATE: str(run.get("substrate") or "model"),
        **(run.get("triples") or {}),
        **(run.get("varied") or {}),
    }
    return str(as_text(said[parameter])) if parameter in said else None


def _ranking(level: str, metric: str, values: Sequence[str], compared: Sequence[_Pair]) -> Ranking:
    unit = unit_of(metric)
    # Values may have different seeds, as where `ask` ends early for some: their medians are those of the most seeds.
    medians: dict[str, float] = {}
    counted: dict[str, int] = {}
    effects: dict[tuple[str, str], Effect] = {}
    for pair in compared:
        a, b = pair.a, pair.b
        effect = next((one for one in pair.comparison.effects if one.metric == metric), None)
        if effect is None:
            continue
        for value, median in ((a, effect.median_a), (b, effect.median_b)):
            if median is not None and effect.pairs > counted.get(value, 0):
                medians[value], counted[value] = median, effect.pairs
        effects[a, b], effects[b, a] = effect, reversed_(effect)
    better = [
        _better(a, b, effect, unit) for (a, b), effect in effects.items() if effect.verdict is Verdict.BETTER
    ]
    beaten = {one.than for one in better}
    sign = -1 if direction(metric) is Direction.HIGHER else 1
    there = sorted(
        (value for value in values if value in medians),
        key=lambda value: (value in beaten, sign * medians[value]),
    )
    return Ranking(
        level,
        metric,
        {value: medians[value] for value in there},
        tuple(value for value in there if value not in beaten),
        tuple(better),
        tuple(
            _against(value, effects[there[0], value], unit)
            for value in there[1:]
            if (there[0], value) in effects
        ),
        tuple(
            f"{a} and {b}: {undecided(effect).partition(': ')[2]}"
            for (a, b), effect in effects.items()
            if effect.verdict is Verdict.UNDECIDED and values.index(a) < values.index(b)
        ),
    )


def _better(than: str, value: str, effect: Effect, unit: str) -> Better:
    return Better(value, than, describe(effect, unit), effect.p_adjusted or 0.0)


def _against(value: str, effect: Effect, unit: str) -> Against:
    return Against(
        value, effect.verdict, describe(effect, unit), effect.p_adjusted, effect.needed, effect.unit
    )
