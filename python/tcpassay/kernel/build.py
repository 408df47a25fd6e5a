"""Builds a kernel: a patched copy of the source, the configuration of tcpassay, make, and a boot of the image."""

import errno
import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.gcov import catalogue_of
from tcpassay.gcov.counters import NOTES
from tcpassay.kernel import boots, kbuild, shadow, store
from tcpassay.kernel.kbuild import CONFIG
from tcpassay.kernel.modules import Module
from tcpassay.kernel.series import Patch
from tcpassay.kernel.source import FULL_DISK, Debian, Say, Source, UnavailableError, run
from tcpassay.kernel.store import Kernel
from tcpassay.kernel.variant import PLAIN, Variant

TOOLS: Final = {
    "make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch", "tar": "tar",
    "xz": "xz-utils",
}  # fmt: skip
"""The programs that a build needs, with Debian's packages."""

HEADERS: Final = (
    "include/net/tcp*.h",
    "include/net/inet*.h",
    "include/net/sock.h",
    "include/net/codel*.h",
    "include/net/pie.h",
    "include/net/red.h",
    "include/linux/tcp.h",
    "include/linux/win_minmax.h",
    "include/uapi/linux/tcp.h",
)
"""Headers that are kept with the sources that have counters."""

Stepped = Callable[[str], None]
"""Called with the name of each file that make has built."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The kernel that is to be built."""

    source: Source
    words: str
    """The description of the source."""
    name: str
    users: list[shadow.Change]
    variant: Variant

    @property
    def ours(self) -> list[Patch]:
        """The patches of this package."""
        ours = shadow.patches()
        if isinstance(self.source, Debian):
            ours = shadow.until(self.source.version, ours)
        return [*ours, *self.variant.patches]


def missing_tools() -> list[str]:
    """The Debian packages that are missing for a build."""
    return [package for tool, package in TOOLS.items() if shutil.which(tool) is None]


def build(  # noqa: PLR0913 - what is built, and the observers
    source: Source,
    name: str,
    *,
    users: Sequence[shadow.Change] = (),
    variant: Variant = PLAIN,
    jobs: int,
    say: Say,
    stepped: Stepped,
) -> tuple[Kernel, bool]:
    """The kernel of this source with the patches and modules of the user, and whether it was built now.

    Raises `UnavailableError` if no build can begin here, otherwise `UserError` with the hunk that does not apply, the
    compiler's messages, the end of the console of a kernel that does not boot, or the controller that a module did not
    register; there is no such kernel in the store then.
    """
    if missing := missing_tools():
        raise UnavailableError(
            f"programs for the build of a kernel are missing: {', '.join(missing)} "
            f"(Debian: apt-get install {' '.join(missing)})"
        )
    place, tree = store.folder(name), store.tree(source.identity)
    # Fetches a package that is not there yet; without a source no folder is made.
    described = source.words
    place.mkdir(parents=True, exist_ok=True)
    with alone(place):
        before = store.read(name)
        wanted = _Wanted(source, described, name, list(users), variant)
        if before and isinstance(source, Debian) and before.key == _key(wanted, before.patches):
            return before, False
        # Files of an earlier version of tcpassay in the folder of a kernel.
        for part in ("source", "pristine", "build", "manifest.json", "linux.new"):
            store.drop(place / part)
        kept = tree.is_dir() or bool(users) or not isinstance(source, Debian)
        tree.mkdir(parents=True, exist_ok=True)
        store.uses(name, source.identity)
        with _ours(tree, say) as lock:
            try:
                made = _built(wanted, jobs, say, stepped, lock)
            except (OSError, UserError) as error:
                if not _disk_is_full(error):
                    raise
                # Any file of the tree may be cut off; without the tree there is also space to report and to retry.
                (place / "kernel.json").unlink(missing_ok=True)
                store.drop(place / "linux.new")
                store.drop(tree)
                raise UserError(
                    f"the disk became full while kernel `{name}` was built; the tree `{tree}` was removed; "
                    "make space (2 GB), and build again"
                ) from None
            if not kept:
                # A package changes only as a whole, and without patches it is not built again.
                store.drop(tree)
    return made


