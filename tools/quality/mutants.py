"""Mutation testing of the oracles: random small changes of the model, and the share that the shipped plan finds.

    python -m pip install tree-sitter tree-sitter-rust
    python tools/quality/mutants.py --seed 1 --count 150 --out out/mutants

People choose the planted faults of tests/quality/model. Mutants are drawn: a comparison, an operator, a constant, a
condition or a statement of the crates `tcp`, `cc` and `sim` is changed, at most one in a function. One build holds all
of them, each behind a switch; what does not compile is left out. Each is run with the cases of the shipped plans
until an oracle reports something new. A mutant that changes no case is equivalent there and does not count. A survivor
is either a choice that no rule restricts or a gap of the oracles: its text says which.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import plant

import run

ROOT = plant.ROOT
CRATES = ("tcp", "cc", "sim")
SKIPPED = re.compile(
    r"tests?\b|_tests|test_|/bin/|info\.rs|summary|messages|recording|log\.rs|stats|/build/|conformance"
)
"""Files that no packet depends on."""
SWAPS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "+=": "-=",
    "-=": "+=",
}
METHODS = {
    "min": "max",
    "max": "min",
    "saturating_sub": "saturating_add",
    "saturating_add": "saturating_sub",
    "is_some_and": "is_none_or",
    "is_none_or": "is_some_and",
    "any": "all",
    "all": "any",
}

STATEMENTS = {"assignment_expression", "compound_assignment_expr", "call_expression"}
"""What may be deleted."""
NO_EXPRESSIONS = {
    "macro_invocation", "match_pattern", "range_pattern", "tuple_struct_pattern", "or_pattern", "array_type",
    "const_item", "static_item", "attribute_item",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change of one expression or statement: bytes `start` to `end` of `file` become `text`, which has `FAULT`."""

    file: str
    line: int
    function: str
    start: int
    end: int
    text: str
    told: str


def within(node: Any, kinds: set[str]) -> bool:
    """Whether a node is part of one of some kinds."""
    while node is not None:
        if node.type in kinds:
            return True
        node = node.parent
    return False


def walk(node: Any) -> Iterator[Any]:
    """All nodes below a node."""
    yield node
    for child in node.children:
        yield from walk(child)


def replacements(node: Any) -> Iterator[tuple[str, str]]:
    """New texts of a node, with `FAULT` as the switch, and a word for each."""
    text = node.text.decode()
    match node.type:
        case "binary_expression" | "compound_assignment_expr":
            operator = node.child_by_field_name("operator")
            yield from exchanged(node, operator, SWAPS)
        case "call_expression":
            function = node.child_by_field_name("function")
            if function.type == "field_expression":
                yield from exchanged(node, function.child_by_field_name("field"), METHODS)
        case "integer_literal" if re.fullmatch(r"[0-9_]+", text):
            yield f"(if FAULT {{ {int(text) + 1} }} else {{ {text} }})", f"{text} became {int(text) + 1}"
        case "boolean_literal":
            yield f"(FAULT != {text})", f"{text} was inverted"
        case "expression_statement" if node.children[0].type in STATEMENTS:
            yield f"if !FAULT {{ {text} }}", "the statement was deleted"


def exchanged(node: Any, word: Any, others: dict[str, str]) -> Iterator[tuple[str, str]]:
    """An expression with another operator or method in the place of one of its words."""
    raw, old = node.text, word.text.decode()
    if (new := others.get(old)) is not None and b"let " not in raw:
        cut = word.start_byte - node.start_byte
        changed = (raw[:cut] + new.encode() + raw[cut + len(word.text) :]).decode()
        yield f"(if FAULT {{ {changed} }} else {{ {raw.decode()} }})", f"{old} became {new}"


def mutants(file: Path) -> list[Mutant]:
    """All mutants of a file."""
    import tree_sitter  # noqa: PLC0415 - only this tool needs it
    import tree_sitter_rust  # noqa: PLC0415

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
    source = file.read_bytes()
    if b"#[cfg(test)]" in source:
        source = source[: source.index(b"#[cfg(test)]")]
    found = []
    for function in walk(parser.parse(source).root_node):
        if function.type != "function_item" or (body := function.child_by_field_name("body")) is None:
            continue
        if any(b"const" in child.text for child in function.children if child.type == "function_modifiers"):
            continue
        name = function.child_by_field_name("name").text.decode()
        for node in walk(body):
            if within(node, NO_EXPRESSIONS) or (node.parent and node.parent.type == "field_expression"):
                continue
            for text, told in replacements(node):
                line = node.start_point[0] + 1
                found.append(
                    Mutant(
                        str(file.relative_to(ROOT)), line, name, node.start_byte, node.end_byte, text, told
                    )
                )
    return found


