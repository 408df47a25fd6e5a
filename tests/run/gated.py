"""The command with workers that wait at gates, and with a clock of the plan that advances with each answer.

What a test wants to happen in the middle of a sweep must neither come too late on a fast machine nor too early on a
slow one. So the runs stop where the test says: each waits before it begins until its number is among those that are let
in, and before it answers while its number is among those that are held; who waits says so.

Usage: gated.py GATE ARGUMENT...; GATE is the folder of a `Gate` (gate.py), the arguments are those of `tcpassay`.
"""

import json
import os
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SCRIPT = Path(__file__)
SECONDS_AN_ANSWER = 0.1


def _wait(folder: Path, name: str, number: int, *, listed: bool) -> None:
    """Waits while the list says so."""
    sign = folder / f"{name}-{number}-{os.getpid()}"
    while (number in json.loads((folder / name).read_text(encoding="ascii"))) == listed:
        sign.touch()
        time.sleep(0.005)
    sign.unlink(missing_ok=True)


def be_a_worker(folder: Path) -> None:
    """The real worker behind the gate."""
    from tcpassay.run import worker  # noqa: PLC0415 - the test needs neither

    real = worker.work

    def work(request: Any) -> Any:
        number = int(Path(request.folder).name.split("-")[0])
        _wait(folder, "let-in", number, listed=False)
        answer = real(request)
        _wait(folder, "held", number, listed=True)
        return answer

    worker.work = work
    worker.main()


def be_the_command(folder: str) -> None:
    """The real command; its plan's time stands still between answers."""
    from tcpassay.__main__ import main  # noqa: PLC0415
    from tcpassay.run import execute, pool  # noqa: PLC0415

    answers = 0
    real = pool.Pool.run

    def run(self: pool.Pool, requests: Iterable[Any]) -> Generator[list[Any]]:
        nonlocal answers
        for some in real(self, requests):
            answers += len(some)
            yield some

    pool.WORKER = [str(SCRIPT), "--worker", folder]
    pool.Pool.run = run  # type: ignore[method-assign]
    execute.time = SimpleNamespace(monotonic=lambda: answers * SECONDS_AN_ANSWER)  # type: ignore[assignment]
    main()


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        gate = sys.argv[2]
        del sys.argv[1:3]
        be_a_worker(Path(gate))
    else:
        gate = sys.argv.pop(1)
        be_the_command(gate)
