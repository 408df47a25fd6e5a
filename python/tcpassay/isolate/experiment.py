"""Whether a set of triples produces an effect: a run of the case with each of several seeds, judged by the oracles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from tcpassay.isolate.ran import Effect, Ran
from tcpassay.isolate.runner import Job, Runner
from tcpassay.isolate.triples import Setting, Triples, mapping_of
from tcpassay.messages import CaseRequest
from tcpassay.plan.model import PlanFile
from tcpassay.run.settings import limits_of, wanted_of

CONFIDENCE: Final = 0.95
"""Of the bound on how often an effect shows."""


@dataclass(frozen=True, slots=True)
class Rate:
    """In how many runs of a case an effect showed."""

    shown: int
    runs: int
    """Those that came to their end."""
    alike: bool = False
    """The run uses no random numbers: every seed is the same run, so that one suffices."""
    problem: str = ""
    """Why there is none that came to its end."""

    @property
    def present(self) -> bool:
        """Whether the effect showed at all."""
        return self.shown > 0

    @property
    def absent(self) -> bool:
        """Whether the case ran and the effect never showed."""
        return self.runs > 0 and not self.shown

    def __str__(self) -> str:
        if not self.runs:
            return "not run"
        return f"{self.shown} of {self.runs}"


def miss(rate: Rate, runs: int) -> float:
    """How likely an effect that shows at this rate would be missed in so many runs, at most, with 95 % confidence.

    The lower end of the exact interval of a binomial share (Clopper and Pearson, Biometrika 26, 1934) is what is
    assumed of the rate. 0 where every run is the same.
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
    """How likely at least so many of the trials succeed."""
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
        """So many trials that begin with the seed of the finding."""
        if real_time:
            return cls((seed,) * count, real_time=True)
        others = (other for other in range(1, count + 2) if other != seed)
        return cls((seed, *islice(others, count - 1)))

    def __len__(self) -> int:
        return len(self.seeds)

    def name(self, number: int) -> str:
        """What distinguishes a trial from the others of its case."""
        return f"{self.seeds[number]}-r{number + 1}" if self.real_time else str(self.seeds[number])


def request_of(spec: PlanFile, substrate: str, base: str, oracles: list[str]) -> CaseRequest:
    """The request to a worker, without the case and its seed: with the data of the plan, without recordings."""
    limits = limits_of(spec)
    return CaseRequest(
        substrate=substrate,
        base=base,
        collect=wanted_of(spec) | {"events": True, "packets": False, "deliveries": False},
        oracles=oracles,
        memory=limits.memory,
        seconds=None if substrate == "model" else limits.seconds,
    )


@dataclass
class Experiment:
    """Tries sets of triples of one case for one effect."""

    runner: Runner
    setting: Setting
    trials: Trials
    effect: Effect
    request: CaseRequest
    """What a worker is asked, without the case and its seed."""
    always: Triples = frozenset()
    """Triples that every case has: those of the run, which are no part of the cause."""
    smallest: Triples | None = field(default=None, init=False)
    """The last set that was found to have the effect."""
    _refusals: dict[Triples, str] = field(default_factory=dict, init=False)
    _alike: list[Triples] = field(default_factory=list, init=False)
    """Sets whose runs are the same with every seed; so are those of their subsets, as no default draws anything."""

    def first(self, candidates: Sequence[Triples]) -> int | None:
        """The place of the first of these sets that has the effect, for `ddmin`."""
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
        """In how many of all trials each of these sets has the effect."""
        for number in range(len(self.trials)):
            self._run([(one, number) for one in candidates if self._needed(one, number)])
        return [self._so_far(one) for one in candidates]

    def effects(self, candidate: Triples) -> frozenset[Effect]:
        """All that showed in the runs that were made of a set."""
        return frozenset(effect for ran in self._made(candidate) for effect in ran.effects)

    def job(self, candidate: Triples, number: int) -> Job:
        """A run of a set of triples."""
        whole = candidate | self.always
        seed = self.trials.seeds[number]
        key = f"{self.setting.name(whole)}-{self.trials.name(number)}"
        return Job(key, replace(self.request, triples=mapping_of(whole), seed=seed))

    def refusal(self, candidate: Triples) -> str:
        """Why a set cannot be run; empty when it can."""
        if candidate not in self._refusals:
            self._refusals[candidate] = self.setting.refusal(candidate | self.always)
        return self._refusals[candidate]

    def _decide(self, window: Sequence[Triples]) -> None:
        """Makes runs until it is known which is the first of these sets that has the effect."""
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
        """What the runs that were made say."""
        made = list(self._made(candidate))
        ended = [ran for ran in made if ran.resolved]
        alike = bool(ended) and any(candidate <= one for one in self._alike)
        if not self.trials.real_time and len(ended) > 1 and ended[0].trace == ended[1].trace:
            alike = True
            if candidate not in self._alike:
                self._alike.append(candidate)
        if alike:
            ended = ended[:1]
        shown = sum(self.effect in ran.effects for ran in ended)
        problem = "" if ended or not made else f"{made[0].outcome}: {made[0].message}"
        return Rate(shown, len(ended), alike, problem or self.refusal(candidate))