def draw(seed: int, count: int, only: tuple[str, ...] = ("",)) -> list[Mutant]:
    """Mutants in an order drawn from a seed, one of each function at most, of files whose paths begin like `only`."""
    every = [
        one
        for crate in CRATES
        for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))
        if not SKIPPED.search(str(file.relative_to(ROOT / "crates" / crate / "src")))
        and str(file.relative_to(ROOT)).startswith(only)
        for one in mutants(file)
    ]
    functions: dict[tuple[str, str], list[Mutant]] = {}
    for one in every:
        functions.setdefault((one.file, one.function), []).append(one)
    chance = random.Random(seed)  # noqa: S311 - a sample
    groups = list(functions.values())
    chance.shuffle(groups)
    return [chance.choice(group) for group in groups[:count]]


def texts(drawn: dict[int, Mutant]) -> dict[str, str]:
    """The text of each file with mutants; a mutant of number n is switched on by `plant(n)`."""
    result: dict[str, str] = {}
    for file in {one.file for one in drawn.values()}:
        raw = (ROOT / file).read_bytes()
        ordered = sorted((one.start, number) for number, one in drawn.items() if one.file == file)
        for _, number in reversed(ordered):
            one = drawn[number]
            switch = f"tcpassay_units::planted({number})"
            raw = raw[: one.start] + one.text.replace("FAULT", switch).encode() + raw[one.end :]
        result[file] = raw.decode()
    return result


def refused(source: Path, environment: dict[str, str]) -> set[int]:
    """Numbers of the mutants that do not compile."""
    command = ["cargo", "check", "--offline", "--message-format", "json", "-p", "tcpassay-python"]
    ran = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    bad: set[int] = set()
    for line in ran.stdout.splitlines():
        told = json.loads(line)
        message = told.get("message", {})
        if told.get("reason") != "compiler-message" or message.get("level") != "error":
            continue
        for span in message["spans"]:
            for number in re.findall(r"planted\((\d+)\)", " ".join(row["text"] for row in span["text"])):
                bad.add(int(number))
            if not span["file_name"].startswith("crates"):
                continue
            lines = (source / span["file_name"]).read_text().splitlines()
            around = lines[max(0, span["line_start"] - 4) : span["line_end"] + 3]
            if not bad:
                bad.update(int(n) for row in around for n in re.findall(r"planted\((\d+)\)", row))
    if ran.returncode and not bad:
        sys.exit(ran.stderr[-3000:])
    return bad


def build(folder: Path, drawn: dict[int, Mutant], profile: str) -> dict[int, Mutant]:
    """Builds the copy with the mutants that compile, and gives those."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", folder / "target")).resolve()
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    while bad := refused(plant.copy(folder, texts(drawn)), environment):
        drawn = {number: one for number, one in drawn.items() if number not in bad}
        print(f"{len(bad)} mutants do not compile, {len(drawn)} are left", flush=True)
    plant.build(folder, profile, texts(drawn))
    return drawn


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True, help="of the sample of mutants")
    parser.add_argument("--count", type=int, default=150, help="mutants to draw")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="beginnings of the paths of the files: crates/tcp/src/send"
    )
    parser.add_argument("--plans", type=Path, nargs="+", default=run.PLANS)
    parser.add_argument("--profile", default="quick", help="the profile of Cargo")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants")
    given = parser.parse_args()
    folder = given.out.resolve()
    drawn = build(folder, dict(enumerate(draw(given.seed, given.count, tuple(given.only)), 1)), given.profile)
    sys.path.insert(0, str(folder / "package"))
    search = run.Search(given.plans, folder, "shipped", sys.maxsize)
    caught, effective = 0, 0
    with (folder / "mutants.jsonl").open("w") as file:
        for number, one in drawn.items():
            told = search.first(number)
            file.write(json.dumps(asdict(one) | told) + "\n")
            file.flush()
            caught += told["cases"] is not None
            effective += told["changed"] > 0
            by = "; ".join(told["by"][:2]) or f"changes {told['changed']} of {told['of']} cases"
            print(f"{one.file}:{one.line} {one.function}: {one.told}: {told['cases']} {by}", flush=True)
    print(
        f"{caught} of {effective} mutants that change a run are found; {len(drawn) - effective} change none"
    )


if __name__ == "__main__":
    main()
