"""docs/dev/adding.md: the file counts of its table are those of its diffs, and the diffs apply to the present files."""

import re
import subprocess

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
def test_a_diff_applies_to_the_present_files(name: str) -> None:
    # The document omits the header of a new file.
    diff = re.sub(r"^(\+\+\+ b/\S+\n@@ -0,0)", r"--- /dev/null\n\1", DIFFS[name], flags=re.MULTILINE)
    assert set(re.findall(r"^\+\+\+ b/(\w+)", diff, re.MULTILINE)) == {"crates"}
    tried = subprocess.run(
        ["git", "-C", str(REPOSITORY), "apply", "--check", "-"],  # noqa: S607
        input=diff,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.stderr == ""
    assert tried.returncode == 0
