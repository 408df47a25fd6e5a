"""docs/tutorial-patch.md: its commands run; versions of Debian's kernel and their numbers may differ from the page."""

import re
import sys
from pathlib import Path

import pytest

from plans import REPOSITORY
from tcpassay.kernel import store

sys.path.insert(0, str(REPOSITORY / "tools" / "site"))
import play

PAGE = REPOSITORY / "docs" / "tutorial-patch.md"


def without_numbers(text: str) -> str:
    """The text with `N` for numbers and identifiers, and without the place of the cache."""
    return re.sub(
        r"\S+/kernels/", "", re.sub(r"\b(?=[a-f]*\d)[\da-f]+\b|built in \S+ s|built before", "N", text)
    )


def test_the_commands_of_the_tutorial_print_what_it_says_up_to_numbers(kernel: str, tmp_path: Path) -> None:
    assert kernel
    if "6.1+ack-every-third" not in {one.name for one in store.kernels()}:
        pytest.skip("the kernel with the patch of the tutorial is not built (make kernel)")
    text = PAGE.read_text(encoding="utf-8")
    folder = play.prepared(tmp_path)
    assert without_numbers(play.play(text, folder)) == without_numbers(text)
    assert (folder / "results/check/1/plan/differences").is_dir()
