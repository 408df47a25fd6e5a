"""A disk becomes full while a report is written: one message, and the report that was there before is unchanged."""

import shutil

from trial import Fault, Trial, command, disk


def trial(trial: Trial) -> None:
    """Sizes of the disk from the folder itself to a little less than with a report."""
    calm = trial.calm
    used = sum(-(-path.stat().st_size // 4096) + 1 for path in calm.rglob("*"))
    size = 4 * (used + trial.dice.randint(8, 250))  # a report has 1.3 MB

    def act() -> None:
        out = trial.folder / "disk" / "out"
        try:
            shutil.copytree(calm, out)
            (out / "report.html").write_text("before", encoding="utf-8")
        except (OSError, shutil.Error):
            return  # not even the folder fits
        ran = trial.sane(command("report", "disk/out", cwd=trial.folder))
        if drafts := [path.name for path in out.glob(".*")]:
            raise Fault(f"{size} KiB: left behind: {drafts}")
        whole = (out / "report.html").read_text(encoding="utf-8")
        if ran.code == 2 and (whole != "before" or len(ran.err.strip().splitlines()) != 1):
            raise Fault(f"{size} KiB: {ran.err[-300:]}; the report now has {len(whole)} characters")
        if ran.code == 0 and not whole.rstrip().endswith("</html>"):
            raise Fault(f"{size} KiB: exit code 0, and the report is not whole")

    disk(trial, f"{size}k", act)
