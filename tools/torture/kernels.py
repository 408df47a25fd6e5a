"""A disk becomes full while a kernel is built: one message, and neither a kernel nor a part of its tree is left.

The build copies its source first. The disks of these trials are full before that ends, so that nothing is compiled.
"""

import shutil
import subprocess
import sys

from trial import Fault, Ran, Skip, Trial, environment

SCRIPT = """
mount -t tmpfs -o size="$2" tmpfs disk || exit 77
export TCPASSAY_CACHE="$PWD/disk"
"$1" -m tcpassay kernel build --source "$3" --name full >1.out 2>1.err; echo $? >1.code
"$1" -m tcpassay kernel list >2.out 2>2.err; echo $? >2.code
du -sk disk | cut -f 1 >used
"""


def trial(trial: Trial) -> None:
    """A disk of 1 to 64 MB; a source has a gigabyte."""
    from tcpassay.kernel import build, store  # noqa: PLC0415

    source = store.cache() / "trees" / "debian-6.1" / "source"
    if not source.is_dir():
        raise Skip("no source of a kernel; `make kernel` fetches one")
    if missing := build.missing_tools():
        raise Skip(f"programs are missing: {', '.join(missing)}")
    if shutil.which("unshare") is None:
        raise Skip("no unshare here")
    (trial.folder / "disk").mkdir()
    size = trial.dice.choice((1, 4, 16, 64)) * trial.dice.randint(700, 1024)
    arguments = ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", sys.executable, f"{size}k", str(source)]
    done = subprocess.run(arguments, cwd=trial.folder, env=environment(), capture_output=True, check=False)
    if done.returncode == 77 or b"unshare" in done.stderr:
        raise Skip("this user may not mount a file system")
    said = trial.sane(_ran(trial, "1"))
    if said.code != 2 or len(said.err.strip().splitlines()) != 1 or "disk" not in said.err:
        raise Fault(f"{size} KiB: exit code {said.code}: {said.err[-400:]}")
    listed = trial.sane(_ran(trial, "2"))
    if listed.code != 0 or "full" in listed.out:
        raise Fault(f"{size} KiB: a kernel is listed: {listed.out[-300:]}")
    used = int((trial.folder / "used").read_text(encoding="ascii"))
    if used > 256:
        raise Fault(f"{size} KiB: {used} KiB are left")


def _ran(trial: Trial, step: str) -> Ran:
    texts = [(trial.folder / f"{step}.{name}").read_text(encoding="utf-8") for name in ("code", "out", "err")]
    return Ran(int(texts[0]), texts[1], texts[2])
