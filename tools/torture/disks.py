"""A disk of random size becomes full while the folder is created or during runs. With space the sweep completes."""

import shutil
import subprocess
import sys
from pathlib import Path

from trial import Fault, Ran, Skip, Trial, environment

SCRIPT = """
mount -t tmpfs -o size="$2" tmpfs disk || exit 77
"$1" -m tcpassay run plan.toml --out disk/out --jobs 2 >1.out 2>1.err; echo $? >1.code
ls -A disk > 1.ls
if [ -e disk/out ]; then
    "$1" -m tcpassay run --resume disk/out --jobs 2 >2.out 2>2.err; echo $? >2.code
fi
mount -o remount,size=200m disk || exit 77
if [ -e disk/out/journal.sqlite ]; then
    "$1" -m tcpassay run --resume disk/out --jobs 2 >3.out 2>3.err; echo $? >3.code
else
    "$1" -m tcpassay run plan.toml --out disk/out --jobs 2 >3.out 2>3.err; echo $? >3.code
fi
cp -r disk/out out
"""


def trial(trial: Trial) -> None:
    """Sizes from no space to enough for half of the recordings."""
    trial.plan()
    if shutil.which("unshare") is None:
        raise Skip("no unshare here")
    (trial.folder / "disk").mkdir()
    pages = trial.dice.choice(
        (trial.dice.randint(1, 12), trial.dice.randint(8, 45), trial.dice.randint(30, 200))
    )
    arguments = ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", sys.executable, f"{4 * pages}k"]
    done = subprocess.run(arguments, cwd=trial.folder, env=environment(), capture_output=True, check=False)
    if done.returncode == 77 or b"unshare" in done.stderr:
        raise Skip("this user may not mount a file system")
    for step in ("1", "2"):
        if (trial.folder / f"{step}.code").exists():
            ran = trial.sane(_ran(trial.folder, step))
            if ran.code == 2 and len(ran.err.strip().splitlines()) != 1:
                raise Fault(f"{4 * pages} KiB: more than one message: {ran.err[-400:]}")
    ran = trial.sane(_ran(trial.folder, "3"))
    if ran.code not in {0, 1}:
        raise Fault(f"{4 * pages} KiB: with space again: exit code {ran.code}: {ran.err[-400:]}")
    trial.same(trial.folder / "out")


def _ran(folder: Path, step: str) -> Ran:
    texts = [
        (folder / f"{step}.{name}").read_text(encoding="utf-8", errors="replace")
        for name in ("code", "out", "err")
    ]
    return Ran(int(texts[0]), texts[1], texts[2])
