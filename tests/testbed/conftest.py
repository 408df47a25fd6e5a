"""A testbed of two hosts and a router for the tests of a module."""

from collections.abc import Iterator

import pytest

import beds
import testbeds


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[testbeds.Testbed]:
    beds.require()
    with testbeds.testbed(tmp_path_factory.mktemp("testbed"), beds.ROLES, beds.LINKS) as made:
        yield made


@pytest.fixture(autouse=True)
def runs_end_with_their_test() -> Iterator[None]:
    """Ends what a failed test has left running."""
    yield
    beds.end_started()
