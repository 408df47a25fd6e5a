"""The lab of the tests: three virtual machines. `make testbed-vm` runs them; they are no part of `make check`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from image import Image, LackingError, build
from lab import Guest, Lab, lab

GUESTS = (
    Guest("alpha", "sender", ("e1000e",)),
    Guest("router", "router", ("virtio-net-pci", "e1000")),
    Guest("gamma", "receiver", ("vmxnet3",), sudo=True),
)
LINKS = (("alpha:test1", "router:test1"), ("router:test2", "gamma:test1"))


@pytest.fixture(scope="session")
def image() -> Image:
    """The disk and the kernels, which are kept for the next time."""
    folder = Path(os.environ.get("TCPASSAY_VM", "~/.cache/tcpassay/testbed-vm")).expanduser()
    try:
        return build(folder)
    except LackingError as error:
        pytest.fail(f"no virtual machine can be made: {error}")


@pytest.fixture(scope="session")
def vms(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab; all machines have the older kernel."""
    with lab(tmp_path_factory.mktemp("lab"), image, GUESTS, LINKS, image.kernels[0]) as made:
        yield made
