"""The substrate `model`: the model TCP in this process, in virtual time."""

import contextlib
import os
import resource
from collections.abc import Iterator
from functools import cache
from typing import Any

from tcpassay import _native
from tcpassay.substrate.base import Answer, Left, Triples


class Model:
    """The model TCP in this process."""

    real_time = False

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """What the case sets beyond the defaults."""
        return _native.check_case(triples, base)

    def ready(self) -> None:
        """It always is."""

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs a case within the request's `memory`."""
        asked = {name: request[name] for name in ("triples", "base", "seed", "collect")}
        with at_most(request["memory"]):
            run = _native.run_held(**asked)
        answer = {
            "outcome": "done",
            "message": "" if run.ended in {"duration", "finished"} else f"ended by {run.ended}",
            "trace": run.trace,
            "metrics": run.metrics,
            "elsewhere_s": 0.0,
        }
        return answer, run


@contextlib.contextmanager
def at_most(memory: int | None) -> Iterator[None]:
    """Lets this process take so many bytes more, for the time of a simulation.

    Not for longer: libraries reserve addresses, which cost nothing, by the gigabyte.
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
    """Bytes of address space that this process has now."""
    return int(os.pread(_statm(os.getpid()), 64, 0).split()[0]) * resource.getpagesize()


@cache
def _statm(process: int) -> int:
    """The file stays open: to open it takes longer than all else that a limit costs."""
    return os.open(f"/proc/{process}/statm", os.O_RDONLY)
