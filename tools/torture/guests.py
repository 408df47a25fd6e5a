"""Processes of a guest are killed at random times: the run equals an undisturbed one, or is reported as killed."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trial import Fault, Skip, Trial

if TYPE_CHECKING:
    from tcpassay.messages import Answer

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)
CASE = {"app.duration": "50ms", "link.loss": "1%"}
COLLECT = {"series": "1ms", "warmup": "0s", "deliveries": False, "events": False, "packets": False}
_TRACES: dict[str, Any] = {}
"""The recording of the undisturbed run."""


def trial(trial: Trial) -> None:
    """Runs a guest and kills one of its processes after a random number of checks."""
    from tcpassay.errors import UserError  # noqa: PLC0415
    from tcpassay.kernel import store  # noqa: PLC0415
    from tcpassay.substrate.agent import agent_program  # noqa: PLC0415

    try:
        store.find()
        agent_program()
    except UserError as error:
        raise Skip(str(error)) from None
    if not _TRACES:
        _TRACES["calm"] = _run(trial).trace
    nth, delay = trial.dice.randint(0, 12), trial.dice.uniform(0, 0.02)
    killer = threading.Thread(target=_kill, args=(nth, delay, trial.dice.choice(SIGNALS)))
    killer.start()
    answer = _run(trial)
    killer.join()
    if answer.outside or (answer.outcome, answer.trace) == ("done", _TRACES["calm"]):
        return
    raise Fault(
        f"process {nth} after {delay:.3f} s: {answer.outcome}, {answer.trace}: {answer.message[-400:]}"
    )


def _run(trial: Trial) -> "Answer":
    from tcpassay.substrate import kernel as guest  # noqa: PLC0415

    folder = str(trial.folder / "recording")
    return guest.run_case(triples=CASE, seed=3, base=str(trial.folder), collect=COLLECT, folder=folder)


def _kill(nth: int, delay: float, number: signal.Signals) -> None:
    """Waits for the guest of this process and for its nth process, and kills that process shortly afterwards."""
    seen: list[int] = []
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        guest = next((one for one in _children(os.getpid()) if _is_guest(one)), None)
        if guest is None:
            if seen:
                return
            continue
        seen += [one for one in (guest, *_children(guest)) if one not in seen]
        if len(seen) > nth:
            time.sleep(delay)
            if _is_guest(guest):  # another process may have its number by now
                try:
                    os.kill(seen[nth], number)
                except ProcessLookupError:
                    return
            return


def _children(process: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += map(int, file.read_text(encoding="ascii").split())
        except OSError:
            continue
    return found


def _is_guest(process: int) -> bool:
    try:
        return b"time-travel" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
