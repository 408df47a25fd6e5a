"""What tests of the substrate `kernel` need; where it is not there they skip and say why."""

import pytest

from tcpassay import substrates
from tcpassay.errors import UserError


@pytest.fixture(scope="session")
def kernel() -> str:
    """The name of a substrate on which cases can be run."""
    try:
        substrates.of("kernel").ready()
    except UserError as error:
        pytest.skip(f"no case can be run on a kernel: {error}")
    return "kernel"
