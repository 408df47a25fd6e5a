"""`runs.parquet`: the runs of a result, one row each, without their metrics, which `metrics.parquet` has.

Most columns have the names of `RunRow`. `varied/NAME` is the value of a factor and `set/NAME` that of a parameter, as
JSON; both are null in runs without them. `unjudged`, `reached` and `script` are JSON, null if they are empty.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import to_json

from tcpassay.messages import Value
from tcpassay.result_format import RunRow

if TYPE_CHECKING:
    import polars as pl

NAME: Final = "runs.parquet"
_TEXTS: Final = (
    "case", "substrate", "expect", "outcome", "message", "recording", "trace", "digest", "covered",
)  # fmt: skip
_WHOLES: Final = ("seed", "findings")
_REALS: Final = ("cpu_s", "simulation_s")
_JSONS: Final = ("unjudged", "reached", "script")
_GROUPS: Final = {"varied": "varied/", "triples": "set/"}
Columns = list[tuple[str, list[Any]]]


def columns_of(rows: Iterable[RunRow]) -> Columns:
    """The columns of runs, in the form of `_native.parquet`."""
    fixed: dict[str, list[object]] = {name: [] for name in (*_TEXTS, *_WHOLES, *_REALS, *_JSONS)}
    named: dict[str, list[str | None]] = {}
    known: dict[tuple[type, Value], str] = {}
    for number, row in enumerate(rows):
        said = cast("Mapping[str, Any]", row)
        for name in _TEXTS:
            fixed[name].append(said.get(name))
        for name in _WHOLES:
            fixed[name].append(said.get(name) or 0)
        for name in _REALS:
            fixed[name].append(float(said.get(name) or 0))
        for name in _JSONS:
            value = said.get(name)
            fixed[name].append(to_json(value).decode() if value else None)
        for group, prefix in _GROUPS.items():
            for path, value in said[group].items():
                column = named.setdefault(prefix + path, [])
                column.extend([None] * (number - len(column)))
                key = (type(value), value)
                text = known.get(key)
                if text is None:
                    text = known[key] = to_json(value).decode()
                column.append(text)
    count = len(fixed["case"])
    for column in named.values():
        column.extend([None] * (count - len(column)))
    return [*fixed.items(), *named.items()]


def rows_of(frame: "pl.DataFrame") -> list[RunRow]:
    """The runs of a table; those of equal content share it. Raises `LookupError`, `TypeError` or `ValueError`."""
    names = [name for name in (*_TEXTS, *_WHOLES, *_REALS) if name in frame.columns]
    plain = [frame[name].to_list() for name in names]
    decoded = {name: _decoded(frame[name].to_list(), _mapping) for name in _JSONS if name in frame.columns}
    groups = {
        group: {
            name.removeprefix(prefix): _decoded(frame[name].to_list(), _value)
            for name in frame.columns
            if name.startswith(prefix)
        }
        for group, prefix in _GROUPS.items()
    }
    rows: list[dict[str, object]] = [
        dict(zip(names, values, strict=True)) for values in zip(*plain, strict=True)
    ]
    for name, column in decoded.items():
        for row, value in zip(rows, column, strict=True):
            if value is not None or name != "script":
                row[name] = value or {}
    for group, of in groups.items():
        gaps = any(None in values for values in of.values())
        told = zip(*of.values(), strict=True) if of else itertools.repeat(())
        for row, values in zip(rows, told, strict=False):
            settings = dict(zip(of, values, strict=True))
            row[group] = {k: v for k, v in settings.items() if v is not None} if gaps else settings
    for row in rows:
        if not row.get("covered"):
            row.pop("covered", None)
    return cast("list[RunRow]", rows)


def _decoded(texts: list[Any], read: Callable[[object], object]) -> list[Any]:
    known: dict[str | None, object] = {None: None}
    made = []
    for text in texts:
        if text not in known:
            known[text] = read(json.loads(text))
        made.append(known[text])
    return made


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("a value is not an object of JSON")
    return value


def _value(value: object) -> Value:
    if not isinstance(value, bool | int | float | str):
        raise TypeError("a value is not one of a parameter")
    return value
