"""A disk of random size becomes full while the folder is created or during runs. With space the sweep completes."""

from pathlib import Path

from trial import Fault, Trial, command, disk, resized


def trial(trial: Trial) -> None:
    """Sizes from no space to enough for half of the recordings."""
    trial.plan()
    pages = trial.dice.choice(
        (trial.dice.randint(1, 12), trial.dice.randint(8, 45), trial.dice.randint(30, 200))
    )

    def act() -> None:
        out = Path("disk", "out")
        _full(trial, pages, "run", "plan.toml", "--out", str(out), "--jobs", "2")
        if (trial.folder / out).exists():
            _full(trial, pages, "run", "--resume", str(out), "--jobs", "2")
        resized(trial, "200m")
        begun = (trial.folder / out / "journal.sqlite").exists()
        what = ("--resume", str(out)) if begun else ("plan.toml", "--out", str(out))
        ran = trial.sane(command("run", *what, "--jobs", "2", cwd=trial.folder))
        if ran.code not in {0, 1}:
            raise Fault(f"{4 * pages} KiB: with space again: exit code {ran.code}: {ran.err[-400:]}")
        trial.same(trial.folder / out)

    disk(trial, f"{4 * pages}k", act)


def _full(trial: Trial, pages: int, *arguments: str) -> None:
    ran = trial.sane(command(*arguments, cwd=trial.folder))
    if ran.code == 2 and len(ran.err.strip().splitlines()) != 1:
        raise Fault(f"{4 * pages} KiB: more than one message: {ran.err[-400:]}")
