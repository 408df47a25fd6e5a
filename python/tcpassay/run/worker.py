"""A process that runs cases: requests in, outcomes out, one JSON object a line.

It imports next to nothing, so that starting one is cheap, and keeps standard output for the protocol: what else is
printed goes to standard error.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from tcpassay import _native


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Runs one case and writes its recording; what goes wrong in it becomes its outcome."""
    started = time.process_time()
    try:
        ran = json.loads(_native.run_case(**request))
    except OSError as error:
        return {"outcome": "unwritable", "message": str(error)}
    except (Exception, _native.PanicException) as error:  # noqa: BLE001 - the other cases go on
        return {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
    return {
        "outcome": "done",
        "message": "" if ran["ended"] in {"duration", "finished"} else f"ended by {ran['ended']}",
        "trace": ran["trace"],
        "metrics": ran["metrics"]["values"],
        "cpu_s": time.process_time() - started,
    }


def main() -> None:
    """Serves requests until standard input ends."""
    # The parent decides what an interrupt means; it ends this process by closing its input, or by force.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
