"""A lab of two hosts and a router for the tests of a module."""

from collections.abc import Iterator

import pytest

import beds
import labs


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[labs.Lab]:
    beds.require()
    with labs.lab(tmp_path_factory.mktemp("lab"), beds.ROLES, beds.LINKS) as made:
        yield made
