"""Runs the Rust tests with every planted fault, and says which test fails first: `make quality`.

    python tools/quality/run.py --out out/quality --table docs/quality.md

The tests are built once, in a copy of the crates that contains every fault behind a switch (`plant.py`). A fault is
found when a test of the crate that has it, or of a crate above that one, fails or does not end. What was measured is
kept in `measured.json` of the folder: a fault is measured again only when that file is removed.
"""

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

from plant import ROOT, Fault, applied, copy, faults

TESTS = {
    "cc": ("cc", "tcp", "sim"),
    "tcp": ("tcp", "script", "sim"),
    "sim": ("sim",),
    "case": ("case", "sim"),
}
"""For each crate with faults: the crates whose tests run, in that order."""
MOST_SECONDS = 300
"""Time of one test program; the longest one needs a tenth of it."""
FAILED = re.compile(r"^test (\S+)(?: - .*)? \.\.\. FAILED$", re.MULTILINE)
BEFORE = ROOT / "tests" / "quality" / "notes.md"
"""The text before the table."""
Row = dict[str, str | None]


def programs(folder: Path, crates: list[str]) -> dict[str, list[Path]]:
    """Builds the tests of some crates in a copy with every fault; their programs by crate."""
    source = copy(folder, applied(faults()))
    for name in ("scripts", "plans"):
        if not (link := source / name).exists():
            link.symlink_to(ROOT / name)
    target = folder / "target"
    packages = [word for crate in crates for word in ("-p", f"tcpassay-{crate}")]
    # The profile of `follow.py`, which may have built most of it in the same folder.
    command = [
        "cargo",
        "test",
        "--offline",
        "--no-run",
        "--message-format=json",
        "--profile",
        "ci",
        *packages,
    ]
    told = subprocess.run(  # noqa: S603
        command,
        cwd=source,
        env=os.environ | {"CARGO_TARGET_DIR": str(target)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    made: dict[str, list[Path]] = {crate: [] for crate in crates}
    for line in told.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            crate = Path(message["manifest_path"]).parent.name
            made.setdefault(crate, []).append(Path(message["executable"]))
    return made


def failure(program: Path, crate: str, source: Path, fault: int) -> str | None:
    """The first test of a program that fails with a fault; `None` if all pass."""
    environment = os.environ | {"TCPASSAY_FAULT": str(fault), "PROPTEST_RNG_SEED": "1"}
    try:
        ended = subprocess.run(  # noqa: S603
            [str(program)],
            cwd=source / "crates" / crate,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "does not end"
    if not ended.returncode:
        return None
    found = FAILED.findall(ended.stdout)
    return min(found) if found else f"ends with {ended.returncode}"


def crate_of(fault: Fault) -> str:
    """The crate that a fault is in."""
    return Path(fault.edits[0][0]).parts[1]


def measure(fault: int, crates: tuple[str, ...], made: dict[str, list[Path]], source: Path) -> Row:
    """The crate and the test that find a fault; both `None` if none does."""
    for crate in crates:
        for program in made[crate]:
            if test := failure(program, crate, source, fault):
                return {"crate": crate, "test": test}
    return {"crate": None, "test": None}


def table(rows: dict[str, Row]) -> str:
    """`docs/quality.md`."""
    planted = [fault for fault in faults() if fault.id in rows]
    lines = [BEFORE.read_text(), "| crate | faults | found |", "| --- | ---: | ---: |"]
    for crate in TESTS:
        own = [fault for fault in planted if crate_of(fault) == crate]
        caught = sum(rows[fault.id]["test"] is not None for fault in own)
        lines.append(f"| `{crate}` | {len(own)} | {caught} |")
    lines += ["", "| fault | rule | found by |", "| --- | --- | --- |"]
    for fault in planted:
        row = rows[fault.id]
        by = f"`{row['crate']}`: `{row['test']}`" if row["test"] else "-"
        lines.append(f"| `{fault.id}` | {fault.rule} | {by} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "quality")
    parser.add_argument("--only", nargs="+", help="ids of faults")
    parser.add_argument("--crates", nargs="+", choices=list(TESTS), help="only faults of these")
    parser.add_argument("--own", action="store_true", help="only the tests of the crate that has the fault")
    parser.add_argument("--table", type=Path, help="write the table here")
    given = parser.parse_args()
    folder = given.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [
        fault
        for fault in faults()
        if (not given.only or fault.id in given.only)
        and (not given.crates or crate_of(fault) in given.crates)
    ]
    tests = {crate: TESTS[crate][:1] if given.own else TESTS[crate] for crate in map(crate_of, chosen)}
    made = programs(folder, sorted({name for names in tests.values() for name in names}))
    measured = folder / "measured.json"
    rows: dict[str, Row] = json.loads(measured.read_text()) if measured.exists() else {}
    for name in made:
        if wrong := measure(0, (name,), made, folder / "source")["test"]:
            raise SystemExit(f"error: without a fault the test {wrong} of {name} fails")
    for fault in chosen:
        if fault.id not in rows:
            rows[fault.id] = measure(fault.number, tests[crate_of(fault)], made, folder / "source")
            measured.write_text(json.dumps(rows))
            print(f"{fault.id}: {rows[fault.id]['test'] or '-'}", flush=True)
    if given.table:
        given.table.write_text(table(rows))
    caught = sum(rows[fault.id]["test"] is not None for fault in chosen)
    print(f"{caught} of {len(chosen)} faults found")


if __name__ == "__main__":
    main()
