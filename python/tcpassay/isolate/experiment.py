"""Whether a set of triples produces an effect: a run of the case with each of several seeds, judged by the oracles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from tcpassay.isolate.ran import Effect, Ran
from tcpassay.isolate.runner import Job, RunsJobs
from tcpassay.isolate.triples import Setting, Triple, Triples, mapping_of
from tcpassay.judge.registry import reads_packets
from tcpassay.messages import CaseRequest
from tcpassay.plan.model import PlanFile
from tcpassay.run.settings import limits_of, wanted_of

CONFIDENCE: Final = 0.95
"""Confidence of the bound on the frequency of an effect."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of runs of a case with an effect."""

    shown: int
    runs: int
    """Number of completed runs."""
    alike: bool = False
    """Whether the run has no random events, so that every seed is the same run and one suffices."""
    problem: str = ""
    """Why no run completed."""

    @property
    def present(self) -> bool:
        """Whether the effect occurred in any run."""
        return self.shown > 0

    @property
    def absent(self) -> bool:
        """Whether the case ran and the effect never occurred."""
        return self.runs > 0 and not self.shown

    def __str__(self) -> str:
        if not self.runs:
            return "not run"
        return f"{self.shown} of {self.runs}"


def miss(rate: Rate, runs: int) -> float:
    """Upper bound (95 %) of the probability to miss an effect of this frequency in `runs` runs.

    The frequency is taken as the lower end of the exact interval of a binomial share (Clopper and Pearson, Biometrika
    26, 1934). The result is 0 if every run is the same.
    """
    if rate.alike:
        return 0.0
    low, high = 0.0, rate.shown / rate.runs if rate.runs else 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_least(rate.shown, rate.runs, middle) < 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return float((1 - low) ** runs)


def _at_least(successes: int, trials: int, share: float) -> float:
    """The probability that at least this number of trials succeeds."""
    term, below = (1 - share) ** trials, 0.0
    for number in range(successes):
        below += term
        term *= (trials - number) / (number + 1) * (share / (1 - share)) if share < 1 else 0.0
    return 1 - below


@dataclass(frozen=True, slots=True)
class Trials:
    """The runs of a case that are evaluated: one with each seed, or in real time repetitions with one seed."""

    seeds: tuple[int, ...]
    """The seed of the finding first."""
    real_time: bool = False

    @classmethod
    def of(cls, seed: int, count: int, *, real_time: bool) -> "Trials":
        """`count` trials, the seed of the finding first."""
        if real_time:
            return cls((seed,) * count, real_time=True)
        others = (other for other in range(1, count + 2) if other != seed)
        return cls((seed, *islice(others, count - 1)))

    def __len__(self) -> int:
        return len(self.seeds)

    def name(self, number: int) -> str:
        """The key of a trial among those of its case."""
        return f"{self.seeds[number]}-r{number + 1}" if self.real_time else str(self.seeds[number])


def request_of(spec: PlanFile, substrate: str, base: str, oracles: list[str]) -> CaseRequest:
    """The request to a worker, without the case and its seed: with the data of the plan that the oracles need."""
    limits = limits_of(spec)
    packets = spec.collect.packets and reads_packets(oracles)
    return CaseRequest(
        substrate=substrate,
        base=base,
        collect=wanted_of(spec) | {"events": True, "packets": packets, "deliveries": False},
        oracles=oracles,
        memory=limits.memory,
        seconds=None if substrate == "model" else limits.seconds,
    )


