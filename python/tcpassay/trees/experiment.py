"""Whether two kernels differ with a set of triples: a pair of runs with each of several seeds."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tcpassay.isolate.experiment import Experiment
from tcpassay.isolate.ran import Effect, Ran
from tcpassay.isolate.runner import Job
from tcpassay.isolate.triples import Triples
from tcpassay.messages import Answer
from tcpassay.seal import checksum
from tcpassay.trees.pairs import By

VALUES: Final = "metrics"
"""Stands for an oracle in the effect of a run that holds the digest of its metrics."""
DIFFERENCE: Final = Effect("difference", "error", "the kernels differ")
"""What a pair shows whose runs differ in what counts (`pairs.By`)."""


def values_of(answer: Answer) -> list[Effect]:
    """The digest of the metrics of a run as an effect, so that it is kept with the run."""
    text = json.dumps(sorted((name, repr(value)) for name, value in answer.metrics.items()))
    return [Effect(VALUES, "info", checksum(text.encode()))]


@dataclass
class PairExperiment(Experiment):
    """Tries sets of triples of one case on two kernels."""

    kernels: tuple[str, str] = ("", "")
    """The substrates of BASE and HEAD."""
    by: By = "packets"

    def pair_of(self, candidate: Triples, number: int) -> list[Job]:
        """The runs of a set of triples on both kernels."""
        alike = self.job(candidate, number)
        return [
            Job(f"{alike.key}-{place}", replace(alike.request, substrate=kernel))
            for place, kernel in enumerate(self.kernels)
        ]

    def _run(self, wanted: Sequence[tuple[Triples, int]]) -> None:
        self.runner.run([job for candidate, number in wanted for job in self.pair_of(candidate, number)])

    def _made(self, candidate: Triples) -> Iterator[Ran]:
        if self.refusal(candidate):
            return
        for number in range(len(self.trials)):
            both = [self.runner.known(job.key) for job in self.pair_of(candidate, number)]
            if both[0] is not None and both[1] is not None:
                yield together(both[0], both[1], self.by)


def together(base: Ran, head: Ran, by: By) -> Ran:
    """The result of a pair of runs as that of one run, with `DIFFERENCE` if they differ.

    A pair has a result if one of its runs ended: a kernel that panics where the other does not differs.
    """
    apart = base.trace != head.trace if by == "packets" else base.effects != head.effects
    differs = base.outcome != head.outcome or apart
    resolved = base.resolved or head.resolved
    return Ran(
        "done" if resolved else base.outcome,
        base.message or head.message,
        f"{base.trace} {head.trace}",
        frozenset({DIFFERENCE}) if differs and resolved else frozenset(),
        base.cpu_s + head.cpu_s,
    )
