"""Import cycles are detected, and the tree has none except those in the list."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from plans import REPOSITORY


@pytest.fixture(scope="module")
def layers() -> ModuleType:
    sys.path.insert(0, str(REPOSITORY / "tools"))
    try:
        return importlib.import_module("layers")
    finally:
        sys.path.remove(str(REPOSITORY / "tools"))


def cycles(layers: ModuleType, sources: dict[tuple[str, ...], str]) -> list[list[str]]:
    found: list[list[str]] = layers.cycles(layers.Crate(sources).graph())
    return found


def test_two_modules_that_use_each_other_are_a_cycle(layers: ModuleType) -> None:
    sources = {(): "mod a; mod b;", ("a",): "use crate::b::B;", ("b",): "fn f() { super::a::g(); }"}
    assert cycles(layers, sources) == [["a", "b"]]


def test_a_module_that_is_imported_as_a_whole_counts(layers: ModuleType) -> None:
    sources = {(): "", ("a",): "use crate::b; fn f() { b::g(); }", ("b",): "use crate::a::f;"}
    assert cycles(layers, sources) == [["a", "b"]]


def test_a_child_that_uses_what_its_parent_defines_is_in_a_cycle_with_it(layers: ModuleType) -> None:
    sources = {(): "mod a;", ("a",): "mod b; use b::B; struct A;", ("a", "b"): "use super::A; struct B(A);"}
    assert cycles(layers, sources) == [["a", "a::b"]]


def test_a_name_that_is_handed_on_counts_from_where_it_is_defined(layers: ModuleType) -> None:
    sources = {
        (): "mod a; mod b; mod c; pub use c::C;",
        ("a",): "use crate::{C, b::{B as X, Y}};",
        ("b",): "use crate::C;",
        ("c",): "pub struct C;",
    }
    assert cycles(layers, sources) == []
    sources["c",] = "pub struct C; use crate::a::A;"
    assert cycles(layers, sources) == [["a", "b", "c"]]


def test_the_path_of_a_visibility_is_not_an_import(layers: ModuleType) -> None:
    sources = {(): "mod a;", ("a",): "mod b; use b::B; struct A;", ("a", "b"): "pub(in crate::a) struct B;"}
    assert cycles(layers, sources) == []


def test_comments_strings_and_test_modules_are_not_imports(layers: ModuleType) -> None:
    sources = {
        (): "mod a; mod b;",
        ("a",): "use crate::b::B;",
        ("b",): """// crate::a::A
            const C: &str = "crate::a::A";
            #[cfg(test)]
            mod tests { use crate::a::A; }""",
    }
    assert cycles(layers, sources) == []


def test_python_modules_are_read_by_absolute_and_relative_imports_also_inside_functions(
    layers: ModuleType, tmp_path: Path
) -> None:
    package = tmp_path / "p"
    (package / "q").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "q" / "__init__.py").write_text("")
    (package / "a.py").write_text("from p.q import b\nfrom p import _native\n")
    (package / "_native.pyi").write_text("")
    (package / "q" / "b.py").write_text("def f():\n    from ..c import g\n")
    (package / "c.py").write_text("import p.a\n")
    assert layers.cycles(layers.python_graph(package)) == [["p.a", "p.c", "p.q.b"]]
