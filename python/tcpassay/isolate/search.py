"""The search for one cause: guesses from the plan's cases, delta debugging, the proof."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tcpassay.isolate.cause import Reset
from tcpassay.isolate.ddmin import Close, ddmin, spared
from tcpassay.isolate.experiment import Experiment
from tcpassay.isolate.shrink import ladder, written
from tcpassay.isolate.symptoms import Suspicion
from tcpassay.isolate.triples import DURATION, Triple, Triples, mapping_of
from tcpassay.plan.fields import Scalar
from tcpassay.plan.quantity import quantity
from tcpassay.plan.table import parameters

MOST_ALTERNATIVES: Final = 4
"""Maximum number of values that a proof tries if the default of a parameter is refused."""
EARLY: Final = 4
"""A run is shortened if its duration exceeds the time of the effect by this factor."""
SHORT_NS: Final = 250 * 10**6


def shortened(experiment: Experiment, whole: Triples, first_ns: int) -> Experiment:
    """The experiment with shorter runs, if the effect occurs early in long ones.

    A run at the default rates may be far more expensive than the plan's. Four times as long as the effect takes, and at
    least a quarter of a second, leaves time for it to show where less is set. Raises `ExhaustedError`.
    """
    said = next((one.value for one in experiment.always if one.path == DURATION), None)
    whole_ns = None if said is None else quantity(said).amount
    if not isinstance(whole_ns, Fraction) or not first_ns or whole_ns < EARLY * max(first_ns, SHORT_NS):
        return experiment
    enough = max(4 * first_ns, SHORT_NS)
    short = next((one for one in ladder(Fraction(enough), whole_ns) if one >= enough), whole_ns)
    made = replace(experiment, always=frozenset({Triple(DURATION, written(short, "a length of time", ""))}))
    return made if made.first([whole]) is not None else experiment


def close_of(experiment: Experiment) -> Close[Triple]:
    """Returns the `close` of `ddmin`: it removes triples with missing requirements, and keeps those of the run."""

    def close(triples: Triples) -> Triples | None:
        closed = experiment.setting.close(experiment.whole(triples))
        return None if closed is None else closed & triples

    return close


def smallest_set(experiment: Experiment, whole: Triples, suspicion: Suspicion) -> tuple[Triple, ...]:
    """The smallest set of triples that has the effect; `whole` must have it.

    Raises `ExhaustedError` when the budget ends before; `experiment.smallest` is the smallest so far.
    """
    experiment.smallest = whole
    order = sorted(whole, key=lambda one: _rank(one, suspicion))
    for guess in _guesses(experiment, whole, suspicion):
        if experiment.first([guess]) is not None:
            break
    else:
        guess = whole

    return ddmin([one for one in order if one in guess], experiment.first, close_of(experiment))


def confirmed(
    experiment: Experiment, short: Experiment, found: tuple[Triple, ...]
) -> tuple[Experiment, tuple[Triple, ...]]:
    """The set that was found in shorter runs, in runs of the full duration, with its experiment.

    A triple may be necessary only because without it the effect comes later than a shorter run ends: what is not
    necessary in the full duration is removed. If the effect does not show there, the shorter runs remain.
    """
    if short is experiment or experiment.first([frozenset(found)]) is None:
        return short, found
    return experiment, ddmin(found, experiment.first, close_of(experiment))


def _rank(triple: Triple, suspicion: Suspicion) -> tuple[bool, float, bool, str]:
    """The triples ordered for removal: the least likely causes first; a profile before the parameters that it sets."""
    shared = triple in suspicion.shared
    return shared, suspicion.share.get(triple, 0.0), triple.parameter != "profile", triple.path


def _guesses(experiment: Experiment, whole: Triples, suspicion: Suspicion) -> Iterator[Triples]:
    """Candidate sets, the smallest first: empty, the triples shared by its runs, these and the constant ones."""
    yield frozenset()
    setting, always, tried = experiment.setting, experiment.always, {frozenset[Triple](), whole}
    shared = suspicion.shared & whole
    fixed = whole - frozenset(suspicion.share)
    for guess in (shared, shared | fixed):
        if experiment.baseline:
            if guess not in tried and not experiment.refusal(guess):
                tried.add(guess)
                yield guess
            continue
        completed = setting.complete(guess | always, whole | always)
        if completed is not None and completed - always not in tried:
            tried.add(completed - always)
            yield completed - always


def effective(experiment: Experiment, whole: Triples, levels: Mapping[str, Sequence[Scalar]]) -> Experiment:
    """The experiment with a baseline for each triple whose default means the same beside the settings of every run.

    A default such as `profile` may stand for the value itself. Resetting to it leaves the run as it was, so that the
    triple would wrongly seem to be unnecessary. Its baseline is the first value with another run: of `levels`, the
    values in the plan, then of the table. Where no value changes the run, the default remains. Raises `ExhaustedError`.
    """
    before = experiment.trace(whole)
    for triple in sorted(whole, key=str):
        if not before or experiment.trace(whole - {triple}) != before:
            continue
        plan = [Triple(triple.path, level) for level in levels.get(triple.path, ())]
        others = [one for one in plan if not one.same(triple)] + _alternatives(experiment, triple, whole)
        for other in others:
            if experiment.trace((whole - {triple}) | {other}) not in {"", before}:
                experiment = replace(experiment, baseline=experiment.baseline | {other})
                break
    return experiment


def proof(experiment: Experiment, cause: Sequence[Triple]) -> list[Reset]:
    """Each triple of the cause reset, and whether the effect is gone.

    A triple is reset to its default. Where the rest of the cause needs it, so that the default is refused, it is
    also reset to other values, as far as these are accepted. Raises `ExhaustedError`.
    """
    whole = frozenset(cause)
    wanted: list[tuple[Triple, str, tuple[Triple, ...], Triples]] = []

    for triple, without in spared(cause, close_of(experiment)):
        also = () if without is None else tuple(sorted(whole - without - {triple}, key=str))
        if without is not None:
            wanted.append((triple, experiment.reset_value(triple), also, without))
        if also or without is None:
            others = _alternatives(experiment, triple, whole)
            wanted += [(triple, one.text, (), (whole - {triple}) | {one}) for one in others]
    rates = experiment.rates([tried for _, _, _, tried in wanted])
    return [
        Reset(triple, value, also, rate, mapping_of(experiment.whole(tried)))
        for (triple, value, also, tried), rate in zip(wanted, rates, strict=True)
    ]


def depends(experiment: Experiment, whole: Triples, cause: Sequence[Triple]) -> bool:
    """Whether an effect of a run that sets `whole`, which contains a cause, needs each triple of that cause.

    It does when it is gone with the triple reset to its default or, where it is not, to another value: in a run with a
    profile the default may mean the same. Raises `ExhaustedError`.
    """
    close = close_of(experiment)
    if not experiment.rates([whole])[0].present:
        return False
    resets = {
        path: close(frozenset(one for one in whole if one.path != path))
        for path in (one.path for one in cause)
    }
    rates = experiment.rates([one for one in resets.values() if one is not None])
    gone = {
        one
        for one, rate in zip((one for one in resets.values() if one is not None), rates, strict=True)
        if rate.absent
    }
    for triple in whole:
        if triple.path in resets and resets[triple.path] not in gone:
            others = [(whole - {triple}) | {one} for one in _alternatives(experiment, triple, whole)]
            if not any(rate.absent for rate in experiment.rates(others)):
                return False
    return True


def _alternatives(experiment: Experiment, triple: Triple, whole: Triples) -> list[Triple]:
    """Other values of a parameter that the rest of the cause allows."""
    row = parameters().get(triple.path.rpartition("/")[2])
    levels = row.levels if row else []
    others = [
        Triple(triple.path, level)
        for level in levels
        if level not in {triple.default, experiment.reset_value(triple)}
        and quantity(level) != quantity(triple.value)
    ]
    allowed = [one for one in others if not experiment.refusal((whole - {triple}) | {one})]
    return allowed[:MOST_ALTERNATIVES]
