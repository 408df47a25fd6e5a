"""Scripts on a real Linux. The tests are skipped, with a reason, without a kernel, an agent or root."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from control import passes
from pkt import call, write
from tcpassay import cli
from tcpassay.errors import UserError
from tcpassay.kernel import store
from tcpassay.script import linux
from tcpassay.substrate.agent import agent_program

REPOSITORY = Path(__file__).parent.parent.parent
GOOD = """`../common/defaults.sh`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop>
+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK>
+.1 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
"""
BLOCKING = (
    GOOD + "+0...0.2 read(4, ..., 1000) = 500\n+.2 < P. 1:501(500) ack 1 win 32792\n+0 > . 1:1(0) ack 501\n"
)


def test_a_place_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["script", "--on", "moon", str(tmp_path)])
    assert isinstance(result.exception, UserError)
    assert (
        str(result.exception)
        == "`--on moon`: allowed are model, kernel, host and other TCPs; `moon` is not another TCP; "
        "allowed are smoltcp, gvisor, lwip, pytcp and `exec:<command>`"
    )


@pytest.fixture(scope="module")
def guest() -> None:
    try:
        agent_program()
        store.find()
    except UserError as error:
        pytest.skip(f"no script can be run on a kernel: {error}")


@pytest.fixture(scope="module")
def host() -> None:
    try:
        agent_program()
    except UserError as error:
        pytest.skip(f"no script can be run on this host: {error}")
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.W_OK):
        pytest.skip("scripts on this host's kernel need root and /dev/net/tun")


@pytest.mark.usefixtures("guest")
def test_in_a_guest_what_happens_at_once_is_exact_and_mistakes_are_found(tmp_path: Path) -> None:
    bad = GOOD.replace("mss 1460", "mss 1461")
    late = GOOD + "+0 write(4, ..., 1000) = 1000\n+.002 > P. 1:1001(1000) ack 1\n"
    odd = GOOD.replace("../common/defaults.sh", "reboot")
    write(tmp_path, bad=bad, blocking=BLOCKING, good=GOOD, late=late, odd=odd)
    result = call(tmp_path, "--on", "kernel", "--json")
    assert result.exit_code == 1, result.output
    made = {Path(one["file"]).stem: one for one in json.loads(result.output)["scripts"]}
    statuses = {name: one["status"] for name, one in made.items()}
    assert statuses == {
        "bad": "fail",
        "blocking": "pass",
        "good": "pass",
        "late": "time",
        "odd": "unsupported",
    }
    assert made["good"]["error_usecs"] < 100
    assert made["good"]["virtual_time_usecs"] // 1000 == 100
    assert made["bad"]["line"] == 6
    assert "  * options: expected" in "".join(made["bad"]["details"])
    assert made["good"]["profile"] == store.find().release


@pytest.mark.realtime
@pytest.mark.usefixtures("host")
def test_on_this_host_a_script_that_fails_is_tried_again_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, bad=GOOD.replace("mss 1460", "mss 1461"), blocking=BLOCKING, good=GOOD)

    def run(_: int) -> dict[str, Any]:
        result = call(tmp_path, "--on", "host", "--json")
        return {Path(one["file"]).stem: one for one in json.loads(result.output)["scripts"]}

    def expect(made: dict[str, Any]) -> None:
        assert {name: one["status"] for name, one in made.items()} == {
            "bad": "fail",
            "blocking": "pass",
            "good": "pass",
        }

    made = passes(run, expect)
    assert made["bad"]["attempts"] == linux.ATTEMPTS
    assert made["good"]["profile"] == os.uname().release


def of_linux() -> list[Path]:
    """The project's own scripts for current Linux or for 6.1."""
    found = sorted((REPOSITORY / "scripts").rglob("*.pkt"))
    older = sorted((REPOSITORY / "crates" / "script" / "tests" / "older").glob("*.pkt"))
    return [
        file
        for file in (*found, *older)
        if file.read_text().startswith(("// profile: linux\n", "// profile: linux-6.1\n"))
    ]


@pytest.mark.usefixtures("guest")
def test_a_real_linux_agrees_with_the_projects_own_scripts() -> None:
    files = of_linux()
    assert len(files) >= 10
    result = call(*files, "--on", "kernel", "--json")
    wrong = [
        f"{one['file']}:{one['line']} {one['status']}: {one['reason']}"
        for one in json.loads(result.output)["scripts"]
        if one["status"] != "pass"
    ]
    assert not wrong, "\n".join(wrong)
