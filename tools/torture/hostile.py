"""Maliciously crafted folders: with valid checksums, and with values and links that lead out of the folder.

Nothing outside the folder may be changed, removed or read into an answer, and nothing may hang.
"""

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trial import Fault, Trial, command, fork

CASES = (
    "../../../victim",
    "/tmp/victim",
    "..",
    ".",
    "",
    "a/b",
    "x\x1b[31m",
    "x\n",
    "-",
    "\udc80",
    "a" * 300,
    "victim\0",
)
SEEDS: tuple[Any, ...] = (1, -1, 1.5, "1", "/../x", None, True, 2**70, [], {})
PLACES = (
    "../../../../../etc",
    "/etc",
    "recordings/../../..",
    "recordings",
    "",
    "recordings/x",
    "\x1b]0;x\x07",
    7,
    [],
    {},
)
BASES = ("..", "/", "../../..", "inputs/../..", "", "inputs/\0", "/etc")


def trial(trial: Trial) -> None:
    """One attack, with every command that reads or writes folders."""
    out = trial.copy()
    victim = trial.folder / "victim-1"
    victim.mkdir()
    (victim / "precious").write_text("SECRET-CONTENT", encoding="utf-8")
    shutil.copytree(victim, trial.folder / "victim")
    trial.plan()
    attack = trial.dice.choice((_rows, _rows, _recordings, _links, _links, _kinds, _notes, _texts, _values))
    how = attack(trial, out)
    before = _outside(trial)
    case = min((trial.calm / "recordings").iterdir()).name.split("-")[0]
    commands = [
        ("run", "plan.toml", "--out", "out", "--extend", "--force"),
        ("run", "--resume", "out", "--force"), ("judge", "out"),
        ("report", "out"), ("compare", "out", "out"), ("replay", "out", case, "--seed", "1"),
    ]  # fmt: skip
    for arguments in trial.dice.sample(commands, 3):
        whole = trial.folder / "keep"
        shutil.copytree(out, whole, symlinks=True, ignore=_no_pipes)
        ran = command(*arguments, cwd=trial.folder)
        try:
            trial.sane(ran)
        except Fault as fault:
            raise Fault(f"{how}: {arguments[0]}: {fault}") from None
        if "SECRET-CONTENT" in ran.out + ran.err:
            raise Fault(f"{how}: {arguments[0]} shows the content of a file outside the folder")
        if _outside(trial) != before:
            raise Fault(f"{how}: {' '.join(arguments)} changed something outside the folder")
        shutil.rmtree(whole)


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    return [
        name for name in names if not (Path(folder) / name).is_symlink() and not _plain(Path(folder) / name)
    ]


def _plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def _outside(trial: Trial) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in trial.folder.rglob("*")
        if path.is_file()
        and not path.is_relative_to(trial.folder / "out")
        and not path.is_relative_to(trial.folder / "keep")
    }


def _sum(*parts: object) -> str:
    from tcpassay.seal import checksum  # noqa: PLC0415

    return checksum("\0".join(map(str, parts)).encode(errors="surrogateescape"))


def _rows(trial: Trial, out: Path) -> str:
    """A finished row of an invalid run, in the format of the journal."""
    case, seed = trial.dice.choice(CASES), trial.dice.choice(SEEDS)
    content = json.dumps(
        {"case": case, "seed": seed, "repetition": 1}, separators=(",", ":"), ensure_ascii=False
    )
    content = content.encode(errors="replace").decode()
    from tcpassay.run.journal_rows import outcome_checksum  # noqa: PLC0415

    with contextlib.closing(sqlite3.connect(out / "journal.sqlite")) as database, database:
        (payload,) = database.execute("SELECT payload FROM cases WHERE number = 0").fetchone()
        (number,) = database.execute("SELECT count(*) FROM cases").fetchone()
        database.execute(
            "INSERT INTO cases (number, position, content, content_checksum, outcome, payload, outcome_checksum, "
            "started, finished) VALUES (?, ?, ?, ?, 'done', ?, ?, 0, 0)",
            (
                number,
                number,
                content,
                _sum(number, number, content),
                payload,
                outcome_checksum(number, "done", payload),
            ),
        )
        database.execute(
            "UPDATE meta SET value = ?, checksum = ? WHERE key = 'cases'",
            (str(number + 1), _sum("cases", str(number + 1))),
        )
    return f"row with case {case!r}, seed {seed!r}"


