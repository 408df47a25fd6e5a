"""Fixtures for the kernel of this machine: tests are skipped, with a reason, without root or an agent."""

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
    # These tests inspect the state of the whole machine, so that two copies would disturb each other.
    with Path("/run/tcpassay-tests.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def bpf() -> None:
    """Skips tests that need BPF if the agent has no BPF."""
    if subprocess.run([agent_program(), "bpf"], capture_output=True, check=False).returncode:
        pytest.skip("this build or this kernel has no BPF (`tcpassay-agent bpf` says what is missing)")
