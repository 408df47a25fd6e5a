"""docs/dev/adding.md: the file counts of its table are those of its diffs, and the changed files exist."""

import re

import pytest

from plans import REPOSITORY

TEXT = (REPOSITORY / "docs" / "dev" / "adding.md").read_text(encoding="utf-8")
DIFFS = dict(re.findall(r"^## (An? [a-z ]+)\n.*?```diff\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL))
ROWS = re.findall(r"^\| (an? [a-z ]+?)(?: of a setting that exists)? \| (\d+) \|", TEXT, re.MULTILINE)


def test_every_row_of_the_table_has_a_diff() -> None:
    assert [name.capitalize() for name, _ in ROWS] == list(DIFFS)


@pytest.mark.parametrize(("name", "count"), ROWS)
def test_a_diff_touches_as_many_files_as_the_table_says(name: str, count: str) -> None:
    diff = DIFFS[name.capitalize()]
    assert len(re.findall(r"^\+\+\+ b/", diff, re.MULTILINE)) == int(count)


@pytest.mark.parametrize("name", DIFFS)
def test_the_lines_that_a_diff_changes_are_in_the_files(name: str) -> None:
    file = ""
    for line in DIFFS[name].splitlines():
        if line.startswith("--- a/"):
            file = (REPOSITORY / line.removeprefix("--- a/")).read_text(encoding="utf-8")
        elif line.startswith("+++ ") and not line.startswith("+++ b/crates"):
            raise AssertionError(line)
        elif line.startswith("-") and file:
            assert line[1:] in file, line