def _built(wanted: _Wanted, jobs: int, say: Say, stepped: Stepped, lock: int) -> tuple[Kernel, bool]:
    source, name, users, variant = wanted.source, wanted.name, wanted.users, wanted.variant
    place, tree = store.folder(name), store.tree(source.identity)
    before = store.read(name)
    started = time.monotonic()
    copy = shadow.refresh(source, tree, users, wanted.ours, say)
    key = _key(wanted, copy.patches, copy.digest)
    if before and before.key == key:
        return before, False
    (place / "kernel.json").unlink(missing_ok=True)
    log = place / "build.log"
    build = _objects(tree, variant, say)
    absent = kbuild.configure(copy.tree, build, log, variant, say)
    kbuild.make(copy.tree, build, log, variant, jobs, say, stepped, lock)
    shutil.copy2(build / "linux", place / "linux.new")
    say("booting")
    modules = [name for change in users if isinstance(change, Module) for name in change.controllers]
    boots.require(place / "linux.new", place / "boot.log", modules)
    if variant.name == store.COVERAGE:
        _keep_notes(variant, copy.tree, build, place / store.COVERAGE)
    (place / "linux.new").replace(place / "linux")
    release = (build / "include/config/kernel.release").read_text(encoding="utf-8").strip()
    kernel = Kernel(
        name=name,
        release=release,
        source=wanted.words,
        key=key,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 1),
        patches=copy.patches,
        contained=copy.contained,
        absent=absent,
        series=[change.name for change in users if isinstance(change, Patch)],
        modules=modules,
        variant=variant.name,
    )
    store.write(kernel)
    return kernel, True


def _objects(tree: Path, variant: Variant, say: Say) -> Path:
    """The folder of object files; a variant of the plain configuration begins with those of the plain kernel."""
    plain, own = tree / PLAIN.folder, tree / variant.folder
    if not own.exists() and plain.is_dir() and not variant.config:
        say("copying the object files of the plain kernel")
        draft = own.with_name(f"{own.name}.new")
        store.drop(draft)
        shutil.copytree(plain, draft, symlinks=True)
        for file in variant.sources(tree / "source"):
            (draft / file.relative_to(tree / "source")).with_suffix(".o").unlink(missing_ok=True)
        draft.replace(own)
    return own


def _keep_notes(variant: Variant, tree: Path, build: Path, into: Path) -> None:
    """Copies sources with counters, gcc's notes about them, TCP's headers, and the list of counted places to a folder.

    With the sources of two kernels it is known which of their lines differ (`gcov/changed.py`).
    """
    store.drop(into)
    for header in sorted(file for pattern in HEADERS for file in tree.glob(pattern)):
        name = header.relative_to(tree)
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(header, into / name)
    for file in variant.sources(tree):
        name = file.relative_to(tree)
        notes = (build / name).with_suffix(NOTES)
        if notes.is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, into / name)
            shutil.copyfile(notes, into / notes.name)
    (into / store.CATALOGUE).write_text(catalogue_of(into).as_text(), encoding="utf-8")


def _key(wanted: _Wanted, applied: list[str], digest: str | None = None) -> str:
    variant = wanted.variant
    parts = [
        wanted.words if isinstance(wanted.source, Debian) else f"build version 1\n{digest}",
        CONFIG.read_text(encoding="utf-8"),
        *(f"{patch.name}\n{patch.text}" for patch in shadow.relevant(wanted.ours, applied)),
        *applied,
        run(["gcc", "--version"]).stdout.partition("\n")[0],
        *(f"user's, build version 1\n{change.name}\n{change.text}" for change in wanted.users),
        *(
            [f"variant {variant.name}\n{variant.lines}", *variant.make, variant.switch, *variant.instrumented]
            if variant.name
            else []
        ),
    ]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Locks the folder of a kernel against other builds. Raises `UserError` if another build is active."""
    with (place / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process is building the kernel `{place.name}`") from None
        yield


@contextmanager
def _ours(tree: Path, say: Say) -> Iterator[int]:
    """Locks a tree; waits while another process builds a kernel of the same source. Yields the lock's descriptor."""
    with tree.with_name(f"{tree.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of this source")
            fcntl.flock(lock, fcntl.LOCK_EX)
        tree.mkdir(parents=True, exist_ok=True)
        yield lock.fileno()


def _disk_is_full(error: OSError | UserError) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return full or FULL_DISK.search(str(error)) is not None
