"""packetdrill scripts on other TCPs."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.errors import UserError

SCRIPT = """0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 700) = 700
+0 > P. 1:701(700) ack 1
"""


def run(file: Path, on: str) -> tuple[int, dict[str, object]]:
    """The exit code and the result of one script."""
    result = CliRunner().invoke(app, ["script", "--on", on, "--compare", "loose", "--json", str(file)])
    return result.exit_code, json.loads(result.stdout)["scripts"][0]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "write.pkt"
    file.write_text(SCRIPT, encoding="utf-8")
    return file


def test_a_script_runs_in_the_process_and_on_a_process_alike(script: Path, adapter: Path) -> None:
    code, inside = run(script, "smoltcp")
    assert (code, inside["status"]) == (0, "pass")
    assert inside["profile"] == "smoltcp 0.14.0 (socket-tcp-reno, socket-tcp-cubic)"
    code, process = run(script, f"exec:{adapter}")
    assert (code, process["status"], process["events"]) == (0, "pass", inside["events"])


def test_a_process_that_ends_within_a_script_is_crashed(script: Path, tmp_path: Path) -> None:
    program = tmp_path / "ends.py"
    program.write_text(
        "import struct, sys\n"
        "def read():\n"
        "    return sys.stdin.buffer.read(struct.unpack('<I', sys.stdin.buffer.read(4))[0])\n"
        "read()\n"
        "hello = b'name=short\\nversion=1\\n'\n"
        "sys.stdout.buffer.write(struct.pack('<I', len(hello)) + hello)\n"
        "sys.stdout.buffer.flush()\n"
        "read()\n"
        "sys.exit('no more')\n",
        encoding="utf-8",
    )
    code, found = run(script, f"exec:{sys.executable} {program}")
    assert (code, found["status"], found["line"]) == (1, "crashed", 3)
    assert "it ended (exit status: 1)" in str(found["reason"])
    assert "no more" in str(found["reason"])


def test_a_tcp_that_does_not_exist_is_refused(script: Path) -> None:
    result = CliRunner().invoke(app, ["script", "--on", "lwip@1", str(script)])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith("`--on lwip@1`: allowed are model, kernel, host and other TCPs; ")


def test_a_program_that_cannot_be_started_is_refused_with_the_reason(script: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["script", "--on", f"exec:{tmp_path}/nope", str(script)])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(f"`exec:{tmp_path}/nope`: outcome `stack`: ")
    assert "No such file or directory" in str(result.exception)
