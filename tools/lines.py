"""Lines of code per crate and per Python package at several commits, as a Markdown table.

Counted are lines that are neither blank nor a comment nor a docstring, without tests: `#[cfg(test)]` items, files of
test modules, and the folders `tests`, `benches`, `examples` and `fuzz`. Generated files are not counted.

    python tools/lines.py 30eda240 353f8eef HEAD
    python tools/lines.py --export FOLDER HEAD   # writes the sources without tests to FOLDER, for another counter
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
GENERATED = {"python/tcpassay/interface.py", "python/tcpassay/testbed/messages.py"}
TEST_FOLDERS = {"tests", "benches", "examples", "fuzz"}

LITERAL = re.compile(
    r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\'\\])\'|//[^\n]*|/\*.*?\*/', re.DOTALL
)
CFG_TEST = re.compile(r"#\[cfg\(test\)\]")
TEST_FILE = re.compile(r"#\[cfg\(test\)\](?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?mod (\w+);")


def sources(revision: str) -> dict[str, str]:
    """The Rust and Python files of a commit by path."""
    command = ["git", "archive", revision, "crates", "python"]
    archive = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True).stdout  # noqa: S603 - the user's commit
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith((".rs", ".py")) else None
            if content is not None and not TEST_FOLDERS & set(Path(member.name).parts):
                files[member.name] = content.read().decode()
    return {path: text for path, text in files.items() if path not in GENERATED}


def test_files(files: dict[str, str]) -> set[str]:
    """The Rust files of modules that are declared with `#[cfg(test)]`, and those below them."""
    found = set()
    for path, text in files.items():
        here = Path(path)
        folder = here.parent if here.stem in {"mod", "lib", "main"} else here.with_suffix("")
        for name in TEST_FILE.findall(text):
            prefix = str(folder / name)
            found |= {other for other in files if other == prefix + ".rs" or other.startswith(prefix + "/")}
    return found


def without_tests(text: str) -> str:
    """A Rust file without its `#[cfg(test)]` items."""
    # Braces in literals and comments do not count.
    code = LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    kept, at = [], 0
    for found in CFG_TEST.finditer(code):
        if found.start() < at:
            continue
        end, depth = found.end(), 0
        for end in range(found.end(), len(code)):
            depth += (code[end] in "{[(") - (code[end] in "}])")
            # An attribute is followed by the item; a field of a structure ends with a comma or with the structure.
            if (depth == 0 and code[end] in "};,") or depth < 0:
                break
        kept.append(text[at : found.start()])
        at = end + (depth >= 0)
    return "".join([*kept, text[at:]])


def rust_lines(text: str) -> int:
    """Lines with code of a Rust file."""
    code = LITERAL.sub(lambda found: re.sub(r"[^\n]", " " if found[0][0] == "/" else "x", found[0]), text)
    return sum(bool(line.strip()) for line in code.splitlines())


def python_lines(text: str) -> int:
    """Lines with code of a Python file, without docstrings."""
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        # A text that is a statement is a docstring, of a module, a class, a function or an attribute.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def place(path: str) -> str:
    """The crate or package of a file."""
    parts = Path(path).parts
    if parts[0] == "crates":
        return "/".join(parts[:2])
    return "/".join(parts[:3]) if len(parts) > 3 else "/".join(parts[:2])  # noqa: PLR2004 - python/tcpassay/run/x.py


def code(revision: str) -> Iterator[tuple[str, str]]:
    """The files of a commit without tests."""
    files = sources(revision)
    tests = test_files(files)
    for path, text in files.items():
        if path not in tests:
            yield path, without_tests(text) if path.endswith(".rs") else text


def counted(revision: str) -> Counter[str]:
    """Lines of code by crate and package."""
    count: Counter[str] = Counter()
    for path, text in code(revision):
        count[place(path)] += rust_lines(text) if path.endswith(".rs") else python_lines(text)
    return count


def main(arguments: list[str]) -> None:
    """Prints the table of the given commits, or exports a commit."""
    if arguments[:1] == ["--export"]:
        for path, text in code(arguments[2]):
            target = Path(arguments[1]) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return
    counts = {revision: counted(revision) for revision in arguments}
    print("| | " + " | ".join(counts) + " |")
    print("| --- |" + " ---: |" * len(counts))
    for kind in ("crates", "python"):
        places = sorted({name for count in counts.values() for name in count if name.startswith(kind + "/")})
        for name in places:
            print(
                f"| `{name}` | "
                + " | ".join(f"{count[name]:,}" if count[name] else "" for count in counts.values())
                + " |"
            )
        sums = [
            sum(n for name, n in count.items() if name.startswith(kind + "/")) for count in counts.values()
        ]
        print(f"| **{kind}, all** | " + " | ".join(f"{n:,}" for n in sums) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
