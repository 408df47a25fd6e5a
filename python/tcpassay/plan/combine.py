"""The combinations of a plan that become cases: space, strategy, cases."""

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tcpassay import _native
from tcpassay.cover import generate
from tcpassay.cover.generate import Suite
from tcpassay.cover.space import Derived, Parameter, Space
from tcpassay.errors import Place, Problem, UserError
from tcpassay.plan import constraint_parser, fields, model, scripted, stated, table
from tcpassay.plan.document import Document
from tcpassay.plan.expand import Case, Expander, Level, factors
from tcpassay.plan.quantity import quantity
from tcpassay.plan.refusals import Refusals
from tcpassay.search import evolution
from tcpassay.search.space import TRIES, SearchSpace
from tcpassay.search.spending import Spending

MOST_TUPLES: Final = 20_000_000
"""Maximum number of combinations of a covering array; generating more takes hours."""
MOST_RUNS: Final = 10_000_000
"""Maximum number of runs (cases times seeds times repetitions); a larger number is a mistake."""
MANY: Final = 5_000
"""Number of cases above which the values of the factors are checked before all cases, which take a second or more."""
MOST_NOTES: Final = 20
"""Maximum number of notes about levels that no case has."""


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a plan, and the space from which they were selected."""

    cases: list[Case]
    suite: Suite
    notes: tuple[str, ...]
    """Notes for the author of the plan that are not errors, each as a sentence."""


def cases(spec: model.PlanFile, doc: Document, most_problems: int) -> Cases:
    """The cases of the plan's strategy; of a search those of its first generation.

    Raises `UserError` with all errors in them.
    """
    if isinstance(spec.strategy, model.Search):
        return _first_of_search(spec, spec.strategy, doc)
    with _placed(doc.place("constraints")):
        space = space_of(spec, doc)
        suite = _suite(spec, doc, space)
        dead = _dead(space)
    expander = Expander(spec, doc, space)
    refusals = Refusals(expander, len(suite), most_problems)
    made = _checked(expander, suite, refusals)
    if (spec.scripts or spec.case) and not (spec.fixed or spec.axes or spec.groups or spec.negative):
        made.clear()  # a plan that contains only scripts or stated cases; it has no case without settings
    made += stated.cases(spec, doc)
    problems = dict.fromkeys([*refusals.problems(), *_twins(made, doc)])
    if problems:
        raise UserError.several(itertools.islice(problems, most_problems))
    made += scripted.cases(spec, doc)
    notes = (*suite.notes, *dead, *space.unmatched())
    return Cases(made, suite, notes)


def _checked(expander: Expander, suite: Suite, refusals: Refusals) -> list[Case]:
    """The cases of the rows that the data plane accepts; the others are added to `refusals`."""
    if len(suite) > MANY:
        _first_checked(expander, suite, refusals)
        if refusals.found:
            return []
    made: list[Case] = []
    for row in suite.rows:
        try:
            made += expander.cases(row)
        except _native.CaseError as error:
            refusals.add(row, error.args[0])
            if refusals.full:
                break
    return made


def _first_checked(expander: Expander, suite: Suite, refusals: Refusals) -> None:
    """Checks the first cases that have each value of each factor, so that an error in a value is reported soon.

    The other cases with the same errors are counted, not checked.
    """
    seen: list[set[int]] = [set() for _ in suite.space.parameters]
    missing = sum(max(1, len(parameter.all_levels)) for parameter in suite.space.parameters)
    for row in suite.rows:
        new = [known for known, level in zip(seen, row, strict=True) if level not in known]
        if not new:
            continue
        for known, level in zip(seen, row, strict=True):
            known.add(level)
        try:
            expander.cases(row)
        except _native.CaseError as error:
            refusals.add(row, error.args[0])
        missing -= len(new)
        if missing <= 0 or refusals.full:
            break
    if refusals.found:
        refusals.count(suite.rows)


def _first_of_search(spec: model.PlanFile, strategy: model.Search, doc: Document) -> Cases:
    """The first generation of a search. Raises `UserError` if none of many combinations is allowed."""
    space = SearchSpace.of(spec, doc.file.parent)
    spending = Spending.of(spec, strategy.budget)
    place = doc.place("strategy")
    if not spending.cases(1):
        raise UserError(
            f"`strategy.budget.runs` = `{spending.runs}`: less than the {spending.of_case} runs of a case (seeds times "
            "repetitions)",
            doc.place("strategy", "budget", "runs"),
        )
    made = evolution.first(space, strategy, spending.cases(strategy.population))
    if not made:
        why = f"{space.unmet} violate `constraints`, and the data plane refuses {space.refused}"
        first = f"; the first: {space.refusal}" if space.refusal else ""
        raise UserError(f"none of {TRIES} random combinations is a valid case: {why}{first}", place)
    notes = []
    if space.refused:
        notes.append(
            f"the data plane refuses {space.refused} of {space.refused + len(made)} combinations that were drawn, and "
            f"the search omits them; the first: {space.refusal}"
        )
    return Cases(made, Suite(Space(()), []), tuple(notes))


def _dead(space: Space) -> list[str]:
    """The levels that no case can have, each as a sentence."""
    if not space.tables:
        return []
    from tcpassay.cover.contradiction import dead_levels  # noqa: PLC0415 - numpy is a quarter of the start-up time

    return [str(level) for level in dead_levels(space, MOST_NOTES)]


def strategy_of(spec: model.PlanFile) -> generate.Strategy:
    """The plan's strategy in the form of the generator."""
    match spec.strategy:
        case model.Full():
            return generate.Full(spec.limits.cases)
        case model.TWay(strength=strength, family=families):
            named = (generate.Family(family_name(one), tuple(one.of), one.strength) for one in families)
            return generate.TWay(strength, tuple(named))
        case model.Random(count=count):
            return generate.Random(count)
        case model.Boundary():
            return generate.Boundary()
        case model.OneAtATime():
            return generate.OneAtATime()
        case model.Search(budget=budget):
            # What the coverage of its cases is compared with.
            return generate.Random(budget.runs or 0)


