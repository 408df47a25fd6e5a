"""Damages a file of a finished folder: every reader of the folder must detect the damage or not depend on the file.

The damage is drawn: a flipped bit, a byte, a run of zeros, noise, a cut, an insertion, a removed piece, two
pieces exchanged, a file of another run in its place, an empty file, no file. In the journal also, as SQLite would do
it: a value of a row is changed, a row is removed.
"""

import contextlib
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from trial import Fault, Trial, essence, files, fork

PIECE = 64


def _flip(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ 1 << dice.randrange(8)]) + raw[at + 1 :]


def _byte(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + dice.randbytes(1) + raw[at + 1 :]


def _digit(raw: bytes, dice: random.Random) -> bytes:
    """Changes a digit, which no syntax check detects."""
    places = [at for at, byte in enumerate(raw) if 48 <= byte < 58] or [0]
    at = dice.choice(places)
    return raw[:at] + str((raw[at] - 47) % 10).encode() + raw[at + 1 :]


def _zeros(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + bytes(len(raw[at : at + PIECE])) + raw[at + PIECE :]


def _noise(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + dice.randbytes(len(raw[at : at + PIECE])) + raw[at + PIECE :]


def _cut(raw: bytes, dice: random.Random) -> bytes:
    return raw[: dice.randrange(len(raw))]


def _insert(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw) + 1)
    return raw[:at] + dice.randbytes(dice.randint(1, PIECE)) + raw[at:]


def _remove(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + raw[at + dice.randint(1, PIECE) :]


def _swap(raw: bytes, dice: random.Random) -> bytes:
    a, b = sorted((dice.randrange(len(raw)), dice.randrange(len(raw))))
    return raw[:a] + raw[b:] + raw[a:b]


def _empty(raw: bytes, dice: random.Random) -> bytes:  # noqa: ARG001 - as the others
    return b""


WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": _flip, "byte": _byte, "digit": _digit, "zeros": _zeros, "noise": _noise, "cut": _cut, "insert": _insert,
    "remove": _remove, "swap": _swap, "empty": _empty,
}  # fmt: skip


def trial(trial: Trial) -> None:
    """Damages one file, and calls every reader of the folder."""
    import tcpassay.judge.folders  # noqa: PLC0415 - before the forks
    import tcpassay.report  # noqa: F401, PLC0415

    out = trial.copy()
    inner = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    # Half of the trials damage files that a folder has once; recordings are more numerous.
    top = [name for name in inner if "/" not in name]
    name = trial.dice.choice(trial.dice.choice((top, inner)))
    judge(trial, out, name, _harm(trial, out, name))


def judge(trial: Trial, out: Path, name: str, how: str) -> None:
    """Calls all readers of a folder with the damaged file `name`. Raises `Fault` if one does not detect the damage."""
    before = _all(out)

    def act() -> None:
        for reader in (_load, _judge, _report, _resume):
            whole = trial.folder / "copy"
            shutil.copytree(out, whole)
            reader(trial, whole)
            shutil.rmtree(whole)

    code, said = fork(act)
    if code:
        raise Fault(f"{name}, {how}: {said.strip()[-700:]}")
    if _all(out) != before:
        raise Fault(f"{name}, {how}: a reader changed a folder that is not its own")


def _all(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def _harm(trial: Trial, out: Path, name: str) -> str:
    file, dice = out / name, trial.dice
    if name == "journal.sqlite" and dice.random() < 0.6:
        return _harm_rows(file, dice)
    if dice.random() < 0.05:
        file.unlink()
        return "missing"
    if dice.random() < 0.1:
        others = [path for path in out.rglob(file.name) if path != file]
        if others:
            shutil.copyfile(dice.choice(sorted(others)), file)
            return "of another run"
    way = dice.choice(sorted(WAYS))
    raw = file.read_bytes()
    file.write_bytes(WAYS[way](raw, dice) if raw else b"\0")
    return way


def _harm_rows(file: Path, dice: random.Random) -> str:
    """Changes the content of a row, so that the file remains a valid database."""
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        number = dice.randrange(database.execute("SELECT count(*) FROM cases").fetchone()[0])
        column = dice.choice(("payload", "payload", "outcome", "content", "number", "row", "meta", "no meta"))
        if column == "row":
            database.execute("DELETE FROM cases WHERE number = ?", (number,))
        elif column == "no meta":
            keys = [key for (key,) in database.execute("SELECT key FROM meta ORDER BY key")]
            column = f"no {dice.choice(keys)}"
            database.execute("DELETE FROM meta WHERE key = ?", (column[3:],))
        elif column == "meta":
            rows = database.execute("SELECT key, value FROM meta ORDER BY key").fetchall()
            key, value = dice.choice(rows)
            column = key
            changed = _byte(value.encode() or b"x", dice).decode(errors="replace")
            database.execute("UPDATE meta SET value = ? WHERE key = ?", (changed, key))
        elif column == "number":
            database.execute("UPDATE cases SET number = 1000 WHERE number = ?", (number,))
        elif column == "outcome":
            database.execute("UPDATE cases SET outcome = 'failed' WHERE number = ?", (number,))
        else:
            (text,) = database.execute(f"SELECT {column} FROM cases WHERE number = ?", (number,)).fetchone()  # noqa: S608
            raw = text if isinstance(text, bytes) else text.encode()
            changed = (
                _byte(raw, dice) if isinstance(text, bytes) else _digit(raw, dice).decode(errors="replace")
            )
            database.execute(f"UPDATE cases SET {column} = ? WHERE number = ?", (changed, number))  # noqa: S608
    return f"row {number}, {column}"


def _answers(folder: Path) -> tuple[object, list[str]]:
    """The data that `load` returns, and the reported problems."""
    import tcpassay  # noqa: PLC0415
    from tcpassay.errors import UserError  # noqa: PLC0415

    results = tcpassay.load(folder)
    said: list[object] = [results.cases.rows(), results.metrics.rows(), results.findings.rows(), results.plan]
    for run in results.runs:
        for table in ("events", "series", "latency", "completions", "deliveries"):
            try:
                said.append(results.table(table, run["case"], run["seed"]).rows())  # type: ignore[arg-type]
            except UserError as error:
                said.append(str(error).split(": ")[-1])
    return said, [str(problem) for problem in results.problems]


def _load(trial: Trial, out: Path) -> None:
    from tcpassay.errors import UserError  # noqa: PLC0415

    right = trial.known("answers", lambda: _answers(trial.calm)[0])
    try:
        said, problems = _answers(out)
    except UserError:
        return
    if not problems and said != right:
        raise Fault("silently other answers")


def _judge(trial: Trial, out: Path) -> None:
    from tcpassay.errors import UserError  # noqa: PLC0415
    from tcpassay.judge.folders import judge_folder  # noqa: PLC0415

    right = trial.known("findings", lambda: judge_folder(_shadow(trial)).findings)
    try:
        judged = judge_folder(out)
    except UserError:
        return
    if judged.findings != right and not judged.problems:
        raise Fault("silently other findings")


def _shadow(trial: Trial) -> Path:
    """A writable copy of the undisturbed results."""
    return Path(shutil.copytree(trial.calm, trial.folder / f"shadow-{os.getpid()}"))


def _report(trial: Trial, out: Path) -> None:
    from tcpassay.errors import UserError  # noqa: PLC0415
    from tcpassay.report import write_report  # noqa: PLC0415

    right = trial.known("report", lambda: _page(write_report(trial.calm, trial.folder / "right.html").file))
    try:
        written = write_report(out, trial.folder / "report.html")
    except UserError:
        return
    if _page(written.file) != right and not written.problems:
        raise Fault("silently another report")


def _page(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _resume(trial: Trial, out: Path) -> None:
    """The command either refuses with a message, or gives the results of an undisturbed run."""
    from tcpassay.errors import UserError  # noqa: PLC0415
    from tcpassay.run.execute import Local, execute  # noqa: PLC0415
    from tcpassay.run.session import Session  # noqa: PLC0415

    was = trial.known("essence", lambda: essence(trial.calm))
    try:
        with Session.resume(out, force=False) as session:
            execute(session, Local(1))
    except UserError as error:
        if not str(error).strip():
            raise Fault("refused without a word") from None
        return
    if essence(out) != was:
        raise Fault("damage was written into the results")
    top = ("plan.toml", "metrics.parquet", "findings.json")
    here, there = files(out), files(trial.calm)
    for name in top:
        if here.get(name) != there.get(name):
            raise Fault(f"{name} is not what it was")
