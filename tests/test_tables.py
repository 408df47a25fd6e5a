"""Parquet files of strangers: a small file that stands for a large table is not read into memory."""

from pathlib import Path

import polars as pl
import pytest

from tcpassay import recording
from tcpassay.recording import DamagedError, read_table

ROWS = 1_000_000


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the usual limits, so that the tables of these tests are small."""
    monkeypatch.setattr(recording, "_LEAST_TABLE", recording._LEAST_TABLE >> 10)  # noqa: SLF001
    monkeypatch.setattr(recording, "_EXPANSION", recording._EXPANSION // 1000)  # noqa: SLF001


@pytest.mark.usefixtures("small_limits")
def test_a_table_of_many_equal_rows_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pl.DataFrame({"x": [0] * ROWS}).write_parquet(file)
    assert file.stat().st_size < 10_000
    with pytest.raises(DamagedError, match=r"bytes long and has 1000000 rows of 1 columns"):
        read_table(file)


@pytest.mark.usefixtures("small_limits")
def test_a_table_of_many_equal_long_texts_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pl.DataFrame({"x": ["y" * 1000] * 10_000}).write_parquet(file)
    assert file.stat().st_size < 10_000
    with pytest.raises(DamagedError, match=r"has 10000000 bytes of text"):
        read_table(file)


def test_a_table_of_equal_rows_that_is_not_large_is_read(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    frame = pl.DataFrame({"x": [0] * ROWS, "y": ["text"] * ROWS})
    frame.write_parquet(file)
    assert read_table(file).equals(frame)
