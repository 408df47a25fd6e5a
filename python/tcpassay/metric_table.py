"""Metrics of many runs in columns of eight bytes a value; the metrics of one run are a mapping over them.

A dictionary for each run would need a hundred bytes a value, which is most of the memory of a plan with 100,000 runs.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final

_ABSENT: Final = math.nan


class MetricTable:
    """Columns of metrics, to which the metrics of runs are added. A value is absent if the run does not have it.

    The columns of rows that exist already are made by `columns` when the first value is read.
    """

    def __init__(self, columns: Callable[[], dict[str, "array[float]"]] = dict) -> None:
        self._made = columns

    @cached_property
    def columns(self) -> dict[str, "array[float]"]:
        """The values by metric; a column may be shorter than the table."""
        return self._made()

    @cached_property
    def _rows(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def add(self, metrics: Mapping[str, float | None]) -> Mapping[str, float | None]:
        """Adds a run, and returns its metrics as a view of the table; those of a run without metrics are empty."""
        return self.append(metrics) if metrics else {}

    def append(self, metrics: Mapping[str, float | None]) -> "RowOfMetrics":
        """Adds a row, also for a run without metrics."""
        row, columns = self._rows, self.columns
        self._rows += 1
        for name, value in metrics.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = array("d")
            if len(column) < row:
                column.extend([_ABSENT] * (row - len(column)))
            column.append(_ABSENT if value is None else value)
        return RowOfMetrics(self, row)

    def full(self) -> "dict[str, array[float]]":
        """The columns, all of the number of rows; NaN where a run has no value."""
        for column in self.columns.values():
            column.extend([_ABSENT] * (self._rows - len(column)))
        return self.columns

    def row(self, number: int) -> Mapping[str, float | None]:
        """The metrics of a run, by its number from 0."""
        return RowOfMetrics(self, number)


class RowOfMetrics(Mapping[str, "float | None"]):
    """The metrics of one run: every metric of the table, `None` where it has none."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: MetricTable, row: int) -> None:
        self._table = table
        self._row = row

    def __getitem__(self, name: str) -> float | None:
        column = self._table.columns[name]
        if self._row >= len(column):
            return None
        value = column[self._row]
        return None if math.isnan(value) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table.columns)

    def __repr__(self) -> str:
        return repr(dict(self))