@dataclass
class Experiment:
    """Tries sets of triples of one case for one effect."""

    runner: RunsJobs
    setting: Setting
    trials: Trials
    effect: Effect
    request: CaseRequest
    """The request to a worker, without the case and its seed."""
    always: Triples = frozenset()
    """The triples of the run, which every case has and which are not part of the cause."""
    baseline: Triples = frozenset()
    """The values that parameters have where their triple is removed, if these are not their defaults."""
    smallest: Triples | None = field(default=None, init=False)
    """The last set that was found to have the effect."""
    _refusals: dict[Triples, str] = field(default_factory=dict, init=False)
    _alike: list[Triples] = field(default_factory=list, init=False)
    """Sets whose runs are the same with every seed; this holds for subsets, too: defaults are not random.

    Values of the baseline may be, so that with one only the set itself is known to be.
    """

    def first(self, candidates: Sequence[Triples]) -> int | None:
        """The index of the first of these sets that has the effect, for `ddmin`."""
        at = 0
        while at < len(candidates):
            window = candidates[at : at + max(1, self.runner.jobs)]
            self._decide(window)
            for place, candidate in enumerate(window):
                if self._so_far(candidate).present:
                    self.smallest = candidate
                    return at + place
            at += len(window)
        return None

    def rates(self, candidates: Sequence[Triples]) -> list[Rate]:
        """The frequency of the effect in all trials of each of these sets."""
        for number in range(len(self.trials)):
            self._run([(one, number) for one in candidates if self._needed(one, number)])
        return [self._so_far(one) for one in candidates]

    def effects(self, candidate: Triples) -> frozenset[Effect]:
        """All effects in the completed runs of a set."""
        return frozenset(effect for ran in self._made(candidate) for effect in ran.effects)

    def whole(self, candidate: Triples) -> Triples:
        """All settings of the case of a set: also those of every case, and of the baseline what the set leaves open.

        What of the baseline requires a setting that is missing is left out.
        """
        own = candidate | self.always
        paths = {one.path for one in own}
        full = own | {one for one in self.baseline if one.path not in paths}
        if full == own or not self.setting.refusal(full):
            return full
        closed = self.setting.close(full)
        return closed if closed is not None and own <= closed else full

    def reset_value(self, triple: Triple) -> str:
        """The value that a parameter has where its triple is removed."""
        return next((one.text for one in self.baseline if one.path == triple.path), triple.default)

    def trace(self, candidate: Triples) -> str:
        """Digest of the events of a set's run with the first seed; empty if it did not complete."""
        if self.refusal(candidate):
            return ""
        (ran,) = self.runner.run([self.job(candidate, 0)])
        return ran.trace if ran.resolved else ""

    def job(self, candidate: Triples, number: int) -> Job:
        """A run of a set of triples."""
        whole = self.whole(candidate)
        seed = self.trials.seeds[number]
        key = f"{self.setting.name(whole)}-{self.trials.name(number)}"
        return Job(key, replace(self.request, triples=mapping_of(whole), seed=seed))

    def refusal(self, candidate: Triples) -> str:
        """Why a set cannot be run; empty if it can."""
        if candidate not in self._refusals:
            self._refusals[candidate] = self.setting.refusal(self.whole(candidate))
        return self._refusals[candidate]

    def _decide(self, window: Sequence[Triples]) -> None:
        """Runs trials until the first of these sets with the effect is known."""
        for number in range(len(self.trials)):
            open_: list[Triples] = []
            for candidate in window:
                if self._so_far(candidate).present:
                    break
                open_.append(candidate)
            self._run([(one, number) for one in open_ if self._needed(one, number)])

    def _needed(self, candidate: Triples, number: int) -> bool:
        """Whether a trial can give further information."""
        return not self.refusal(candidate) and not self._so_far(candidate).alike and number < len(self.trials)

    def _run(self, wanted: Sequence[tuple[Triples, int]]) -> None:
        self.runner.run([self.job(candidate, number) for candidate, number in wanted])

    def _made(self, candidate: Triples) -> Iterator[Ran]:
        if self.refusal(candidate):
            return
        for number in range(len(self.trials)):
            if (ran := self.runner.known(self.job(candidate, number).key)) is not None:
                yield ran

    def _so_far(self, candidate: Triples) -> Rate:
        """The frequency of the effect in the completed runs."""
        made = list(self._made(candidate))
        ended = [ran for ran in made if ran.resolved]
        alike = bool(ended) and any(
            candidate == one or (not self.baseline and candidate <= one) for one in self._alike
        )
        if not self.trials.real_time and len(ended) > 1 and ended[0].trace == ended[1].trace:
            alike = True
            if candidate not in self._alike:
                self._alike.append(candidate)
        if alike:
            ended = ended[:1]
        shown = sum(self.effect in ran.effects for ran in ended)
        problem = "" if ended or not made else f"{made[0].outcome}: {made[0].message}"
        return Rate(shown, len(ended), alike, problem or self.refusal(candidate))
