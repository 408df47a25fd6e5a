"""A process that runs cases: requests in, answers out, one JSON object a line.

It imports next to nothing before it must judge, so that starting one is cheap, and keeps standard output for the
protocol: what else is printed goes to standard error. It ends when its parent does.
"""

import ctypes
import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from tcpassay import _native
from tcpassay.run.operators import COMPARE

_PR_SET_PDEATHSIG: Final = 1
_EVENTS: Final = re.compile(r'"events\.parquet":\{[^{}]*\},|,?"events\.parquet":\{[^{}]*\}')


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Runs one case, judges it, and leaves its recording if it is to be kept; what goes wrong becomes its outcome.

    The request: `triples`, `seed`, `base` and `collect` as `_native.run_held` has them, `folder` for the recording, and

    * `expect`: `refused` for a case that must not be accepted
    * `oracles`: names, an empty list for none, null for all
    * `keep`: whether the recording stays whatever happens
    * `keep_found`: whether it stays when there is a finding, or when one of `checks` (metric, operator, value) fails
    * `keep_events`: whether the event log stays in a recording without a finding
    * `memory`: bytes that the run may take, or null
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
    return answer | {"cpu_s": time.process_time() - started}


def _done(request: dict[str, Any]) -> dict[str, Any]:
    case = {name: request[name] for name in ("triples", "base")}
    if request["expect"] == "refused":
        try:
            _native.check_case(**case)
        except _native.CaseError as refused:
            return {"outcome": "refused", "message": "; ".join(f"`{e[0]}`: {e[3]}" for e in refused.args[0])}
        return {"outcome": "failed", "message": "it was accepted; the plan says that it must be refused"}
    started = time.process_time()
    run = _limited(request["memory"], **case, seed=request["seed"], collect=request["collect"])
    ran = json.loads(run.summary)
    took = time.process_time() - started
    answer = {
        "outcome": "done",
        "message": "" if ran["ended"] in {"duration", "finished"} else f"ended by {ran['ended']}",
        "trace": ran["trace"],
        "metrics": ran["metrics"]["values"],
    }
    answer |= _judged(request, run, answer["metrics"])
    return answer | {"simulation_s": took}


def _limited(memory: int | None, **case: Any) -> "_native.Ran":
    """The run, within so many bytes: only the simulation, for libraries reserve addresses by the gigabyte."""
    if memory is None:
        return _native.run_held(**case)
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = _addressed() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most if before[1] < 0 else min(most, before[1]), before[1]))
    try:
        return _native.run_held(**case)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _addressed() -> int:
    """Bytes of address space that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _judged(request: dict[str, Any], run: "_native.Ran", metrics: dict[str, float | None]) -> dict[str, Any]:
    """What oracles find, from memory; then the recording is written, if it is to be kept."""
    found = []
    folder = Path(request["folder"])
    lean = ""
    if request["oracles"] != [] and len(run):
        from tcpassay.judge import judge_recording  # noqa: PLC0415 - numpy is most of the start-up time
        from tcpassay.judge.log import Held  # noqa: PLC0415
        from tcpassay.recording import Recording  # noqa: PLC0415

        lean = run.index(events=False)
        recording = Recording.of(folder, json.loads(lean))
        judged = judge_recording(recording, oracles=request["oracles"], log=Held(run))
        found = [one.as_json() for one in judged]
    kept = request["keep"] or (request["keep_found"] and (bool(found) or _fails(request["checks"], metrics)))
    if kept:
        lean = without_events(run.write(request["folder"], events=bool(found) or request["keep_events"]))
    lean = lean or run.index(events=False)
    return {"findings": found, "kept": kept, "digest": hashlib.sha256(lean.encode()).hexdigest()[:16]}


def without_events(index: str) -> str:
    """`recording.json` as it is when the event log is not collected; nothing else depends on that."""
    return _EVENTS.sub("", index, count=1)


def _fails(checks: list[tuple[str, str, float]], metrics: dict[str, float | None]) -> bool:
    values = [(metrics.get(metric), op, limit) for metric, op, limit in checks]
    return any(value is None or not COMPARE[op](value, limit) for value, op, limit in values)


def _end_with(parent: int) -> None:
    """Has the kernel end this process when its parent ends, however that comes about."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    """Serves requests until standard input ends."""
    # The parent decides what an interrupt means; it ends this process by closing its input, or by force.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer = work(json.loads(line))
        # The next request may be here already: what is said from here on belongs to it.
        print(json.dumps(answer | {"said": os.fstat(2).st_size}), file=answers, flush=True)


if __name__ == "__main__":
    main()
