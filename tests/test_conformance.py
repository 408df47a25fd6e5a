"""The files and tests named in docs/conformance.md exist."""

import re
from functools import cache

import pytest

import plans
from tcpassay.judge import ORACLES

CRATES = plans.REPOSITORY / "crates"
TEST = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)")
# Traces of a controller are listed in a macro (`traces!`), mutants by what they are.
TRACE = re.compile(r"^ {4}fn (\w+)\(t\)|^\s*(?:fn )?(\w+_is_caught)\b", re.MULTILINE)


def rows() -> list[list[str]]:
    lines = (plans.REPOSITORY / "docs" / "conformance.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in cells if "`" in row[-1]]


@cache
def written() -> set[str]:
    names: set[str] = set()
    for path in CRATES.rglob("*.rs"):
        text = path.read_text()
        names.update(TEST.findall(text))
        if "traces" in path.parts:
            names.update(name for pair in TRACE.findall(text) for name in pair if name)
    return names


def test_the_list_has_the_rules_of_every_text_that_the_model_claims() -> None:
    assert len(rows()) > 120


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]}: {row[1]}")
def test_a_rule_is_where_the_list_says_and_its_tests_exist(row: list[str]) -> None:
    (place,) = re.findall(r"`([\w/.]+\.rs)`", row[-2])
    crate, _, rest = place.partition("/")
    assert (CRATES / crate / "src" / rest).is_file(), place
    named = re.findall(r"`(\w+)`", row[-1])
    assert named, row
    assert [name for name in named if name not in written()] == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]}: {row[1]}")
def test_a_rule_has_an_oracle_or_a_reason_why_none_can_check_it(row: list[str]) -> None:
    named = re.findall(r"`([\w-]+)`", row[-3])
    reason = re.fullmatch(r"no: \S+(?: \S+){3,}", row[-3])
    assert reason or named, row
    assert reason or [name for name in named if name not in ORACLES] == []
