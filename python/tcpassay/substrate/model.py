"""The substrate `model`: the model TCP in this process, in virtual time."""

import contextlib
import os
import resource
from collections.abc import Iterator
from functools import cache

from tcpassay import _native
from tcpassay.interface import RunEnd
from tcpassay.messages import Answer, CaseRequest, Collect, Triples
from tcpassay.substrate.base import RunArtifacts
from tcpassay.trust import consent, sealed


class Model:
    """The model TCP in this process."""

    real_time = False

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults."""
        return _native.check_case(triples, base)

    def ready(self) -> None:
        """The model is always available."""

    def run(self, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
        """Runs a case within the request's `memory` limit."""
        try:
            with at_most(request.memory):
                run = held(request.triples, request.seed, request.base, request.collect)
        except _native.StackError as error:
            outcome, reason = error.args
            return Answer(outcome, reason), None
        except consent.ConsentError as error:
            return Answer("failed", str(error)), None
        message = "" if run.ended in {RunEnd.DURATION, RunEnd.FINISHED} else f"ended by {run.ended}"
        return Answer("done", message, run.trace, metrics=run.metrics), run


def held(triples: Triples, seed: int, base: str, collect: Collect) -> _native.Ran:
    """Runs a case and keeps its recording in memory.

    Raises `ConsentError` for a command of `exec:` that the user has not accepted, `OSError` if it cannot be copied.
    """
    with sealed.commands(triples) as commands:
        return _native.run_held(triples=triples, seed=seed, base=base, collect=collect, commands=commands)


@contextlib.contextmanager
def at_most(memory: int | None) -> Iterator[None]:
    """Limits the additional memory of this process during a simulation.

    The limit ends afterwards, because libraries reserve gigabytes of address space without using memory.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        if memory is not None:
            most = _addressed() + memory
            resource.setrlimit(
                resource.RLIMIT_AS, (most if before[1] < 0 else min(most, before[1]), before[1])
            )
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _addressed() -> int:
    """The size of this process's address space in bytes."""
    return int(os.pread(_statm(os.getpid()), 64, 0).split()[0]) * resource.getpagesize()


@cache
def _statm(process: int) -> int:
    """The file stays open, because opening it takes longer than the rest of the check."""
    return os.open(f"/proc/{process}/statm", os.O_RDONLY)
