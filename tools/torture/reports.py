"""A disk becomes full while a report is written: one message, and the report that was there before is unchanged."""

import shutil
import subprocess
import sys

from trial import Fault, Ran, Skip, Trial, environment

SCRIPT = """
mount -t tmpfs -o size="$2" tmpfs disk || exit 77
cp -r out disk/out || exit 76
printf before > disk/out/report.html || exit 76
"$1" -m tcpassay report disk/out $3 >1.out 2>1.err; echo $? >1.code
ls -A disk/out > 1.ls
cat disk/out/report.html > 1.report
"""


def trial(trial: Trial) -> None:
    """Sizes of the disk from the folder itself to a little less than with a report."""
    out = trial.copy()
    if shutil.which("unshare") is None:
        raise Skip("no unshare here")
    (trial.folder / "disk").mkdir()
    used = sum(-(-path.stat().st_size // 4096) + 1 for path in out.rglob("*"))
    size = 4 * (used + trial.dice.randint(8, 250))  # a report has 1.3 MB
    arguments = ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", sys.executable, f"{size}k", ""]
    done = subprocess.run(arguments, cwd=trial.folder, env=environment(), capture_output=True, check=False)
    if done.returncode == 77 or b"unshare" in done.stderr:
        raise Skip("this user may not mount a file system")
    if done.returncode == 76:
        return  # not even the folder fits
    texts = [(trial.folder / f"1.{name}").read_text(encoding="utf-8") for name in ("code", "out", "err")]
    ran = trial.sane(Ran(int(texts[0]), texts[1], texts[2]))
    names = (trial.folder / "1.ls").read_text(encoding="utf-8").split()
    if drafts := [name for name in names if name.startswith(".")]:
        raise Fault(f"{size} KiB: left behind: {drafts}")
    whole = (trial.folder / "1.report").read_text(encoding="utf-8")
    if ran.code == 2 and (whole != "before" or len(ran.err.strip().splitlines()) != 1):
        raise Fault(f"{size} KiB: {ran.err[-300:]}; the report now has {len(whole)} characters")
    if ran.code == 0 and not whole.rstrip().endswith("</html>"):
        raise Fault(f"{size} KiB: exit code 0, and the report is not whole")
