"""What runs on this machine's own kernel needs root and an agent; where either is missing it is skipped, saying so."""

import fcntl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.substrate import host
from tcpassay.substrate.agent import agent_program


@pytest.fixture(scope="session", autouse=True)
def _able() -> Iterator[None]:
    try:
        host.ready()
    except UserError as error:
        pytest.skip(f"nothing can be run on this machine's kernel: {error}")
    # They look at the whole machine, on which another copy of them would be seen.
    with Path("/run/tcpassay-tests.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def bpf() -> None:
    """What needs BPF is skipped where there is none."""
    if subprocess.run([agent_program(), "bpf"], capture_output=True, check=False).returncode:
        pytest.skip("this build or this kernel has no BPF (`tcpassay-agent bpf` says what is missing)")
