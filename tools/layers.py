"""Import cycles between the modules of a crate or of the Python package. `make lint` fails on one.

A module is a file. It imports another if it names something that the other defines: by `use`, or by a path that
begins with `crate`, `self`, `super` or a child module. Names that a module only hands on (`pub use`) count as imports
from the file that defines them. Test modules are left out: they may look into what they test.

    python tools/layers.py            # prints every cycle with the names that tie it; exit 1 if there is one
    python tools/layers.py crates/tcp # of one crate
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "python" / "tcpassay"

Module = tuple[str, ...]
Names = dict[str, set[str]]
Graph = dict[str, Names]

USE = re.compile(r"(?P<public>\bpub(?:\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);")
PATH = re.compile(r"(?<![\w:])(?P<path>[a-z_]\w*(?:::\w+)+)")
COMMENT = re.compile(r"//[^\n]*")
# The path of a visibility says who may use an item, and imports nothing.
VISIBILITY = re.compile(r"\bpub\(in [^)]*\)")
STRING = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
TEST_MODULE = re.compile(r"#\[cfg\(test\)\](?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?mod \w+ \{")


def use_tree(text: str) -> list[str]:
    """The paths of a use tree: `a::{b, c as d}` is `a::b` and `a::c`."""
    text = text.strip()
    opened = text.find("{")
    if opened < 0:
        return [text.split(" as ")[0].strip()]
    prefix, body = text[:opened].replace(" ", ""), text[opened + 1 : text.rindex("}")]
    parts, depth, part = [], 0, ""
    for letter in body:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    parts.append(part)
    return [prefix + path for part in parts if part.strip() for path in use_tree(part)]


class Crate:
    """The modules of a crate."""

    def __init__(self, sources: dict[Module, str]) -> None:
        """`sources`: the text of each module by its path, `()` for the root."""
        self.code = {module: self._code(text) for module, text in sources.items()}
        self.handed_on: dict[tuple[Module, str], tuple[Module, str]] = {}
        for module, text in self.code.items():
            for found in USE.finditer(text):
                if found["public"]:
                    for path in use_tree(" ".join(found["tree"].split())):
                        target = self._find(module, path)
                        if target is not None:
                            self.handed_on[module, path.rsplit("::", 1)[-1]] = target

    @staticmethod
    def of(folder: Path) -> "Crate":
        """The crate whose `src` is below `folder`. Files of tests are omitted."""
        sources = {}
        for path in sorted((folder / "src").rglob("*.rs")):
            parts = path.relative_to(folder / "src").with_suffix("").parts
            if "tests" in parts or parts[-1].endswith("_tests") or parts[-1].startswith("test_"):
                continue
            module = parts[:-1] if parts[-1] in {"mod", "lib", "main"} else parts
            sources[module] = path.read_text()
        return Crate(sources)

    @staticmethod
    def _code(text: str) -> str:
        text = VISIBILITY.sub("pub(crate)", STRING.sub('""', COMMENT.sub("", text)))
        test = TEST_MODULE.search(text)
        return text[: test.start()] if test else text

    def _find(self, module: Module, path: str) -> tuple[Module, str] | None:
        """The module of a path and the imported name in it; `None` if the path leaves the crate."""
        names = path.split("::")
        if names[0] == "crate":
            at: Module = ()
            names = names[1:]
        elif names[0] in {"self", "super"}:
            at = module
            names = names[names[0] == "self" :]
            while names and names[0] == "super":
                at, names = at[:-1], names[1:]
        elif (*module, names[0]) in self.code:
            at = module
        else:
            return None
        while names and (*at, names[0]) in self.code:
            at, names = (*at, names[0]), names[1:]
        return at, names[0] if names else ""

    def graph(self) -> Graph:
        """Which module imports which, and the names that it takes."""
        graph: Graph = {self._text(module): {} for module in self.code}
        for module, text in self.code.items():
            paths = [p for u in USE.finditer(text) for p in use_tree(" ".join(u["tree"].split()))]
            paths += [found["path"] for found in PATH.finditer(USE.sub("", text))]
            for path in paths:
                target = self._find(module, path)
                for _ in range(8):
                    if target in self.handed_on:
                        target = self.handed_on[target]
                if target is not None and target[0] != module:
                    graph[self._text(module)].setdefault(self._text(target[0]), set()).add(
                        target[1] or "self"
                    )
        return graph

    @staticmethod
    def _text(module: Module) -> str:
        return "::".join(module) or "crate"


def python_graph(package: Path) -> Graph:
    """Which module of a Python package imports which; imports inside functions count."""
    paths = {path.relative_to(package.parent).with_suffix("").parts: path for path in package.rglob("*.py")}
    modules = {
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in paths.items()
    }
    # A native module has a stub and no source.
    native = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in package.rglob("*.pyi")
    }
    graph: Graph = {name: {} for name in modules}
    for name, path in modules.items():
        here = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text())):
            for target, what in _imported(node, here):
                deeper = f"{target}.{what}"
                found = deeper if deeper in modules else target
                if found in modules and found != name and deeper not in native:
                    graph[name].setdefault(found, set()).add(what or target)
    return graph


def _imported(node: ast.AST, here: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, ""
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = here.split(".")[: len(here.split(".")) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            yield base, alias.name


def cycles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan 1972), sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in graph[module]:
            if target not in graph:
                continue
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found)


def main(folders: list[str]) -> int:
    """Prints the cycles of the given crates (all, and the Python package, if none is given)."""
    places = [Path(folder) for folder in folders] or [*sorted((REPOSITORY / "crates").iterdir()), PACKAGE]
    count = 0
    for place in places:
        graph = Crate.of(place).graph() if (place / "Cargo.toml").exists() else python_graph(place)
        for cycle in cycles(graph):
            count += 1
            print(f"{place.name}: import cycle of {len(cycle)} modules")
            for module in cycle:
                for target in sorted(graph[module].keys() & set(cycle)):
                    print(f"  {module} -> {target}: {', '.join(sorted(graph[module][target]))}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
