"""What runs on this machine's own kernel needs root and an agent; where either is missing it is skipped, saying so."""

import subprocess

import pytest

from tcpassay import host
from tcpassay.errors import UserError
from tcpassay.kernel.run import agent


@pytest.fixture(scope="session", autouse=True)
def _able() -> None:
    try:
        host.ready()
    except UserError as error:
        pytest.skip(f"nothing can be run on this machine's kernel: {error}")


@pytest.fixture
def bpf() -> None:
    """What needs BPF is skipped where there is none."""
    if subprocess.run([agent(), "bpf"], capture_output=True, check=False).returncode:
        pytest.skip("this build or this kernel has no BPF (`tcpassay-agent bpf` says what is missing)")
