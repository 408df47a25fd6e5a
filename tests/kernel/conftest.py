"""Fixtures for tests of the substrate `kernel`, which are skipped with a reason if it cannot run."""

import pytest

from tcpassay.errors import UserError
from tcpassay.substrate import substrate_of


@pytest.fixture(scope="session")
def kernel() -> str:
    """The name of a substrate on which cases can be run."""
    try:
        substrate_of("kernel").ready()
    except UserError as error:
        pytest.skip(f"no case can be run on a kernel: {error}")
    return "kernel"