def family_name(family: model.Family) -> str:
    """The name of a family: its members without their common prefix."""
    return " x ".join(name.split(".")[-1] for name in family.of)


@contextlib.contextmanager
def _placed(place: Place) -> Iterator[None]:
    """Adds a position to an error of the generator, which has none."""
    try:
        yield
    except UserError as error:
        raise UserError.several(
            Problem(problem.message, problem.place or place) for problem in error.problems
        ) from None


def space_of(spec: model.PlanFile, doc: Document) -> Space:
    """The factors, and the parameters that constraints and negative values need in addition."""
    varying = factors(spec)
    constraints = [
        constraint_parser.parse(text, doc.place("constraints", index))
        for index, text in enumerate(spec.constraints)
    ]
    parameters = [
        Parameter(
            name,
            tuple(level.value for level in among),
            tuple(spec.negative.get(name, ())),
            _simplest(name, among),
        )
        for name, among in varying.items()
    ]
    derived = [
        Derived(path, name, tuple(level.triples.get(path, _unset(spec, path)) for level in varying[name]))
        for name in spec.groups
        for path in dict.fromkeys(path for level in varying[name] for path in level.triples)
    ]
    values = {one.name: (one.name, one.levels) for one in parameters}
    values |= {one.name: (one.parameter, one.values) for one in derived}
    mentioned = (path for constraint in constraints for path in constraint.parameters)
    for path in dict.fromkeys([*spec.negative, *mentioned]):
        plain = path.rpartition("/")[2]
        if path in values:
            continue
        if path in spec.fixed or plain not in values:
            value = spec.fixed.get(path, spec.fixed.get(plain, default(path)))
            parameters.append(Parameter(path, (value,), tuple(spec.negative.get(path, ()))))
        else:
            derived.append(Derived(path, *values[plain]))
    return Space(tuple(parameters), tuple(constraints), tuple(derived))


def _unset(spec: model.PlanFile, path: str) -> fields.Scalar:
    """The value of a parameter in a level of a group that does not set it."""
    return spec.fixed.get(path, default(path))


