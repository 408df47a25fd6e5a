"""Checks and loads a controller from its source.

`inspect` reads the source and executes nothing of it. `load` executes it with all rights of the user, if the user has
accepted it (`trust/consent.py`).

A run is a function of case, seed and version. A controller therefore imports only modules that read neither a clock
nor the environment nor other files, which is checked as other mistakes are. It is no protection against a file that
means harm: Python has other ways to all of these. Each iteration of its loops is counted, so that an infinite loop is
detected after the same number of iterations on every machine.
"""

import ast
import linecache
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from tcpassay.controllers.names import nearest, used
from tcpassay.trust import consent

LONGEST: Final = 1 << 20
"""Maximum length of a source; the syntax tree of a longer one would take gigabytes."""
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
_SWITCHES: Final = ("wants_sent", "governs_recovery")
"""Attributes of a class that the data plane reads."""


class RaisedError(Exception):
    """The code of a controller raised an exception; the text is its traceback."""


_SCOPES: Final = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@lru_cache(maxsize=16)
def inspect(source: str, file: str, name: str) -> None:
    """Checks the class `name` of a source text without executing anything of it.

    What only shows when the text is executed, such as the type of a name that is assigned, is not checked.

    Raises:
        SyntaxError: the text is not Python.
        ValueError: it is too long.
        ImportError: it imports a module that is not in `ALLOWED`.
        NameError: it has no such class.
        TypeError: the class has no method `on`.
    """
    _check(_parsed(source, file), file, name)


def load(source: str, file: str, name: str, step: Callable[[], bool]) -> type:
    """Executes a source text and returns its class `name`.

    Each iteration of a loop calls `step`, which raises an exception after too many iterations.

    Raises:
        ConsentError: the user has not accepted this text.
        SyntaxError, ValueError, ImportError, NameError, TypeError: see `inspect`.
    """
    consent.require(source.encode(), file)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = _parsed(source, file)
    _check(tree, file, name)
    counted = ast.fix_missing_locations(_Counted().visit(tree))
    namespace: dict[str, object] = {"__name__": name, "__file__": file, _STEP: step}
    exec(compile(counted, file, "exec"), namespace)  # noqa: S102 - the user has accepted it
    found = namespace.get(name)
    if not isinstance(found, type):
        raise NameError(f"{file} has no class `{name}`")  # noqa: TRY004 - the name is what is wrong
    if not callable(getattr(found, "on", None)):
        raise TypeError(f"{file}: `{name}` has no method `on(self, view, event)`")
    for said in vars(found):
        if not said.startswith("_") and (meant := nearest(said, _SWITCHES)) and said not in used(found):
            raise TypeError(f"{file}: `{said}` of `{name}` has no effect; did you mean `{meant}`?")
    on = getattr(found, "on")  # noqa: B009 - the attribute is the user's

    def told(self: object, view: object, event: object) -> object:
        try:
            return on(self, view, event)
        except Exception as error:  # noqa: BLE001 - what the user's code raises
            lines = traceback.format_exception(error)
            # Without the frame of this function.
            raise RaisedError("".join([lines[0], *lines[2:]]).rstrip()) from None

    setattr(found, "on", told)  # noqa: B010 - the attribute is the user's
    return found


def _parsed(source: str, file: str) -> ast.Module:
    if len(source) > LONGEST:
        raise ValueError(f"{file} has {len(source)} characters; allowed are {LONGEST}")
    return ast.parse(source, file)


def _check(tree: ast.Module, file: str, name: str) -> None:
    for node in _executed(tree):
        for module in _imported(node):
            if module not in ALLOWED:
                allowed = ", ".join(sorted(ALLOWED))
                place = f"{file}:{getattr(node, 'lineno', 0)}"
                raise ImportError(f"{place}: a controller cannot import `{module}`; allowed are {allowed}")
    bindings = [node for node in _executed(tree, inside=False) if name in _bound(node)]
    if not bindings:
        raise NameError(f"{file} has no class `{name}`")
    last = bindings[-1]
    if isinstance(last, ast.ClassDef) and _is_plain(last) and not _sets_on(last, tree):
        raise TypeError(f"{file}: `{name}` has no method `on(self, view, event)`")


def _is_plain(found: ast.ClassDef) -> bool:
    """Whether all attributes of a class are in its body, and not those of another one or of a decorator."""
    return not (found.bases or found.keywords or found.decorator_list)


def _sets_on(found: ast.ClassDef, tree: ast.Module) -> bool:
    """Whether the body of a class sets `on`, or the file sets this attribute of something."""
    if any("on" in _bound(node) for node in _executed(found, inside=False)):
        return True
    return any(isinstance(node, ast.Attribute) and node.attr == "on" for node in ast.walk(tree))


def _bound(node: ast.AST) -> list[str]:
    """The names that a node binds."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.alias(name=name, asname=given):
            return [given or name]
        case _:
            return []


def _executed(tree: ast.AST, *, inside: bool = True) -> Iterator[ast.AST]:
    """The nodes of a tree, except those below `if TYPE_CHECKING:`.

    Those in functions and classes are omitted unless `inside`.
    """
    waiting = [*ast.iter_child_nodes(tree)][::-1]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        if inside or not isinstance(node, _SCOPES):
            waiting += [*ast.iter_child_nodes(node)][::-1]


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
