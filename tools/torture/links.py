"""An entry of a result folder is replaced by a symbolic link while runs go on: nothing is written through it.

The runs are made in a child, whose executor replaces the entry at a drawn moment between steps of a run.
"""

import random
import shutil
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from trial import PLAN, Fault, Trial, fork

ENTRIES = (
    "recordings", ".work", "inputs", "runs.parquet", "result.json", "metrics.parquet", "findings.json", "plan.toml",
    "journal.sqlite", "journal.sqlite-wal", ".tcpassay.lock",
)  # fmt: skip


class Swapping:
    """An executor in this process that replaces entries of the folder by links."""

    name = "swapping"
    jobs = 1

    def __init__(self, out: Path, victim: Path, dice: random.Random) -> None:
        self.out = out
        self.victim = victim
        self.dice = dice

    def run(self, requests: Iterable[Any], limits: object) -> Generator[list[tuple[int, Any]]]:
        """Answers each request; links appear before or after a run."""
        from tcpassay.run.worker import work  # noqa: PLC0415

        del limits
        for number, request in enumerate(requests):
            self._perhaps()
            answer = work(request)
            self._perhaps()
            yield [(number, answer)]

    def _perhaps(self) -> None:
        if self.dice.random() > 0.2:
            return
        entry = self.out / self.dice.choice(ENTRIES)
        if entry.is_symlink():
            return
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
        entry.symlink_to(self.victim if self.dice.random() < 0.5 else self.victim / "precious")


def trial(trial: Trial) -> None:
    """Runs, and afterwards a resume, both in children."""
    victim = trial.folder / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine", encoding="utf-8")
    trial.plan()

    def act() -> None:
        from tcpassay.errors import UserError  # noqa: PLC0415
        from tcpassay.plan.read import read  # noqa: PLC0415
        from tcpassay.run.execute import execute  # noqa: PLC0415
        from tcpassay.run.session import Beginning, Session  # noqa: PLC0415

        out = trial.folder / "out"
        executor = Swapping(out, victim, trial.dice)
        try:
            plan = read(PLAN, trial.folder / "plan.toml")
            with Session.begin(plan, out, Beginning(), replace_=False) as session:
                execute(session, executor)
        except UserError as error:
            if not str(error).strip():
                raise Fault("refused without a word") from None
        try:
            with Session.resume(out, force=False) as session:
                execute(session, executor)
        except UserError:
            return

    code, said = fork(act)
    if code:
        raise Fault(said.strip()[-700:])
    there = [(file.name, file.read_text(encoding="utf-8")) for file in victim.iterdir() if file.is_file()]
    if there != [("precious", "mine")] or len(list(victim.iterdir())) != 1:
        raise Fault(f"written through a link: {sorted(file.name for file in victim.iterdir())}")
