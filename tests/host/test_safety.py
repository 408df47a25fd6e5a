"""Whatever ends a run, this machine is afterwards as it was before: devices, routes, queues, sysctls, mounts."""

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
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
    ("find", "/sys/fs/cgroup", "-type", "d"),
    ("cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"),
    # Where they are installed.
    ("nft", "list", "ruleset"),
    ("bpftool", "link"),
    ("bpftool", "net"),
    ("bpftool", "struct_ops"),
)
# What changes by itself.
CLOCKS = re.compile(r"(valid_lft|preferred_lft|expires) \S+|nf_conntrack_count = \d+")


def state() -> dict[str, str]:
    """This machine, in the words of its tools."""
    made = {}
    for command in filter(lambda words: shutil.which(words[0]), COMMANDS):
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        made[" ".join(command)] = CLOCKS.sub("", said)
    made["BPF programs"] = " ".join(map(str, programs()))
    assert made["ip -d link"].count("\n") > 1
    assert made[r"sysctl -a --pattern ^net\."].count("\n") > 100
    return made


def programs() -> list[int]:
    """Numbers of the BPF programs that the kernel has (bpf(2): BPF_PROG_GET_NEXT_ID)."""
    if os.uname().machine != "x86_64":
        return []
    bpf, get_next, libc = 321, 11, ctypes.CDLL(None)
    found: list[int] = []
    # union bpf_attr: the number to begin behind, the next one, flags.
    words = (ctypes.c_uint32 * 16)()
    while libc.syscall(bpf, get_next, ctypes.byref(words), ctypes.sizeof(words)) == 0:
        found.append(words[1])
        words[0] = words[1]
    return found


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
    end = time.monotonic() + 60
    while time.monotonic() < end:
        there = {name for name in namespaces_of(pid) if name.startswith("tcpassay-")}
        if {"tcpassay-sender", "tcpassay-receiver"} <= there:
            return there
        time.sleep(0.02)
    pytest.fail("the agent never built its namespaces")


RUNNER = (
    sys.executable,
    "-c",
    "import sys, json; from tcpassay import host; r = json.loads(sys.argv[1]); host.run_case(**r, quiet_s=0)",
)


@pytest.fixture
def before() -> dict[str, str]:
    Path("/run/netns").mkdir(exist_ok=True)  # as the first `ip netns add` of a machine leaves it
    return state()


def settled(before: dict[str, str]) -> None:
    """The kernel takes a moment to take namespaces apart, and a busy one longer."""
    end = time.monotonic() + 60
    while (now := state()) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert now == before


def test_a_run_leaves_nothing_behind(tmp_path: Path, before: dict[str, str]) -> None:
    done = subprocess.run(
        [agent(), "host"], input=request(tmp_path, "200ms"), capture_output=True, text=True, check=True
    )
    # On a machine that is too busy for the rate it ends before the traffic, and leaves nothing either.
    assert json.loads(done.stdout)["ended"] in {"duration", "path"}, done.stdout
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
        assert process.wait(60) == -number
    settled(before)


def test_a_runner_that_is_killed_takes_its_agent_along_and_leaves_nothing_behind(
    tmp_path: Path, before: dict[str, str]
) -> None:
    with subprocess.Popen([*RUNNER, request(tmp_path, "60s")]) as process:
        child = child_of(process.pid)
        wait_for(child)
        time.sleep(0.5)
        process.kill()
        process.wait(60)
    end = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()
    settled(before)


def child_of(pid: int) -> int:
    """The agent that a runner has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for child in children.read_text(encoding="ascii").split():
            if os.path.realpath(f"/proc/{child}/exe") == str(agent()):
                return int(child)
        time.sleep(0.02)
    pytest.fail("the runner never started an agent")


def test_whatever_the_moment_of_a_kill_nothing_is_left_behind(tmp_path: Path, before: dict[str, str]) -> None:
    """Twenty times: before the namespaces, between them, in the probes, in the traffic; with and without programs."""
    shim = subprocess.run([agent(), "bpf", "shim"], capture_output=True, check=False).returncode == 0
    dice = random.Random(time.time_ns())  # noqa: S311 - moments
    for attempt in range(20):
        case = json.loads(request(tmp_path / str(attempt), "60s"))
        if shim and attempt % 4 > 1:
            case["triples"] |= {
                "stack.cc_engine": "shim",
                "queue.ecn_mark": "ack",
                "queue.ecn_threshold": "15KB",
            }
        moment = dice.uniform(0, 1.5)
        with subprocess.Popen([*RUNNER, json.dumps(case)], stderr=subprocess.DEVNULL) as runner:
            its_agent = child_of(runner.pid)
            time.sleep(moment)
            victim = its_agent if attempt % 2 else runner.pid
            with contextlib.suppress(
                ProcessLookupError
            ):  # it may have ended by itself, on a machine that is too busy
                os.kill(victim, signal.SIGKILL)
            runner.wait(60)
        try:
            settled(before)
        except AssertionError as error:
            error.add_note(f"attempt {attempt}: killed {moment:.3f} s after the agent's start")
            raise
