"""The isolation of the findings of a result folder: their causes, each proven, and merged where they are the same."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tcpassay.errors import Place, UserError
from tcpassay.guard import Stop
from tcpassay.isolate import files, search, shrink
from tcpassay.isolate.asked import Question, compared, failed, is_check
from tcpassay.isolate.best import best, is_best
from tcpassay.isolate.bound import Beyond, Bound
from tcpassay.isolate.cause import Cause, Smallest, same_cause
from tcpassay.isolate.experiment import Experiment, Trials, miss, request_of
from tcpassay.isolate.isolation import Isolation, Options
from tcpassay.isolate.ran import Effect, Runs
from tcpassay.isolate.reproduce import Unreproduced, why_not
from tcpassay.isolate.runner import ChangedError, ExhaustedError, Runner
from tcpassay.isolate.symptoms import Suspicion, Symptom, by_effect, chosen, effect_of, fewest, symptoms
from tcpassay.isolate.triples import (
    DURATION,
    Setting,
    Triple,
    Triples,
    contains,
    differing,
    mapping_of,
    triples_of,
)
from tcpassay.kernel.splats import ORACLE
from tcpassay.messages import Answer, Outcome
from tcpassay.plan import constraint_parser, extends
from tcpassay.plan.expand import levels
from tcpassay.plan.model import PlanFile
from tcpassay.results import Results, load
from tcpassay.run.folder import own
from tcpassay.run.inputs import base_of
from tcpassay.run.pool import Limits
from tcpassay.run.replay import changed_commands
from tcpassay.run.settings import limits_of
from tcpassay.substrate import substrate_of
from tcpassay.trust import consent
from tcpassay.trust.unchanged import Unchanged

MOST_UNREPRODUCED: Final = 3
"""Number of findings of one kind that do not reproduce, after which the others of this kind are skipped."""


Watch = Callable[[str], None]


def isolate(
    folder: Path, finding: str | Question | None, options: Options, watch: Watch = lambda _: None
) -> Isolation:
    """Isolates a finding of a result folder, a value of a metric, or all findings. Raises `UserError`."""
    results = load(folder)
    spec = _spec(results)
    there = _symptoms(results)
    wanted: list[tuple[Symptom, Effect]] | None = None
    beyond = _beyond(finding, results, spec)
    if beyond is not None:
        there, wanted = [beyond.symptom], [(beyond.symptom, beyond.bound.effect)]
    elif isinstance(finding, str) and finding:
        wanted = [chosen(there, finding, results)]
    for name in dict.fromkeys(one.substrate for one in ([wanted[0][0]] if wanted else there)):
        substrate_of(name).ready()
    isolation = Isolation(folder, notes=[str(one) for one in results.noted])
    owner = own(folder)
    try:
        oracles = {effect.oracle for one in there for effect in one.effects}
        substrates = {one.substrate for one in there}
        commands = consent.command_digests(one.triples for one in there)
        isolation.notes += changed_commands(results, results.runs)
        meaning = files.meaning(substrates, oracles, commands)
        unchanged = Unchanged(commands, files.programs(substrates))
        if beyond is None:
            runs = Runs(folder / files.FOLDER, meaning)
        else:
            bound: dict[str, str | None] = {"bound": repr(beyond.bound)}
            runs = Runs(folder / files.FOLDER, meaning | bound, f"{beyond.bound.name}.sqlite")
        isolation.notes += runs.notes
        real_time = any(substrate_of(one.substrate).real_time for one in there)
        jobs = 1 if real_time else options.jobs
        work = folder / files.FOLDER / ".work"
        try:
            more = None if beyond is None else _shown(beyond.bound)
            limits = _limits(spec, results)
            with Stop(), Runner(runs, work, jobs, limits, options.budget, more, unchanged.changed) as runner:
                runner.watch = lambda made: watch(f"{made} runs")
                session = Session(results, spec, there, runner, options, isolation)
                session.beyond = beyond
                session.go(wanted)
        finally:
            runs.close()
    finally:
        owner.release()
    return isolation


def _limits(spec: PlanFile, results: Results) -> Limits:
    """The limits of a run of an isolation.

    Without the setting that ends its transfers, a run at the default rates may be thousands of times as expensive as
    the plan's runs. It ends when it has taken longer than all of them by a wide margin.
    """
    limits = limits_of(spec)
    longest = max((run.get("cpu_s") or 0.0 for run in results.runs), default=0.0)
    return replace(limits, seconds=min(limits.seconds or math.inf, max(_PATIENCE_S, _FACTOR * longest)))


def _beyond(finding: str | Question | None, results: Results, spec: PlanFile) -> Beyond | None:
    """The run and the limit of a metric that the user asks about; `None` for findings."""
    if isinstance(finding, Question):
        return compared(finding, results)
    if finding is not None and is_best(finding):
        return best(finding, results, spec)
    if finding is not None and is_check(finding):
        return failed(finding, results)
    return None


def _shown(bound: Bound) -> Callable[[Answer], list[Effect]]:
    """The condition that a run has the effect of a bound."""
    return lambda answer: [bound.effect] if bound.shown(answer.metrics) else []


def _spec(results: Results) -> PlanFile:
    place = results.folder / "plan.toml"
    try:
        doc = extends.load(results.plan, place)
        return PlanFile.model_validate(doc.data)
    except (UserError, ValidationError):
        said = "; ".join(str(one) for one in results.noted) or "its plan cannot be read"
        raise UserError(f"its findings cannot be isolated: {said}", Place(place)) from None


def _symptoms(results: Results) -> list[Symptom]:
    """The runs with findings. Raises `UserError` if the findings are damaged, or if no run completed."""
    there = symptoms(results)
    if not there and results.noted:
        said = "; ".join(str(one) for one in results.noted)
        raise UserError(f"its findings cannot be read: {said}", Place(results.folder))
    ended = [run for run in results.runs if run.get("outcome") not in {None, "not run"}]
    if ended and not any(run.get("outcome") in {Outcome.DONE, Outcome.REFUSED} for run in ended):
        outcomes = ", ".join(sorted({str(run["outcome"]) for run in ended}))
        message = f"none of its {len(ended)} runs completed ({outcomes}), so that there are no findings"
        raise UserError(message, Place(results.folder))
    return there


_PATIENCE_S: Final = 30.0
_FACTOR: Final = 100.0
"""How many times as long as the most expensive run of the plan a run of an isolation may take."""


class Session:
    """Isolates findings one after the other and collects their causes."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it works on
        self,
        results: Results,
        spec: PlanFile,
        there: list[Symptom],
        runner: Runner,
        options: Options,
        made: Isolation,
    ) -> None:
        self.results = results
        self.spec = spec
        self.there = there
        self.runner = runner
        self.options = options
        self.made = made
        self.base = base_of(results.folder)
        self.beyond: Beyond | None = None
        """Set if the effect is a metric beyond a limit; fixed settings of the plan are then no part of the cause."""
        self.left = {(s.case, s.seed, effect): s for s in there for effect in s.effects}

    def go(self, wanted: Sequence[tuple[Symptom, Effect]] | None) -> None:
        """Isolates these findings, or all findings."""
        try:
            for symptom, effect in wanted or self._all():
                self._one(symptom, effect)
        except ExhaustedError:
            self.made.stopped = "the budget is used up"
        except ChangedError as error:
            self.made.stopped, self.made.again = str(error), True
        except KeyboardInterrupt:
            self.made.stopped = "interrupted"
        if wanted is None:
            self.made.left = list(self.left)
        self.made.runs, self.made.made = self.runner.used, self.runner.made
        self.made.cpu_s, self.made.seconds = self.runner.cpu_s, self.runner.seconds

    def _all(self) -> Iterator[tuple[Symptom, Effect]]:
        """Findings that no cause explains yet: for each effect the run with the fewest triples."""
        for effect, among in by_effect(self.there).items():
            before = len(self.made.unreproduced)
            while mine := [one for one in among if (one.case, one.seed, effect) in self.left]:
                yield fewest(mine), effect
                if len(self.made.unreproduced) - before >= MOST_UNREPRODUCED:
                    for one in among:
                        self.left.pop((one.case, one.seed, effect), None)

    def _one(self, symptom: Symptom, effect: Effect) -> None:
        """Isolates one finding."""
        everywhere = self._everywhere(symptom, effect)
        if everywhere and not self.options.force:
            self.made.everywhere.append((effect, everywhere))
            for key in [key for key in self.left if key[2] == effect]:
                del self.left[key]
            return
        experiment, whole = self._experiment(symptom, effect)
        used, cpu_s = self.runner.used, self.runner.cpu_s
        (rate,) = experiment.rates([whole])
        if not rate.present:
            why = why_not(self.results, symptom, experiment, whole, rate)
            self.made.unreproduced.append(Unreproduced(effect, symptom.case, symptom.seed, why))
            self.left.pop((symptom.case, symptom.seed, effect), None)
            return
        if self.beyond is not None and self.beyond.against is None:
            experiment = search.effective(experiment, whole, levels(self.spec))
        short = search.shortened(experiment, whole, _first_ends(symptom, effect))
        cause = Cause(
            effect, symptom.substrate, symptom.case, symptom.seed, whole, tuple(sorted(whole, key=str)),
            short.always, rate, experiment.trials.seeds, complete=False,
        )  # fmt: skip
        try:
            self._search(cause, experiment, short, symptom)
        except (ExhaustedError, ChangedError, KeyboardInterrupt) as error:
            cause.why_not = "interrupted" if isinstance(error, KeyboardInterrupt) else "the budget is used up"
            if isinstance(error, ChangedError):
                cause.why_not = str(error)
            if short.smallest is not None and not cause.complete:
                cause.triples = tuple(sorted(short.smallest, key=str))
            raise
        finally:
            cause.runs, cause.cpu_s = self.runner.used - used, self.runner.cpu_s - cpu_s
            self._keep(cause)

    def _search(self, cause: Cause, whole: Experiment, short: Experiment, symptom: Symptom) -> None:
        suspicion = Suspicion.of(symptom, cause.effect, self.there, self.results)
        found = search.smallest_set(short, cause.whole, suspicion)
        experiment, found = search.confirmed(whole, short, found)
        cause.run = experiment.whole(frozenset(found)) - frozenset(found)
        cause.baseline = experiment.baseline
        cause.triples, cause.complete = tuple(sorted(found, key=str)), True
        (cause.rate,) = experiment.rates([frozenset(found)])
        cause.effects = experiment.effects(frozenset(found))
        cause.proof = search.proof(experiment, cause.triples)
        # A reset without randomness cannot hide an effect; of the others, that with the fewest runs is least certain.
        drawn = [row.rate.runs for row in cause.proof if row.gone and not row.rate.alike]
        cause.miss = miss(cause.rate, min(drawn)) if drawn else 0.0
        self._merge(cause)
        if self.options.reduce:
            self._shrink(cause, experiment)

    def _merge(self, cause: Cause) -> None:
        """Finds the effects of the plan's runs that need the cause but do not occur with the cause alone."""
        others: dict[Effect, list[Symptom]] = {}
        for (_, _, effect), symptom in self.left.items():
            same = symptom.substrate == cause.substrate and contains(symptom.triples, cause.core)
            if same and effect not in cause.effects | {cause.effect}:
                others.setdefault(effect, []).append(symptom)
        for effect, among in others.items():
            experiment, whole = self._experiment(min(among, key=lambda one: len(one.triples)), effect)
            if search.depends(experiment, whole, sorted(cause.core, key=str)):
                cause.consequences |= {effect}

    def _shrink(self, cause: Cause, experiment: Experiment) -> None:
        """Reduces the run, and simplifies the values of the cause."""
        small = replace(experiment, always=frozenset(), baseline=frozenset())

        def shows(triples: Triples) -> bool:
            return small.first([triples]) is not None

        triples = frozenset(cause.triples)
        simple = shrink.simpler_values(triples, lambda one: experiment.first([one]) is not None)
        simple = shrink.shorter_lists(simple, lambda one: experiment.first([one]) is not None)
        # A shorter run has another value of a metric.
        run = (
            cause.run
            if self.beyond is not None
            else shrink.shorter(simple, cause.run, lambda one: shows(one | simple))
        )
        whole = simple | run
        (rate,) = small.rates([whole])
        before = mapping_of(triples | cause.run)
        changed = {path: value for path, value in mapping_of(whole).items() if before.get(path) != value}
        cause.smallest = Smallest(mapping_of(whole), changed, experiment.setting.name(whole), rate)

    def _keep(self, cause: Cause) -> None:
        """Records the findings that the cause explains, and merges it with an equal earlier cause."""
        cause.effects |= {cause.effect}
        for (case, seed, effect), symptom in list(self.left.items()):
            mine = (case, seed) == (cause.case, cause.seed) and effect == cause.effect
            same = symptom.substrate == cause.substrate and effect in cause.effects | cause.consequences
            if mine or (cause.complete and same and contains(symptom.triples, cause.core)):
                cause.explains.append((case, seed, effect))
                del self.left[case, seed, effect]
        twin = next((one for one in self.made.causes if one.complete and same_cause(one, cause)), None)
        if twin is not None and cause.complete:
            twin.effects |= cause.effects
            twin.consequences = (twin.consequences | cause.consequences) - twin.effects
            twin.explains += cause.explains
            twin.runs, twin.cpu_s = twin.runs + cause.runs, twin.cpu_s + cause.cpu_s
        else:
            self.made.causes.append(cause)
        files.write_cause(self.results.folder, twin or cause, self.base)

    def _experiment(self, symptom: Symptom, effect: Effect) -> tuple[Experiment, Triples]:
        """The experiment for a finding, and the triples of its run that are not at their defaults."""
        place = self.results.folder / "plan.toml"
        constraints = tuple(constraint_parser.parse(text, Place(place)) for text in self.spec.constraints)
        setting = Setting(symptom.substrate, str(self.base), constraints, self.spec.groups)
        said = triples_of(symptom.triples)
        against = None if self.beyond is None else self.beyond.against
        fixed = {DURATION} if self.beyond is None else {DURATION, *self.spec.fixed}
        always, baseline = frozenset(one for one in said if one.path in fixed), frozenset[Triple]()
        if against is not None:
            said, baseline = differing(said, against)
            always = triples_of(symptom.triples) - said
        real_time = substrate_of(symptom.substrate).real_time
        request = request_of(self.spec, symptom.substrate, str(self.base), self._oracles())
        trials = Trials.of(symptom.seed, self.options.seeds, real_time=real_time)
        experiment = Experiment(self.runner, setting, trials, effect, request, always, baseline)
        return experiment, said if baseline else setting.beyond_defaults(said) - always

    def _oracles(self) -> list[str]:
        """The oracles with findings in the plan; other oracles are not called on reduced runs."""
        return sorted({effect.oracle for symptom in self.there for effect in symptom.effects} - {ORACLE})

    def _everywhere(self, symptom: Symptom, effect: Effect) -> int:
        """The number of runs if all of them, and at least two, have the effect; otherwise 0."""
        done = [
            run
            for run in self.results.runs
            if run.get("outcome") == Outcome.DONE and (run.get("substrate") or "model") == symptom.substrate
        ]
        having = [s for s in self.there if effect in s.effects and s.substrate == symptom.substrate]
        cases = {run["case"] for run in done}
        return len(done) if len(cases) > 1 and len(having) == len(done) else 0


def _first_ends(symptom: Symptom, effect: Effect) -> int:
    """Time of the last evidence row of a finding's first occurrence, in nanoseconds."""
    rows = [one.events[-1].time_ns for one in symptom.findings if one.events and effect_of(one) == effect]
    return min(rows, default=0)