def sealed(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a JSON file, with a valid checksum."""
    from tcpassay.seal import seal  # noqa: PLC0415

    value = json.loads(file.read_text(encoding="utf-8"))
    del value["xxh3"]
    change(value)
    file.write_text(seal(json.dumps(value)[:-1] + "\n}\n"), encoding="utf-8")


def changed(out: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes `result.json` with its runs; values that no column can have are written in format 2, into that file."""

    def rewrite() -> None:
        import tcpassay  # noqa: PLC0415
        from tcpassay import _native, run_table, seal  # noqa: PLC0415

        results = tcpassay.load(out)
        runs = [{**run, "metrics": dict(run.get("metrics") or {})} for run in results.runs]
        index: dict[str, Any] = {**results.index, "runs": runs}
        index.pop("xxh3", None)
        change(index)
        try:
            content = _native.parquet(run_table.columns_of(index["runs"]))
        except (ArithmeticError, AttributeError, TypeError, ValueError):
            index["format"] = 2
        else:
            (out / run_table.NAME).write_bytes(content)
            index["files"][run_table.NAME] = seal.checksum(content)
            del index["runs"]
        text = seal.seal(json.dumps(index)[:-1] + "\n}\n")
        (out / "result.json").write_text(text, encoding="utf-8")

    code, said = fork(rewrite)  # reading starts threads
    if code:
        raise AssertionError(said)


def _recordings(trial: Trial, out: Path) -> str:
    """`result.json` names another place for a recording, another case or seed."""
    place, case, seed = trial.dice.choice(PLACES), trial.dice.choice(CASES), trial.dice.choice(SEEDS)
    key, value = trial.dice.choice((("recording", place), ("case", case), ("seed", seed)))

    def change(index: dict[str, Any]) -> None:
        index["runs"][0][key] = value

    changed(out, change)
    return f"{key} = {value!r} of a run"


def _links(trial: Trial, out: Path) -> str:
    """An entry of the folder is a link out of it."""
    entries = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    more = [
        "inputs",
        ".work",
        "figures",
        ".result.json.partial",
        ".tcpassay.lock",
        "journal.sqlite-wal",
        "report.html",
    ]
    name = trial.dice.choice([trial.dice.choice(entries), trial.dice.choice(more)])
    path = out / name
    if path.is_dir():
        shutil.move(path, trial.folder / "moved")
        path.symlink_to(trial.folder / "moved" if trial.dice.random() < 0.5 else trial.folder / "victim")
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(trial.folder / "victim" / "precious")
    return f"{name} is a link"


def _kinds(trial: Trial, out: Path) -> str:
    """An entry of the folder is a pipe, a folder, or a file where a folder should be."""
    entries = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    name = trial.dice.choice(entries)
    path = out / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_bytes(b"")
        return f"{name} is a file"
    path.unlink()
    if trial.dice.random() < 0.5:
        os.mkfifo(path)
        return f"{name} is a pipe"
    path.mkdir()
    return f"{name} is a folder"


def _notes(trial: Trial, out: Path) -> str:
    """The journal contains another base, other copies, or invalid sessions."""
    key, value = trial.dice.choice(
        [("base", base) for base in BASES]
        + [
            ("inputs", json.dumps({name: "0" * 16}))
            for name in ("../victim/precious", "/etc/passwd", "inputs/x")
        ]
        + [("inputs", text) for text in ("[]", "{", "7", "null")]
        + [("sessions", text) for text in ("[]", "{", "7", "null", "[7]", '[{"started": 7}]')]
        + [("plan", text) for text in ("", "\0", 'name = "x"', "\x1b[31m = ")]
        + [("file", "\x1b[31m"), ("version", "\x1b[31m")]
    )
    with contextlib.closing(sqlite3.connect(out / "journal.sqlite")) as database, database:
        row = (f"note.{key}", value, _sum(f"note.{key}", value))
        database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)
    return f"note {key} = {value!r}"


def _texts(trial: Trial, out: Path) -> str:
    """Texts with control sequences of terminals."""
    evil = trial.dice.choice(("\x1b[2J", "\x9b31m", "\x1b]0;title\x07", "\u202e", "[red]x[/nope]", "a\rb"))
    key = trial.dice.choice(("message", "outcome", "varied"))

    def change(index: dict[str, Any]) -> None:
        run = index["runs"][0]
        run[key] = {evil: evil} if key == "varied" else evil
        index["status"] = trial.dice.choice((index["status"], evil))
        index["folder"] = evil
        index["plan"]["name"] = evil

    changed(out, change)
    return f"{key} = {evil!r}"


def _values(trial: Trial, out: Path) -> str:
    """A value of another type somewhere in a JSON file."""
    file = trial.dice.choice(sorted(out.rglob("*.json")))
    wrong = trial.dice.choice((None, 7, -1, 1e300, "x", [], {}, [[]], True, "\ud800"))
    told: list[str] = []

    def change(index: dict[str, Any]) -> None:
        at: Any = index
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = trial.dice.choice(keys)
            told.append(str(key))
            if isinstance(at[key], dict | list) and at[key] and trial.dice.random() < 0.8:
                at = at[key]
                continue
            at[key] = wrong
            return

    sealed(file, change)
    return f"{file.name}: {'.'.join(told)} = {wrong!r}"
