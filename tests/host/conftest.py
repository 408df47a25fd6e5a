"""What runs on this machine's own kernel needs root and an agent; where either is missing it is skipped, saying so."""

import pytest

from tcpassay import host
from tcpassay.errors import UserError


@pytest.fixture(scope="session", autouse=True)
def _able() -> None:
    try:
        host.ready()
    except UserError as error:
        pytest.skip(f"nothing can be run on this machine's kernel: {error}")
