"""The trials of `make torture` find planted faults, and report nothing without a planted fault."""

import contextlib
import importlib
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from plans import REPOSITORY
from tcpassay.results import Results
from tcpassay.run import journal
from tcpassay.seal import checksum


def called(act: Callable[[], None]) -> tuple[int, str]:
    """Calls `act` in this process; returns what `trial.fork` returns."""
    try:
        act()
    except BaseException:  # noqa: BLE001 - as in a child
        return 1, traceback.format_exc()
    return 0, ""


@pytest.fixture(scope="module")
def torture() -> Iterator[dict[str, ModuleType]]:
    folder = str(REPOSITORY / "tools" / "torture")
    sys.path.insert(0, folder)
    modules = {name: importlib.import_module(name) for name in ("trial", "damage")}
    sys.path.remove(folder)
    # The process of the tests has threads, so that a child of it could wait for ever for a lock that one of them held.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules["damage"], "fork", called)
        yield modules


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("torture")


def damaged(torture: dict[str, ModuleType], scratch: Path, folder: Path, name: str) -> str:
    """A value in the file is another one; what the trial found, or nothing."""
    trial = torture["trial"].Trial("damage", 1, 1, folder, scratch)
    out = trial.copy()
    if name == "journal.sqlite":
        with contextlib.closing(sqlite3.connect(out / name)) as database, database:
            other = "(SELECT payload FROM cases WHERE number = 1)"
            database.execute(f"UPDATE cases SET payload = {other} WHERE number = 0")  # noqa: S608
            assert database.total_changes == 1
    else:
        frame = pl.read_parquet(out / name)
        frame.with_columns(pl.lit("failed").alias("outcome")).write_parquet(out / name)
    try:
        torture["damage"].judge(trial, out, name, "planted")
    except torture["trial"].Fault as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize("name", ["runs.parquet", "journal.sqlite"])
def test_damage_that_is_noticed_is_no_fault(
    torture: dict[str, ModuleType], scratch: Path, tmp_path: Path, name: str
) -> None:
    assert damaged(torture, scratch, tmp_path, name) == ""


def test_without_the_checksum_of_the_table_of_runs_a_fault_is_found(
    torture: dict[str, ModuleType], scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def any_sum(results: Results) -> set[str]:
        return {checksum((results.folder / "runs.parquet").read_bytes())}

    monkeypatch.setattr(Results, "_sums_of_runs", any_sum)
    assert "silently other answers" in damaged(torture, scratch, tmp_path, "runs.parquet")


def test_without_the_checksums_of_the_journal_a_fault_is_found(
    torture: dict[str, ModuleType], scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(sqlite3.connect(scratch / "calm" / "out" / journal.NAME)) as database:
        rows = database.execute("SELECT number, outcome_checksum FROM cases").fetchall()
    known = dict(rows)
    monkeypatch.setattr(journal, "outcome_checksum", lambda number, *_: known[number])
    assert "damage was written into the results" in damaged(torture, scratch, tmp_path, journal.NAME)
