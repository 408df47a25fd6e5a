"""Loads a controller from its source.

A run is a function of case, seed and version. A controller may therefore import only modules that read neither a clock
nor the environment nor other files. Each iteration of its loops is counted, so that an infinite loop is detected after
the same number of iterations on every machine.
"""

import ast
import linecache
import traceback
from collections.abc import Callable, Iterator
from typing import Final

ALLOWED: Final = frozenset(
    {
        "__future__",
        "abc",
        "bisect",
        "collections",
        "collections.abc",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "math",
        "operator",
        "statistics",
        "tcpassay.controllers",
        "typing",
    }
)
"""The modules that a controller may import."""
_STEP: Final = "__step__"


def load(source: str, file: str, name: str, step: Callable[[], bool]) -> type:
    """Returns the class `name` of a source text.

    Each iteration of a loop calls `step`, which raises an exception after too many iterations.

    Raises:
        SyntaxError: the text is not Python.
        ImportError: it imports a module that is not in `ALLOWED`.
        NameError: it has no such class.
        TypeError: the class has no method `on`.
    """
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source, file)
    for node in _executed(tree):
        for module in _imported(node):
            if module not in ALLOWED:
                allowed = ", ".join(sorted(ALLOWED))
                place = f"{file}:{getattr(node, 'lineno', 0)}"
                raise ImportError(f"{place}: a controller cannot import `{module}`; allowed are {allowed}")
    counted = ast.fix_missing_locations(_Counted().visit(tree))
    namespace: dict[str, object] = {"__name__": name, "__file__": file, _STEP: step}
    exec(compile(counted, file, "exec"), namespace)  # noqa: S102 - the user's own code, as the plan says
    found = namespace.get(name)
    if not isinstance(found, type):
        raise NameError(f"{file} has no class `{name}`")  # noqa: TRY004 - the name is what is wrong
    if not callable(getattr(found, "on", None)):
        raise TypeError(f"{file}: `{name}` has no method `on(self, view, event)`")
    on = getattr(found, "on")  # noqa: B009 - the attribute is the user's

    def told(self: object, view: object, event: object) -> object:
        try:
            return on(self, view, event)
        except Exception as error:  # noqa: BLE001 - what the user's code raises
            lines = traceback.format_exception(error)
            # Without the frame of this function.
            raise RuntimeError("".join([lines[0], *lines[2:]])) from None

    setattr(found, "on", told)  # noqa: B010 - the attribute is the user's
    return found


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree, except those below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _executed(node)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return []


class _Counted(ast.NodeTransformer):
    """Inserts calls that count the iterations of loops and comprehensions."""

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, _call(node))
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, _call(node))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _called(node.iter))
        return node


def _called(near: ast.AST) -> ast.Call:
    call = ast.Call(ast.Name(_STEP, ast.Load()), [], [])
    return ast.copy_location(call, near)


def _call(near: ast.AST) -> ast.Expr:
    return ast.copy_location(ast.Expr(_called(near)), near)
