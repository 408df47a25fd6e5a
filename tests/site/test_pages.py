"""README, Start and the tutorials: their commands run, and print what the pages say."""

import sys
from pathlib import Path

import pytest

from plans import REPOSITORY
from tcpassay.plan.read import read_file

sys.path.insert(0, str(REPOSITORY / "tools" / "site"))
import play

PAGES = ("README.md", "docs/start.md", "docs/tutorial-controller.md", "docs/tutorial-data-centre.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert "```console\n$ tcpassay " in text
    told = play.play(text, play.prepared(tmp_path))
    assert told == text, f"`.venv/bin/python tools/site/play.py {page}` renews the page"


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_shows_are_those_of_its_examples(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for block in play.BLOCK.finditer(text):
        named = play.FILE.search(text[: block.start()])
        if named and (example := REPOSITORY / "docs" / "examples" / named["name"]).exists():
            assert block["body"] == example.read_text(encoding="utf-8"), named["name"]


EXAMPLES = sorted((REPOSITORY / "docs" / "examples").glob("*.toml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_is_a_plan_that_states_its_question_and_is_part_of_a_page(file: Path) -> None:
    plan = read_file(file)
    assert plan.spec.name == file.stem
    assert plan.spec.doc.rstrip().endswith("?")
    pages = (REPOSITORY / "docs").glob("*.md")
    assert any(
        f"examples/{file.name}" in (text := page.read_text()) or f"`{file.name}`:" in text for page in pages
    )


def test_the_start_page_of_the_site_lists_each_example_with_its_question() -> None:
    text = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    questions = {file.name: " ".join(read_file(file).spec.doc.split()) for file in EXAMPLES}
    assert [name for name, asked in questions.items() if f"| {asked} | [{name}](" not in text] == []


def test_a_page_writes_its_files_runs_its_commands_and_keeps_what_varies(tmp_path: Path) -> None:
    page = (
        "Save `a.txt`:\n\n```text\none\ntwo\nthree\nfour\n```\n\n"
        "```console\n$ cat a.txt\n1\n...\n9\n$ echo 4 runs, 9 s of CPU\n4 runs, 7 s of CPU\n$ exit 3\n```\n"
    )
    assert play.play(page, tmp_path) == page.replace("1\n...\n9", "one\n...\nfour")


@pytest.mark.parametrize("command", ["exit 2", "exit 70", "no-such-program"])
def test_a_command_of_a_page_that_does_not_work_is_an_error(command: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="exit code"):
        play.play(f"```console\n$ {command}\n```\n", tmp_path)
