"""Where cases run: who says whether a case can run there, and who runs it.

A plan names substrates, `model`, `kernel`, `kernel:NAME` or `host`; everything that depends on which it is stands
behind `Substrate`, so that plans, workers and replay know none by name.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import resource
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from tcpassay import _native, seal
from tcpassay.errors import UserError

BUILT: Final = ("model", "kernel", "kernel:NAME", "host")
"""What a plan may name in this version."""

Triples = Mapping[str, Any]
_EVENTS: Final = re.compile(r'"events\.parquet":\{[^{}]*\},|,?"events\.parquet":\{[^{}]*\}')


def without_events(index: str) -> str:
    """`recording.json` as it is when the event log is not collected; nothing else depends on that."""
    lean, found = _EVENTS.subn("", index, count=1)
    return seal.seal(seal.unseal(lean)) if found else index


class Folder:
    """A recording that was written where the request wanted it, with all that was collected; as `_native.Ran`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._text = (self._folder / "recording.json").read_text(encoding="utf-8")

    def __len__(self) -> int:
        """Rows of its event log."""
        log = json.loads(self._text)["files"].get("events.parquet", {"rows": 0})
        return int(log["rows"])

    def digest(self) -> str:
        """Of `recording.json` without the event log; it holds the checksums of all tables."""
        return hashlib.sha256(without_events(self._text).encode()).hexdigest()[:16]

    def write(self, folder: str, events: bool) -> None:  # noqa: ARG002, FBT001 - as `_native.Ran`
        """Removes the event log unless `events`."""
        lean = without_events(self._text)
        if not events and lean != self._text:
            (self._folder / "recording.json").write_text(lean, encoding="utf-8")
            (self._folder / "events.parquet").unlink()


Left = _native.Ran | Folder
"""What a run left: in memory, or where the request wanted it."""
Answer = dict[str, Any]


class Substrate(Protocol):
    """Where a case runs."""

    real_time: bool
    """Time is the machine's: one run at a time, and none is like another."""

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """What the case sets beyond the defaults. Raises `CaseError` for what cannot be done there."""

    def ready(self) -> None:
        """Raises `UserError` when nothing can be run there, with what to do."""

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs the case of a worker's request; a recording is there when it is done.

        The answer has `outcome` and `message`, `trace` and `metrics` when it is done, and `elsewhere_s`, the CPU
        seconds that other processes than this one took.
        """


def of(name: str) -> Substrate:
    """The substrate of this name. Raises `UserError` for one that this version does not have."""
    kind, _, which = name.partition(":")
    if kind == "kernel":
        return Kernel(which or None)
    if name == "host":
        return Host()
    if name != "model":
        raise UserError(f"this version has no substrate `{name}`; allowed are {', '.join(BUILT)}")
    return Model()


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


class Kernel:
    """A Linux of its own for each case, in virtual time."""

    real_time = False

    def __init__(self, name: str | None) -> None:
        self._name = name

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """What the case sets beyond the defaults, as the agent reads it."""
        from tcpassay.kernel import run  # noqa: PLC0415 - whoever has a model only needs none of it

        return run.check_case(dict(triples), base)

    def ready(self) -> None:
        """An agent and a kernel are needed."""
        from tcpassay.kernel import run, store  # noqa: PLC0415

        run.agent()
        store.find(self._name)

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs a case in a guest, which has its own memory and ends with the request's `seconds`."""
        from tcpassay.kernel import run  # noqa: PLC0415

        asked = {name: request[name] for name in ("triples", "base", "seed", "collect", "folder")}
        patience = request.get("seconds") or run.PATIENCE_S
        answer = run.run_case(**asked, kernel=self._name, patience_s=patience)
        answer["elsewhere_s"] = answer.pop("cpu_s")
        return answer, Folder(request["folder"]) if answer["outcome"] == "done" else None


class Host:
    """The kernel of this machine, in real time."""

    real_time = True

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """What the case sets beyond the defaults, as the agent reads it; as root also what this kernel has not."""
        from tcpassay.kernel import run  # noqa: PLC0415

        return run.check_case(dict(triples), base, "host")

    def ready(self) -> None:
        """Root and an agent are needed."""
        from tcpassay import host  # noqa: PLC0415

        host.ready()

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs a case, which ends with the request's `seconds`."""
        from tcpassay import host  # noqa: PLC0415

        asked = {name: request[name] for name in ("triples", "base", "seed", "collect", "folder")}
        answer = host.run_case(**asked, patience_s=request.get("seconds") or host.PATIENCE_S)
        answer["elsewhere_s"] = answer.pop("cpu_s")
        return answer, Folder(request["folder"]) if answer["outcome"] == "done" else None


@cache
def release(name: str) -> str | None:
    """The Linux that a substrate runs, with the hash of what it was built from; `None` for the model."""
    kind, _, which = name.partition(":")
    if kind == "host":
        return platform.release()
    if kind != "kernel":
        return None
    from tcpassay.kernel import store  # noqa: PLC0415

    try:
        found = store.find(which or None)
    except UserError:
        return None
    return f"{found.release} ({found.key[:12]})"


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
