"""Whatever ends a run, this machine is afterwards as it was before: devices, routes, queues, sysctls, mounts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcpassay.kernel.run import agent

CASE = {
    "link.rate": "50Mbit",
    "link.delay": "0s",
    "nic.tso": True,
    "nic.gro": True,
    "nic.gro_timeout": "20us",
    "queue.kind": "htb",
    "queue.rate": "20Mbit",
    "stack.cc": "cubic",
    "stack.sack": False,
}
COMMANDS = (
    ("ip", "-d", "link"),
    ("ip", "addr"),
    ("ip", "route", "show", "table", "all"),
    ("ip", "rule"),
    ("ip", "netns"),
    ("tc", "qdisc"),
    ("tc", "filter", "show", "dev", "lo"),
    ("sysctl", "-a", "--pattern", r"^net\."),
    ("cat", "/proc/mounts"),
    ("ls", "/run/netns"),
)
# What changes by itself.
CLOCKS = re.compile(r"(valid_lft|preferred_lft|expires) \S+|nf_conntrack_count = \d+")


def state() -> dict[str, str]:
    """This machine, in the words of its tools."""
    made = {}
    for command in COMMANDS:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        made[" ".join(command)] = CLOCKS.sub("", said)
    assert made["ip -d link"].count("\n") > 1
    assert made[r"sysctl -a --pattern ^net\."].count("\n") > 100
    return made


def request(folder: Path, duration: str) -> str:
    collect = {"series": "10ms", "warmup": "0s", "deliveries": False, "events": False, "packets": False}
    triples = CASE | {"app.duration": duration}
    return json.dumps(
        {"triples": triples, "seed": 1, "base": "/", "collect": collect, "folder": str(folder / "run")}
    )


def namespaces_of(pid: int) -> set[str]:
    """Network namespaces that have a name where this process looks."""
    done = subprocess.run(
        ["nsenter", f"--target={pid}", "--mount", "ip", "netns"], capture_output=True, text=True, check=False
    )
    return set(done.stdout.split())


def wait_for(pid: int) -> set[str]:
    """The namespaces of a run, when it has built them."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        there = {name for name in namespaces_of(pid) if name.startswith("tcpassay-")}
        if {"tcpassay-sender", "tcpassay-receiver"} <= there:
            return there
        time.sleep(0.02)
    pytest.fail("the agent never built its namespaces")


@pytest.fixture
def before() -> dict[str, str]:
    Path("/run/netns").mkdir(exist_ok=True)  # as the first `ip netns add` of a machine leaves it
    return state()


def settled(before: dict[str, str]) -> None:
    """The kernel takes a moment to take namespaces apart."""
    end = time.monotonic() + 10
    while (now := state()) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert now == before


def test_a_run_leaves_nothing_behind(tmp_path: Path, before: dict[str, str]) -> None:
    done = subprocess.run(
        [agent(), "host"], input=request(tmp_path, "200ms"), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["ended"] == "duration", done.stdout
    settled(before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_killed_leaves_nothing_behind(
    tmp_path: Path, before: dict[str, str], number: signal.Signals
) -> None:
    with subprocess.Popen(
        [agent(), "host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(request(tmp_path, "60s"))
        process.stdin.close()
        wait_for(process.pid)
        # While it runs, nobody else sees anything of it.
        assert state() == before
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(10) == -number
    settled(before)


def test_a_runner_that_is_killed_takes_its_agent_along_and_leaves_nothing_behind(
    tmp_path: Path, before: dict[str, str]
) -> None:
    runner = (
        "import sys, json; from tcpassay import host; r = json.loads(sys.argv[1]);"
        "host.run_case(**{k: r[k] for k in ('triples', 'seed', 'base', 'collect', 'folder')}, quiet_s=0)"
    )
    with subprocess.Popen([sys.executable, "-c", runner, request(tmp_path, "60s")]) as process:
        child = child_of(process.pid)
        wait_for(child)
        time.sleep(0.5)
        process.kill()
        process.wait(10)
    end = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()
    settled(before)


def child_of(pid: int) -> int:
    """The agent that a runner has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for child in children.read_text(encoding="ascii").split():
            if os.path.realpath(f"/proc/{child}/exe") == str(agent()):
                return int(child)
        time.sleep(0.02)
    pytest.fail("the runner never started an agent")
