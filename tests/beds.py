"""Plans for testbeds of namespaces, and their commands."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

import testbeds
from patience import until

ROLES = {"alpha": "sender", "beta": "router", "gamma": "receiver"}
LINKS = [("alpha", "beta"), ("beta", "gamma")]
FIVE = {"s1": "sender", "s2": "sender", "r": "router", "d1": "receiver", "d2": "receiver"}
FIVE_LINKS = [("s1", "r"), ("s2", "r"), ("r", "d1"), ("r", "d2")]
PLAN = """
name = "remote"
substrates = ["remote:FILE"]
oracles = false
[fixed]
"topology" = "pair"
"link.rate" = "200Mbit"
"link.delay" = "0s"
"stack.cc" = "cubic"
"queue.kind" = "htb"
"queue.rate" = "50Mbit"
"app.workload" = "bulk"
"app.flows" = 2
"app.duration" = "DURATION"
[collect]
series = "10ms"
events = true
"""
# It changes the MTU of the test interfaces, which is not in a namespace of the run.
LARGE = PLAN.replace("[collect]", '"stack.mtu" = "4000B"\n[collect]')

_STARTED: list[subprocess.Popen[bytes]] = []


def require() -> None:
    """Skips a test where no testbed can be made, with the reason."""
    if why := testbeds.lacking():
        pytest.skip(f"no testbed can be made: {why}")


def plan(testbed: testbeds.Testbed, folder: Path, duration: str, text: str = PLAN) -> Path:
    """The file of a plan for a testbed."""
    file = folder / "plan.toml"
    file.write_text(text.replace("FILE", testbed.file.stem).replace("DURATION", duration))
    return file


def tcpassay(testbed: testbeds.Testbed, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the controller that has ended."""
    return subprocess.run(testbed.tcpassay(*words), capture_output=True, text=True, check=False)


def states_after_a_check(testbed: testbeds.Testbed) -> dict[str, dict[str, str]]:
    """The state of each host after the first connection, which copies the agent and may load modules."""
    words = ("ip", "-d", "link")

    def links() -> dict[str, str]:
        return {name: testbed.call(name, *words) for name in testbed.first if name != "control"}

    before = links()
    done = tcpassay(testbed, "testbed", "check", str(testbed.file))
    assert done.returncode == 0, done.stdout + done.stderr
    # The kernel removes the namespaces of a run, and its devices on the test interfaces, some time after the run.
    until(lambda: links() == before, "the devices of the check end")
    return testbed.states()


def start(testbed: testbeds.Testbed, file: Path, out: Path) -> subprocess.Popen[bytes]:
    """Starts the runs of a plan, in a process group of its own, which ends with the test at the latest."""
    process = subprocess.Popen(
        testbed.tcpassay("run", str(file), "--out", str(out)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    _STARTED.append(process)
    return process


def end_started() -> None:
    """Ends the runs that `start` has started and that still go on, so that a failed test does not fail the next one."""
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def until_running(testbed: testbeds.Testbed, process: subprocess.Popen[bytes], hosts: int) -> None:
    """Waits until a run is prepared on all hosts: their settings are changed and their namespaces are made."""

    def running() -> bool:
        runs = testbed.processes().runs
        return len(runs) == hosts and all(netns(one) for one in runs)

    until(lambda: process.poll() is not None or running(), "the run is prepared")
    assert process.poll() is None, process.communicate()[0]


def netns(run: int) -> list[str]:
    """The network namespaces that a run has made."""
    try:
        return [path.name for path in Path(f"/proc/{run}/root/run/netns").glob("tcpassay-*")]
    except OSError:
        return []
