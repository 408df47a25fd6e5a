"""A plan as TOML text, for result folders of plans that extend others."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tcpassay.plan import fields, model

_OBJECT: Final = ".o"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def toml(spec: model.PlanFile, comment: str) -> str:
    """The text of an equivalent plan that extends no other plan."""
    data = spec.model_dump(by_alias=True, exclude_unset=True, exclude={"extends"})
    lines = [f"# {line}" for line in comment.splitlines()]
    tables = {key: value for key, value in data.items() if isinstance(value, dict) or _is_tables(value)}
    lines += [f"{_key(key)} = {_value(value)}" for key, value in data.items() if key not in tables]
    for key, value in tables.items():
        _table((key,), value, lines)
    return "\n".join(lines) + "\n"


def absolute(value: fields.Scalar, base: Path) -> fields.Scalar:
    """A value with a relative file name, with the absolute name instead."""
    if not isinstance(value, str):
        return value
    kind, colon, name = ("", "", value) if value.endswith(_OBJECT) else value.partition(":")
    after = ""
    if kind == "python":
        name, separator, class_name = name.rpartition(":")
        after = separator + class_name
    try:
        there = bool(name) and (base / name).is_file()
    except (OSError, ValueError):
        there = False
    return f"{kind}{colon}{(base / name).resolve()}{after}" if there else value


def _table(path: tuple[str, ...], value: Any, lines: list[str]) -> None:
    """A table of entries, with lists of tables as separate tables; or a list of such tables."""
    name = ".".join(map(_key, path))
    for one, header in (
        [(value, f"[{name}]")] if isinstance(value, dict) else [(v, f"[[{name}]]") for v in value]
    ):
        if path == ("groups",):
            for group, levels in one.items():
                _table((*path, group), levels, lines)
            continue
        below = {key: inner for key, inner in one.items() if _is_tables(inner)}
        lines += ["", header, *(f"{_key(k)} = {_value(v)}" for k, v in one.items() if k not in below)]
        for key, inner in below.items():
            _table((*path, key), inner, lines)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # A JSON string is a TOML string except for one character that TOML requires to be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        inside = ", ".join(
            f"{_key(key)} = {_value(inner)}" for key, inner in value.items() if inner is not None
        )
        return f"{{ {inside} }}" if inside else "{}"
    return repr(value)
