"""The example adapter, built once, and programs that wrap or imitate one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import plans

FRAMES = """
import struct
import subprocess
import sys
import time


def read(stream):
    head = stream.read(4)
    return stream.read(struct.unpack("<I", head)[0]) if len(head) == 4 else None


def frame(content):
    return struct.pack("<I", len(content)) + content


def send(stream, content):
    stream.write(frame(content))
    stream.flush()


def own(content):
    send(sys.stdout.buffer, content)


def idle(packets=b""):
    return struct.pack("<QI", 2**64 - 1, 0) + packets


def go_on():
    while read(sys.stdin.buffer) is not None:
        own(idle())


def item(kind, content):
    return bytes([kind]) + struct.pack("<I", len(content)) + content


HELLO = b"name=test\\nversion=1\\noptions="
first = read(sys.stdin.buffer)
"""
"""The beginning of each program: frames, and the first request."""


@pytest.fixture(scope="session")
def adapter() -> Path:
    """The example of docs/stacks.md."""
    # With the features and the profile of `make test-rust`, which has built it then.
    profile = os.environ.get("TEST_PROFILE", "dev")
    bpf = subprocess.run(
        ["sh", "tools/bpf.sh"],  # noqa: S607
        cwd=plans.REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    command = [
        "cargo",
        "build",
        "--locked",
        "--quiet",
        "--workspace",
        "--profile",
        profile,
        "--example",
        "adapter",
    ]
    subprocess.run([*command, *bpf.stdout.split()], cwd=plans.REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", plans.REPOSITORY / "target"))
    return target / ("debug" if profile == "dev" else profile) / "examples" / "adapter"


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Writes a program that continues `FRAMES`, and returns its command."""

    def write(text: str) -> str:
        file = tmp_path / "program.py"
        file.write_text(FRAMES + text)
        return f"exec:{sys.executable} {file}"

    return write
