"""The substrate `model`: the model TCP in this process, in virtual time."""

import contextlib
import os
import resource
from collections.abc import Iterator
from functools import cache
from typing import Final

from tcpassay import _native
from tcpassay.interface import RunEnd
from tcpassay.messages import Answer, CaseRequest, Collect, Triples
from tcpassay.substrate.base import RunArtifacts
from tcpassay.trust import consent, sealed

_PARAMETER: Final = "stack.implementation"


def with_stack(triples: Triples, stack: str) -> Triples:
    """The settings with another TCP: at the hosts that have one instead of the model, or at all hosts."""
    named = {path: value for path, value in triples.items() if path.rpartition("/")[2] == _PARAMETER}
    real = [path for path, value in named.items() if value != "model"]
    return {**triples, **dict.fromkeys(real if named else [_PARAMETER], stack)}


class Model:
    """The model TCP in this process. Hosts with another TCP have `stack`, if it is given."""

    real_time = False

    def __init__(self, stack: str | None = None) -> None:
        """`stack`: a value of `stack.implementation`."""
        self._stack = stack

    def _of(self, triples: Triples) -> Triples:
        return triples if self._stack is None else with_stack(triples, self._stack)

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults, without the TCP of the substrate."""
        said = _native.check_case(self._of(triples), base)
        if self._stack is None:
            return said
        return {path: value for path, value in said.items() if path in triples or path != _PARAMETER} | {
            path: str(value) for path, value in triples.items() if path in said and path.endswith(_PARAMETER)
        }

    def ready(self) -> None:
        """The model is always available. Raises `UserError` for another TCP that cannot be used."""
        if self._stack is not None:
            from tcpassay.stacks.catalogue import checked_name  # noqa: PLC0415 - most runs have no other TCP

            checked_name(self._stack)

    def run(self, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
        """Runs a case within the request's `memory` limit."""
        try:
            with at_most(request.memory):
                run = held(self._of(request.triples), request.seed, request.base, request.collect)
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
