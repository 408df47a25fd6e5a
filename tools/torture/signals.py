"""A sweep receives one or several signals: the exit code is 130, ended runs are kept, and it can be resumed."""

import json
import signal
import time

from trial import Fault, Trial, command, ended, start

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def trial(trial: Trial) -> None:
    """A few signals at drawn moments after the folder is there."""
    trial.plan()
    out = trial.folder / "out"
    process = start("run", "plan.toml", "--out", "out", "--jobs", "2", cwd=trial.folder)
    if trial.dice.random() < 0.8:
        while process.poll() is None and not (out / "result.json").exists():
            time.sleep(0.005)
    else:  # while it is still importing
        time.sleep(trial.dice.uniform(0, 0.5))
    for _ in range(trial.dice.randint(1, 4)):
        time.sleep(trial.dice.choice((0, 0.001, 0.01, 0.1)))
        if process.poll() is None:
            process.send_signal(trial.dice.choice(SIGNALS))
    ran = ended(process)
    if ran.code < 0 and -ran.code in SIGNALS:
        pass  # before the runs have begun, or after the result is written, a signal does what it does to any program
    elif ran.code not in {0, 1, 130}:
        trial.sane(ran)
    # An interrupt while Python itself starts has a traceback without a file of the package.
    if ("Traceback" in ran.err and "/tcpassay/" in ran.err) or "Exception ignored" in ran.err:
        raise Fault(ran.err[-600:])
    if ran.code == 130 and (out / "journal.sqlite").exists():
        index = json.loads((out / "result.json").read_text(encoding="utf-8"))
        if index["status"] not in {"interrupted", "complete"}:
            raise Fault(f"exit code 130, and result.json says {index['status']}")
    again = (
        ("run", "--resume", "out")
        if (out / "journal.sqlite").exists()
        else ("run", "plan.toml", "--out", "out")
    )
    trial.good(command(*again, cwd=trial.folder))
    trial.same(out)
