"""A sweep is killed repeatedly, also during the creation of its folder, and resumed: the results are unchanged.

When a kill comes is counted in system calls of the runner (strace injects it) where strace is installed; else after a
drawn time. What is judged holds wherever the kill came.
"""

import shutil
import signal
import subprocess
import sys
import time

from trial import Fault, Trial, command, ended, environment, problems, start

MOST = 6


def trial(trial: Trial) -> None:
    """Kills the command at random times; the last command completes the sweep."""
    trial.plan()
    out = trial.folder / "out"
    if trial.dice.random() < 0.3:
        out.mkdir()  # a folder that is there is made in place
    for _ in range(trial.dice.randint(1, MOST)):
        _killed(trial, _next(trial))
        problems(trial.folder / "out")  # what is there can be read, or is not there
    for _ in range(3):
        ran = trial.good(command(*_next(trial), cwd=trial.folder))
        if ran.code == 0:
            break
    trial.same(out)
    left = [path.name for path in trial.folder.iterdir() if path.name not in {"out", "plan.toml"}]
    inside = [path.name for path in out.glob(".*")]
    if left or inside:
        raise Fault(f"left behind: {left + inside}")


def _next(trial: Trial) -> tuple[str, ...]:
    """The command that continues the sweep."""
    if (trial.folder / "out" / "journal.sqlite").exists():
        return "run", "--resume", "out", "--jobs", "2"
    force = ("--force",) if trial.dice.random() < 0.5 else ()
    return "run", "plan.toml", "--out", "out", "--jobs", "2", *force


def _killed(trial: Trial, arguments: tuple[str, ...]) -> None:
    """A command that is killed; it may end before."""
    strace = shutil.which("strace")
    if strace:
        call = trial.dice.choice(
            ("openat", "rename", "fsync", "pwrite64", "unlink", "mkdir", "fcntl", "ftruncate")
        )
        when = trial.dice.choice((1, 2, 3, 5, 8, 13, 21, 34, 55, 300, 600))
        inject = f"inject={call}:signal=SIGKILL:when={when}"
        whole = [strace, "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        process = subprocess.Popen(
            [*whole, sys.executable, "-m", "tcpassay", *arguments], cwd=trial.folder, env=environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        ended(process)
        return
    process = start(*arguments, cwd=trial.folder)
    time.sleep(trial.dice.uniform(0.1, 2))
    process.send_signal(signal.SIGKILL)
    ended(process)