def default(path: str) -> fields.Scalar:
    """The value of a parameter that a plan does not set; empty for an unknown name."""
    row = table.parameters().get(path.rpartition("/")[2])
    return row.default if row else ""


def _simplest(name: str, among: Sequence[Level]) -> int:
    """The index of the level that is the parameter's default, or of the first level."""
    wanted = quantity(default(name))
    return next((n for n, level in enumerate(among) if quantity(level.value) == wanted), 0)


def _suite(spec: model.PlanFile, doc: Document, space: Space) -> Suite:
    """The rows of the strategy; errors about their number are raised before they are generated."""
    limit = spec.limits.cases
    place = doc.place("strategy") if "strategy" in doc.data else doc.place("axes")
    match spec.strategy:
        case model.Full():
            number = generate.count(space)
            if number > limit:
                raise UserError(
                    f"the full product has {number} cases; allowed are at most {limit} (`limits.cases`): fix "
                    "parameters, add constraints, or choose another strategy than `full`",
                    place,
                )
        case model.TWay(strength=strength, family=families):
            free = [space.sizes[v] for v in space.free]
            _few_enough(space, strength, limit, place)
            number = tuples(free, strength)
            for family in families:
                members = {space.parameter(name, "a family") for name in family.of}
                number += tuples([space.sizes[v] for v in members], family.strength)
            if number > MOST_TUPLES:
                raise UserError(
                    f"a strength of {strength} has {number} combinations to cover; allowed are at most "
                    f"{MOST_TUPLES}: choose a lower strength, and a higher one for a family",
                    place,
                )
    seed = spec.strategy.seed if isinstance(spec.strategy, model.TWay | model.Random) else 0
    suite = generate.generate(space, strategy_of(spec), seed)
    if len(suite) > limit:
        raise UserError(
            f"the strategy makes {len(suite)} cases; allowed are at most {limit} (`limits.cases`)", place
        )
    runs = len(suite) * len(spec.substrates) * len(spec.seeds) * spec.repetitions
    if runs > MOST_RUNS:
        raise UserError(
            f"{len(suite)} cases, {len(spec.seeds)} seeds and {spec.repetitions} repetitions make {runs} runs; "
            f"allowed are at most {MOST_RUNS}",
            doc.place("seeds"),
        )
    return suite


def _few_enough(space: Space, strength: int, limit: int, place: Place) -> None:
    """Raises `UserError` if a covering array of this strength needs more cases than `limit`.

    A covering array has at least one case for each combination of levels of any `strength` parameters; the parameters
    with the most levels give the largest lower bound. If constraints mention one of them, fewer combinations may be
    allowed, and the bound uses the parameters that no constraint mentions.
    """
    tied = {v for one in space.tables for v in one.scope}
    free = sorted((v for v in space.free if v not in tied), key=lambda v: -space.sizes[v])[:strength]
    least = math.prod(space.sizes[v] for v in free)
    if least > limit:
        names = ", ".join(f"`{space.parameters[v].name}`" for v in free)
        raise UserError(
            f"a strength of {strength} needs at least {least} cases, because that is the number of combinations of the "
            f"levels of {names}; allowed are at most {limit} (`limits.cases`): take fewer levels or a lower strength",
            place,
        )


def tuples(sizes: Iterable[int], strength: int) -> int:
    """The number of combinations of levels of any `strength` parameters, or of all if there are fewer."""
    listed = list(sizes)
    if len(listed) <= strength:
        return math.prod(listed)
    sums = [1] + [0] * strength
    for size in listed:
        for t in range(strength, 0, -1):
            sums[t] += sums[t - 1] * size
    return sums[strength]


def _twins(made: list[Case], doc: Document) -> Iterator[Problem]:
    first: dict[str, Case] = {}
    for case in made:
        twin = first.setdefault(case.id, case)
        if twin is not case:
            section = next((name for name in ("axes", "groups") if doc.data.get(name)), "case")
            yield Problem(
                f"`{section}`: `{twin.label}` and `{case.label}` are the same case", doc.place(section)
            )
