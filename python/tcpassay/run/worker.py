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
from pathlib import Path
from typing import Any, Final

from tcpassay import _native
from tcpassay.run import message
from tcpassay.run.operators import COMPARE
from tcpassay.substrate import substrate_of
from tcpassay.substrate.base import Folder, Left
from tcpassay.substrate.model import at_most

MEMORY: Final = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=33554432:glibc.malloc.mmap_threshold=33554432"
}
"""In the environment that a worker is started with, unless the user has settings for glibc. Other C libraries and older
ones ignore it.

* Huge pages: what a simulation keeps it touches all over, and to look up pages of 4 KB costs up to a fifth of its time;
  an event log takes hundreds of megabytes, and half of what that costs is the kernel's, page by page.
* What a run gave back stays with the process, up to 32 MiB: the next run is of the same size, most likely."""
_PR_SET_PDEATHSIG: Final = 1


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Runs one case, judges it, and leaves its recording if it is to be kept; what goes wrong becomes its outcome.

    The request: `triples`, `seed`, `base` and `collect` as `_native.run_held` has them, `folder` for the recording, and

    * `substrate`: where it runs
    * `packetdrill`: a script of `tcpassay script`, with nothing of all this
    * `script`: what is run instead of traffic over a path, where the case is a script
    * `expect`: `refused` for a case that must not be accepted
    * `oracles`: names, an empty list for none, null for all
    * `keep`: whether the recording stays whatever happens
    * `keep_found`: whether it stays when there is a finding, or when one of `checks` (metric, operator, value) fails
    * `keep_events`: whether the event log stays in a recording without a finding
    * `memory`: bytes that the run may take, or null
    * `seconds`: real time after which a guest is ended, or null; who asks watches over the rest
    """
    started = time.process_time()
    try:
        answer = _done(request)
    except MemoryError:
        answer = {"outcome": "memory", "message": "it ran out of memory"}
    except OSError as error:
        answer = {"outcome": "unwritable", "message": str(error)}
    except (Exception, _native.PanicException) as error:  # noqa: BLE001 - the other cases go on
        answer = {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
    return answer | {"cpu_s": time.process_time() - started + answer.pop("elsewhere_s", 0.0)}


def _done(request: dict[str, Any]) -> dict[str, Any]:
    if "packetdrill" in request:
        from tcpassay.script import model  # noqa: PLC0415 - the workers of a plan need no XML

        with at_most(model.MEMORY):
            return {"report": model.answer(request["packetdrill"])}
    if "script" in request:
        from tcpassay.script import case  # noqa: PLC0415 - most plans have no script, and it takes time to import

        return case.run(request)
    substrate = substrate_of(request["substrate"])
    if request["expect"] == "refused":
        try:
            substrate.check(request["triples"], request["base"])
        except _native.CaseError as refused:
            return {"outcome": "refused", "message": "; ".join(f"`{e[0]}`: {e[3]}" for e in refused.args[0])}
        return {"outcome": "failed", "message": "it was accepted; the plan says that it must be refused"}
    started = time.process_time()
    answer, run = substrate.run(request)
    took = time.process_time() - started + answer["elsewhere_s"]
    if run is None:
        return answer
    return answer | _judged(request, run, answer["metrics"]) | {"simulation_s": took}


def _judged(request: dict[str, Any], run: Left, metrics: dict[str, float | None]) -> dict[str, Any]:
    """Calls the oracles, on the log in memory if possible, and writes the recording if it is to be kept."""
    found: list[dict[str, Any]] = []
    silent: dict[str, dict[str, str]] = {}
    reached: dict[str, int] = {}
    folder = Path(request["folder"])
    if request["oracles"] != [] and len(run):
        from tcpassay.judge import judge_recording, unjudged  # noqa: PLC0415 - numpy is most of the start-up time
        from tcpassay.judge.log import Filed, Held  # noqa: PLC0415 - start-up time
        from tcpassay.recording import Recording  # noqa: PLC0415 - start-up time

        if isinstance(run, Folder):
            recording = Recording.open(folder)
            judged = judge_recording(recording, oracles=request["oracles"], log=Filed(recording))
            reached = json.loads(_native.reached_in_folder(request["folder"]))
            silent = {"unjudged": unjudged(recording, request["oracles"])}
        else:
            recording = Recording.of(folder, json.loads(run.index()))
            judged = judge_recording(recording, oracles=request["oracles"], log=Held(run))
            reached = json.loads(run.reached())
        found = [one.as_json() for one in judged]
    digest = run.digest()
    kept = request["keep"] or (request["keep_found"] and (bool(found) or _fails(request["checks"], metrics)))
    if kept:
        run.write(request["folder"], events=bool(found) or request["keep_events"])
    elif isinstance(run, Folder):
        shutil.rmtree(folder, ignore_errors=True)
    return {"findings": found, "kept": kept, "digest": digest, "reached": reached} | silent


def _fails(checks: list[tuple[str, str, float]], metrics: dict[str, float | None]) -> bool:
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
        packed = memoryview(message.pack(answer | {"said": os.fstat(2).st_size}))
        while packed:
            packed = packed[os.write(answers, packed) :]


if __name__ == "__main__":
    main()
