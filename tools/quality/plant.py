"""Builds the native module with every planted fault in it, each behind a switch, in a copy of the package.

    python tools/quality/plant.py --check          # every edit applies to the source as it is
    python tools/quality/plant.py --out out/quality

The repository is not touched: the edits are applied to a copy of the crates. `_native.plant(number)` or the environment
variable `TCPASSAY_FAULT` switches a fault on, and 0 switches all off.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "quality" / "model"
FOLLOWS = ROOT / "tools" / "quality" / "follow.rs"
"""What the copy's tests of following have in addition: `tools/quality/follow.py` runs it."""
SWITCH = """
/// Which planted fault is on; 0: none. At first that of the environment.
static PLANTED: std::sync::LazyLock<std::sync::atomic::AtomicU32> = std::sync::LazyLock::new(|| {
    let number = std::env::var("TCPASSAY_FAULT").ok().and_then(|text| text.parse().ok());
    std::sync::atomic::AtomicU32::new(number.unwrap_or(0))
});

/// Switches a planted fault on.
pub fn plant(fault: u32) {
    PLANTED.store(fault, std::sync::atomic::Ordering::Relaxed);
}

/// Whether a planted fault is on.
pub fn planted(fault: u32) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == fault
}
"""
FUNCTION = """
/// Switches a planted fault on.
#[pyfunction]
pub fn plant(fault: u32) {
    tcpassay_units::plant(fault);
}
"""


@dataclass(frozen=True)
class Fault:
    """A planted fault: its number, the rule that it breaks, and its edits (file, old text, new text)."""

    number: int
    id: str
    rule: str
    edits: tuple[tuple[str, str, str], ...]


def faults() -> list[Fault]:
    """All faults, in the order of their files."""
    rows = [row for file in sorted(DATA.glob("*.toml")) for row in tomllib.loads(file.read_text())["fault"]]
    return [
        Fault(number, row["id"], row["rule"], tuple(tuple(edit) for edit in row["edits"]))
        for number, row in enumerate(rows, 1)
    ]


def applied(planted: list[Fault]) -> dict[str, str]:
    """The text of each file that is edited, with all faults in it.

    Raises `ValueError` for an edit that does not apply.
    """
    texts: dict[str, str] = {}
    for fault in planted:
        for file, old, new in fault.edits:
            text = texts.get(file) or (ROOT / file).read_text()
            if text.count(old) != 1:
                raise ValueError(
                    f"fault {fault.id}: {file} has the text {old!r} {text.count(old)} times, not once"
                )
            texts[file] = text.replace(old, new.replace("FAULT", f"tcpassay_units::planted({fault.number})"))
    return texts


def copy(folder: Path, edited: dict[str, str]) -> Path:
    """A copy of the workspace with the texts of some files replaced, and with `_native.plant`.

    Files that are the same already stay, so that Cargo reuses them.
    """
    source = folder / "source"
    texts = {Path(file): text.encode() for file, text in edited.items()}
    for path in sorted((ROOT / "crates").rglob("*")):
        if path.is_file():
            texts.setdefault(path.relative_to(ROOT), path.read_bytes())
    for name in ("Cargo.toml", "Cargo.lock"):
        texts[Path(name)] = (ROOT / name).read_bytes()
    units, judge = Path("crates/units/src/lib.rs"), Path("crates/python/src/judge.rs")
    texts[units] += SWITCH.encode()
    texts[Path("crates/follow/tests/model.rs")] += FOLLOWS.read_bytes()
    texts[judge] += FUNCTION.encode()
    module = Path("crates/python/src/lib.rs")
    texts[module] = texts[module].replace(b"use crate::judge::{", b"use crate::judge::{plant, ", 1)
    for old in sorted(source.rglob("*")):
        if old.is_file() and old.relative_to(source) not in texts:
            old.unlink()
    for place, text in texts.items():
        file = source / place
        if not file.exists() or file.read_bytes() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
    return source


def build(folder: Path, profile: str, edited: dict[str, str]) -> Path:
    """Builds the copy with a profile of Cargo and gives the folder for PYTHONPATH."""
    copy(folder, edited)
    target = Path(os.environ.get("CARGO_TARGET_DIR", folder / "target")).resolve()
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    command = ["cargo", "build", "--offline", "--profile", profile, "-p", "tcpassay-python"]
    subprocess.run(command, cwd=folder / "source", env=environment, check=True)  # noqa: S603
    package = folder / "package" / "tcpassay"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "python" / "tcpassay", package, ignore=shutil.ignore_patterns("_native*", "__pycache__")
    )
    made = target / ("debug" if profile == "dev" else profile) / "lib_native.so"
    shutil.copy(made, package / "_native.abi3.so")
    return package.parent


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only apply the edits in memory")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "quality")
    parser.add_argument("--profile", default="quick", help="the profile of Cargo")
    given = parser.parse_args()
    try:
        edited = applied(faults())
    except ValueError as error:
        sys.exit(f"error: {error}")
    if not given.check:
        print(build(given.out.resolve(), given.profile, edited))


if __name__ == "__main__":
    main()
