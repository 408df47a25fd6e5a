"""What the tests of oracles have in common."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a recording is written."""
    return tmp_path / "recording"
