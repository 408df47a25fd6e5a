"""A disk becomes full while a kernel is built: one message, and neither a kernel nor a part of its tree is left.

The build copies its source, and then compiles. The disk is too small for the copy, or it is filled when the first file
has been compiled.
"""

import json
import os
import time
from pathlib import Path

from forked import Forked
from trial import Fault, Skip, Trial, disk, ended, environment, mount

WHOLE = "1700m"
"""A source has a gigabyte, its object files a tenth of that."""


def trial(trial: Trial) -> None:
    """A disk of 1 to 64 MB, or one for a whole build that something else fills."""
    from tcpassay.kernel import build, store  # noqa: PLC0415

    tree = store.cache() / "trees" / "debian-6.1"
    if not (tree / "source").is_dir():
        raise Skip("no source of a kernel; `make kernel` fetches one")
    if missing := build.missing_tools():
        raise Skip(f"programs are missing: {', '.join(missing)}")
    small = trial.dice.choice((1, 4, 16, 64)) * trial.dice.randint(700, 1024)
    size = f"{small}k" if trial.dice.random() < 0.5 else WHOLE

    def act() -> None:
        place = trial.folder / "disk"
        environ = environment() | {"TCPASSAY_CACHE": str(place)}
        _unpatched(trial, tree)
        arguments = ["kernel", "build", "--source", "tree", "--name", "full"]
        process = Forked(arguments, trial.folder, environ)
        if size == WHOLE:
            _fill(process, place)
        said = trial.sane(ended(process))
        (place / "filler").unlink(missing_ok=True)
        # Beside the progress of the build there is one message.
        message = [line for line in said.err.strip().splitlines() if not line.startswith("kernel full: ")]
        if said.code != 2 or len(message) != 1 or "disk" not in message[0]:
            raise Fault(f"{size}: exit code {said.code}: {said.err[-400:]}")
        listed = trial.sane(ended(Forked(["kernel", "list"], trial.folder, environ)))
        if listed.code != 0 or "full" in listed.out:
            raise Fault(f"{size}: a kernel is listed: {listed.out[-300:]}")
        used = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        if used > 1 << 20:
            raise Fault(f"{size}: {used} bytes are left")

    disk(trial, size, act)


def _unpatched(trial: Trial, tree: Path) -> None:
    """The source as it was before the patches of tcpassay, as the folder `tree` of the trial."""
    for name in ("above", "tree"):
        (trial.folder / name).mkdir()
    mount(trial, "-t", "tmpfs", "tmpfs", "above")
    above = trial.folder / "above"
    for name in ("files", "work"):
        (above / name).mkdir()
    layers = f"lowerdir={tree}/pristine:{tree}/source,upperdir={above}/files,workdir={above}/work"
    mount(trial, "-t", "overlay", "-o", layers, "overlay", "tree")
    for name in json.loads((tree / "created.json").read_text(encoding="utf-8")):
        (trial.folder / "tree" / name).unlink()


def _fill(process: Forked, place: Path) -> None:
    """Fills the disk when the first file has been compiled."""
    while process.poll() is None and not any(place.glob("trees/*/build/**/*.o")):
        time.sleep(0.2)
    try:
        with (place / "filler").open("wb") as filler:
            while True:
                os.write(filler.fileno(), bytes(1 << 20))
    except OSError:
        pass
