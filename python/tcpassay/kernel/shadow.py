"""The patched copy of a kernel source, updated so that a build recompiles only changed files.

The original of each patched file is kept beside the copy. The patched file is written only if its content changes.
"""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel.source import Say, Source, Stat, last_line, run

# Without the first patch a kernel lacks the older DCTCP receivers, without the last one RED that is served by a link;
# the other patches only improve speed.
OPTIONAL: Final = {
    "0004-tcp-dctcp-selectable-receiver",
    "0005-um-faults-of-sixteen-pages",
    "0006-um-no-system-calls-at-a-switch",
    "0007-um-memory-is-mapped-at-once",
    "0008-net-sched-tbf-as-a-link",
}


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch file."""

    name: str
    text: str

    @property
    def touches(self) -> list[str]:
        """Paths of the files that the patch changes."""
        return [line[6:].split("\t")[0] for line in self.text.splitlines() if line.startswith("+++ b/")]


@dataclass(frozen=True, slots=True)
class Copy:
    """The state of an updated copy."""

    tree: Path
    digest: str
    """The hash of the source's state and the patches."""
    patches: list[str]
    """Names of the applied patches."""


def patches() -> list[Patch]:
    """The patches of this package, in order."""
    folder = Path(__file__).parent / "patches"
    return [Patch(file.stem, file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.patch"))]


def refresh(source: Source, folder: Path, wanted: list[Patch], say: Say) -> Copy:
    """Updates `folder/source` to the patched source. Raises `UserError` if a required patch does not apply."""
    tree, pristine, manifest = folder / "source", folder / "pristine", folder / "manifest.json"
    before = _read(manifest)
    now = source.files(say)
    changed = [name for name, stat in now.items() if before.get(name) != stat]
    if changed:
        # If this process dies now, the next one copies all files again.
        _write(manifest, {name: stat for name, stat in before.items() if name in now and name not in changed})
    for name in before.keys() - now.keys():
        (tree / name).unlink(missing_ok=True)
        (pristine / name).unlink(missing_ok=True)
    source.copy(changed, tree, say)
    touched = sorted({name for patch in wanted for name in patch.touches})
    _keep_pristine(tree, pristine, touched, fresh=set(changed))
    applied = _patch(tree, pristine, touched, wanted)
    _write(manifest, now)
    state = json.dumps([now, [[patch.name, patch.text] for patch in wanted]], sort_keys=True)
    return Copy(tree, hashlib.sha256(state.encode()).hexdigest(), applied)


def _keep_pristine(tree: Path, pristine: Path, touched: list[str], fresh: set[str]) -> None:
    for name in touched:
        kept = pristine / name
        # The key "" denotes a source that changes only as a whole.
        if (name in fresh or "" in fresh or not kept.exists()) and (tree / name).exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, kept)
    for kept in [file for file in pristine.rglob("*") if file.is_file()]:
        name = str(kept.relative_to(pristine))
        if name not in touched:
            shutil.copyfile(kept, tree / name)
            kept.unlink()


def _patch(tree: Path, pristine: Path, touched: list[str], wanted: list[Patch]) -> list[str]:
    applied = []
    with tempfile.TemporaryDirectory(dir=tree.parent) as made:
        scratch = Path(made)
        for name in touched:
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            if (pristine / name).exists():
                shutil.copyfile(pristine / name, scratch / name)
        for patch in wanted:
            given = tree.parent / "patch"
            given.write_text(patch.text, encoding="utf-8")
            command = [
                "patch",
                "-p1",
                "-f",
                "-s",
                "-N",
                "-r",
                "-",
                "--no-backup-if-mismatch",
                "-d",
                str(scratch),
                "-i",
                str(given),
            ]
            tried = run([*command, "--dry-run"])
            if tried.returncode == 0 and run(command).returncode == 0:
                applied.append(patch.name)
            elif patch.name not in OPTIONAL:
                said = last_line(tried.stdout or tried.stderr)
                raise UserError(f"patch `{patch.name}` does not apply to this kernel: {said}")
            given.unlink()
        for name in touched:
            new = scratch / name
            if new.exists() and new.read_bytes() != (tree / name).read_bytes():
                shutil.copyfile(new, tree / name)
    return applied


def _read(manifest: Path) -> dict[str, Stat]:
    try:
        read = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: (size, changed) for name, (size, changed) in read.items()}


def _write(manifest: Path, files: dict[str, Stat]) -> None:
    draft = manifest.with_suffix(".new")
    draft.write_text(json.dumps(files), encoding="utf-8")
    draft.replace(manifest)
