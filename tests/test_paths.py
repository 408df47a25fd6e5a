"""The documents name files and functions that exist."""

import re
from pathlib import Path

import pytest

import plans

NAMED = re.compile(r"`((?:crates|python|tools|tests|plans|docs|figures)/[\w./-]+\.\w+):(\w+)`")
SUFFIXES = r"(?:rs|py|md|toml|json|sh|js|css|pkt)"
FILES = re.compile(rf"`((?:crates|python|tools|tests|plans|docs|scripts|fuzz)/[\w./-]+\.{SUFFIXES})`")
DEFINED = r"\b(?:fn|const|static|struct|enum|trait|def|class|macro_rules!) +{name}\b"
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


def test_the_four_paths_of_the_architecture_are_functions_that_exist() -> None:
    named = NAMED.findall((plans.REPOSITORY / "ARCHITECTURE.md").read_text())
    assert len(named) >= 16
    for file, name in named:
        text = (plans.REPOSITORY / file).read_text()
        assert re.search(DEFINED.format(name=name), text), f"{file} has no {name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_exist(document: str) -> None:
    named = FILES.findall((plans.REPOSITORY / document).read_text())
    assert named or document == "README.md"
    missing = [file for file in named if not Path(plans.REPOSITORY / file).exists()]
    assert not missing
