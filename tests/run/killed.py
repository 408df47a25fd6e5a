"""Creates a result folder, once for each step at which the process can be killed. Arguments: plan, folder, mode.

A step is an audit event of Python about a file below the folder (`open`, `os.rename`, `os.link`, `os.remove`, ...) or a
statement of SQLite. Child n is killed before its step n, and leaves its folder as `out-n/out`. The number of steps is
printed. In mode `empty` the folder exists before, in mode `force` it contains complete results; in mode `new` it does
not exist.
"""

import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

from tcpassay.plan.read import Plan, read_file
from tcpassay.run import journal, journal_file
from tcpassay.run.session import Beginning, Session

_STEPS = ("open", "os.", "fcntl.", "sqlite3.connect", "shutil.")


def _create(plan: Plan, out: Path, *, force: bool) -> None:
    Session.begin(plan, out, Beginning(), replace_=force).close()


def _killed_at(step: int, below: Path) -> None:
    """Installs the kill before step `step`, from 0."""
    count = 0

    def pass_() -> None:
        nonlocal count
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(_STEPS):
            named = str(arguments[0]) if arguments else ""
            if event.startswith("fcntl.") or str(below) in named:
                pass_()

    def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
        database = journal_file.connect(path, read_only=read_only)
        database.set_trace_callback(lambda _: pass_())
        return database

    journal.connect = connect
    sys.addaudithook(audit)


def main() -> None:
    """Prints the number of steps."""
    plan, folder, mode = read_file(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    for step in range(1_000):
        made = folder / f"out-{step}"
        made.mkdir(parents=True)
        out = made / "out"
        if mode == "empty":
            out.mkdir()
        elif mode == "force":
            shutil.copytree(Path(sys.argv[4]), out)
        child = os.fork()
        if child == 0:
            _killed_at(step, made)
            _create(plan, out, force=mode == "force")
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            sys.stdout.write(str(step))
            return
        if code != -signal.SIGKILL:
            sys.exit(f"step {step}: exit code {code}")


if __name__ == "__main__":
    main()
