"""A worker process that runs cases: it receives requests and sends answers in the format of `tcpassay.run.message`.

It imports few modules before the first oracle is called, so that it starts quickly. Standard output is reserved for the
protocol; other output goes to standard error. It ends when its parent ends.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tcpassay import _native, regular
from tcpassay.messages import Answer, CaseRequest
from tcpassay.run import message
from tcpassay.run.message import Reply, Request
from tcpassay.run.operators import COMPARE
from tcpassay.script.report import Packetdrill, PacketdrillAnswer
from tcpassay.substrate import substrate_of
from tcpassay.substrate.base import Folder, RunArtifacts
from tcpassay.substrate.model import at_most
from tcpassay.trust import consent

MEMORY: Final = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=33554432:glibc.malloc.mmap_threshold=33554432"
}
"""Settings of glibc's allocator in the environment of a worker, unless the user has set them. Other C libraries and
older versions ignore them.

* Huge pages: the memory accesses of a simulation are spread over all its data, so that TLB misses with pages of 4 KB
  cost up to a fifth of its time. An event log takes hundreds of megabytes; half of its cost are page faults.
* Freed memory of up to 32 MiB stays with the process, because the next run most likely needs the same amount."""
_PR_SET_PDEATHSIG: Final = 1
FOLLOW: Final = "follow"
MOST_FOLLOWED: Final = 128_000_000
"""Bytes of the event log of a run on a kernel that is followed, from above: a quarter of a guest's memory."""
"""The oracle that needs packets."""


def work(request: Request) -> Answer:
    """Runs one case or script; errors become the outcome."""
    started = time.process_time()
    try:
        answer = _on_model(request) if isinstance(request, Packetdrill) else _done(request)
    except MemoryError:
        answer = Answer("memory", "it ran out of memory")
    except OSError as error:
        answer = Answer("unwritable", str(error))
    except _native.ControllerError as error:
        answer = Answer("failed", f"the controller: {error}")
    except (Exception, _native.PanicException) as error:  # noqa: BLE001 - the other cases go on
        answer = Answer("failed", f"{type(error).__name__}: {error}")
    return replace(answer, cpu_s=time.process_time() - started + answer.cpu_s)


def _on_model(script: Packetdrill) -> Answer:
    from tcpassay.script import model  # noqa: PLC0415 - the workers of a plan need no XML

    with at_most(model.MEMORY):
        return PacketdrillAnswer("done", report=model.answer(script))


def _done(request: CaseRequest) -> Answer:
    consent.use(request.consent)
    if request.script is not None:
        from tcpassay.script import case  # noqa: PLC0415 - most plans have no script, and it takes time to import

        return case.run(request, request.script)
    substrate = substrate_of(request.substrate)
    if request.folder:
        regular.no_link(Path(request.folder).parent)
    if request.expect == "refused":
        try:
            substrate.check(request.triples, request.base)
        except _native.CaseError as refused:
            return Answer("refused", "; ".join(f"`{e[0]}`: {e[3]}" for e in refused.args[0]))
        return Answer("failed", "it was accepted; the plan says that it must be refused")
    started = time.process_time()
    collect = request.collect | {"packets": request.collect["packets"] or _follows(request)}
    answer, run = substrate.run(replace(request, collect=collect))
    if run is None:
        return answer
    took = time.process_time() - started + answer.cpu_s
    return _judged(request, run, replace(answer, simulation_s=took))


def _follows(request: CaseRequest) -> bool:
    """Whether the model follows the run, for which it needs packets.

    A guest has them in its memory. Of a long run on a fast path they would take the room of the event log, so that they
    are collected only if a plan names the oracle.
    """
    if not (request.substrate == "kernel" or request.substrate.startswith("kernel:")):
        return False
    if request.oracles is not None:
        return FOLLOW in request.oracles
    from tcpassay.plan.log_size import settings, size  # noqa: PLC0415 - start-up time

    return size(*settings(request.triples)) <= MOST_FOLLOWED


def _judged(request: CaseRequest, run: RunArtifacts, answer: Answer) -> Answer:
    """Calls the oracles, on the log in memory if possible, and writes the recording if it is to be kept."""
    folder = Path(request.folder)
    if request.oracles != [] and len(run):
        from tcpassay.judge import judge_recording, unjudged  # noqa: PLC0415 - numpy is most of the start-up time
        from tcpassay.judge.log import LogFile, MemoryLog  # noqa: PLC0415 - start-up time
        from tcpassay.recording import Recording  # noqa: PLC0415 - start-up time

        if isinstance(run, Folder):
            recording = Recording.open(folder)
            found = judge_recording(recording, oracles=request.oracles, log=LogFile(recording))
            reached = json.loads(_native.reached_in_folder(request.folder))
            answer = replace(answer, unjudged=unjudged(recording, request.oracles))
            if not request.collect["packets"]:
                found = [replace(one, packets=()) for one in found]
                run.drop_packets()
        else:
            recording = Recording.held(folder, run.index)
            found = judge_recording(recording, oracles=request.oracles, log=MemoryLog(run))
            reached = json.loads(run.reached())
            if run.partly_judged:
                answer = replace(answer, unjudged=unjudged(recording, request.oracles))
        answer = replace(answer, findings=[*answer.findings, *found], reached=reached)
    digest = run.digest()
    found_one = bool(answer.findings)
    kept = request.keep or (request.keep_found and (found_one or _fails(request.checks, answer.metrics)))
    if kept:
        regular.no_link(folder.parent)
        run.write(request.folder, events=found_one or request.keep_events)
    elif isinstance(run, Folder):
        shutil.rmtree(folder, ignore_errors=True)
    return replace(answer, kept=kept, digest=digest)


def _fails(checks: list[tuple[str, str, float]], metrics: Mapping[str, float | None]) -> bool:
    values = [(metrics.get(metric), op, limit) for metric, op, limit in checks]
    return any(value is None or not COMPARE[op](value, limit) for value, op, limit in values)


def _end_with(parent: int) -> None:
    """Ends this process when its parent ends for any reason."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _keep_memory() -> None:
    """Child processes, such as an agent or a guest, do not inherit the memory settings."""
    if all(os.environ.get(name) == value for name, value in MEMORY.items()):
        for name in MEMORY:
            del os.environ[name]


def main() -> None:
    """Serves requests until the end of standard input."""
    # The parent handles interrupts; it ends this process by closing its input or by killing it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(int(sys.argv[1]))
    _keep_memory()
    answers = os.dup(1)
    os.dup2(2, 1)
    for request in message.receive(sys.stdin.buffer):
        answer = work(request)
        # The next request may have arrived already; further output belongs to it.
        packed = memoryview(message.pack(Reply(answer, os.fstat(2).st_size)))
        while packed:
            packed = packed[os.write(answers, packed) :]


if __name__ == "__main__":
    main()
