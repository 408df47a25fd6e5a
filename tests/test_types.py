"""Types between the modules of the package: no `dict[str, Any]`, and files have the declared types."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

import plans
from tcpassay import _native
from tcpassay.recording_format import RecordingIndex

PACKAGE = plans.REPOSITORY / "python" / "tcpassay"
CASE = {"app.duration": "200ms", "link.rate": "10Mbit", "app.flows": 2, "link.loss": "1%"}


def _values(arguments: ast.expr) -> ast.expr:
    """The type of the values among the arguments of a mapping."""
    return arguments.elts[-1] if isinstance(arguments, ast.Tuple) else arguments


def untyped(tree: ast.AST) -> list[int]:
    """The lines with a dictionary or mapping to `Any`, as an annotation or an alias."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value).split(".")[-1] in {"dict", "Mapping", "MutableMapping", "defaultdict"}
        and any(isinstance(one, ast.Name) and one.id == "Any" for one in ast.walk(_values(node.slice)))
    ]


def test_a_dictionary_of_any_content_is_found_wherever_it_stands() -> None:
    assert untyped(ast.parse("def f(a: dict[str, Any]) -> None: ...")) == [1]
    assert untyped(ast.parse("x = 1\nRow = collections.abc.Mapping[str, list[Any]]")) == [2]
    assert untyped(ast.parse("def f(a: dict[str, object], b: Any) -> None: ...")) == []


def test_no_module_has_a_dictionary_of_any_content() -> None:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    found = {
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in files
        for line in untyped(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert len(files) > 150
    assert not found, f"declare a dataclass or a TypedDict: {', '.join(sorted(found))}"


def faults(value: object, kind: Any, at: str = "") -> Iterator[str]:
    """Where a JSON value differs from a type; a TypedDict has exactly its keys."""
    if is_typeddict(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        yield from (f"{at}.{name} is unknown" for name in value.keys() - hints.keys())
        yield from (f"{at}.{name} is missing" for name in kind.__required_keys__ - value.keys())
        for name in value.keys() & hints.keys():
            yield from faults(value[name], hints[name], f"{at}.{name}")
    elif get_origin(kind) is list and isinstance(value, list):
        for place, one in enumerate(value):
            yield from faults(one, get_args(kind)[0], f"{at}.{place}")
    elif get_origin(kind) is dict and isinstance(value, dict):
        for name, one in value.items():
            yield from faults(one, get_args(kind)[1], f"{at}.{name}")
    elif get_origin(kind) is UnionType:
        if all(list(faults(value, one)) for one in get_args(kind)):
            yield f"{at} is {value!r}, and not {kind}"
    elif kind is not Any and type(value) is not kind and not (kind is NoneType and value is None):
        yield f"{at} is {value!r}, and not {kind}"


@pytest.mark.parametrize("everything", [True, False])
def test_the_type_of_a_recording_has_exactly_the_fields_that_the_data_plane_writes(
    tmp_path: Path, *, everything: bool
) -> None:
    collect = {"series": "10ms" if everything else None, "warmup": "0s", "taps": everything}
    collect |= dict.fromkeys(("deliveries", "events", "packets"), everything)
    _native.run_case(CASE, 1, "/", collect, str(tmp_path / "made"))
    index = json.loads((tmp_path / "made" / "recording.json").read_text(encoding="utf-8"))
    assert list(faults(index, RecordingIndex)) == []
    again = any(flow["tcp"]["retransmits"] > 0 for flow in index["flows"])
    assert (again, len(index["files"]) > 1) == (True, everything)
    index["flows"][0]["more"] = index["hosts"][0] = 1
    del index["header"]["seed"]
    assert sorted(faults(index, RecordingIndex)) == [
        ".flows.0.more is unknown", ".header.seed is missing", ".hosts.0 is 1, and not <class 'str'>",
    ]  # fmt: skip


DEFERRED = re.compile(r"# noqa: PLC0415 - (?P<reason>.+)$")
# Modules that are slow to import and that most commands and the workers of the model do not import at the start.
SLOW = {"matplotlib", "numpy", "polars", "pydantic", "ray", "rich", "scipy", "tcpassay", "typer", "coverwise"}


def test_an_import_inside_a_function_defers_a_slow_library_or_a_module_of_the_package_and_says_why() -> None:
    wrong, found = [], 0
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef):
                continue
            for inner in ast.walk(node):
                if not isinstance(inner, ast.Import | ast.ImportFrom):
                    continue
                found += 1
                module = inner.module or "" if isinstance(inner, ast.ImportFrom) else inner.names[0].name
                said = DEFERRED.search(text.splitlines()[inner.lineno - 1])
                vague = said is None or said["reason"] in {"likewise", "as above", "slow"}
                if vague or module.partition(".")[0] not in SLOW:
                    wrong.append(f"{file.relative_to(PACKAGE)}:{inner.lineno}")
    assert found > 50
    assert not wrong, f"import at the top, or state the reason: {', '.join(wrong)}"
