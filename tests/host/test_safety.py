"""After any end of a run, this machine has its former state: devices, routes, queues, sysctls, mounts."""

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
from collections.abc import Iterator
from pathlib import Path

import pytest

from control import Control, control
from patience import SAFETY_NET_S, children, parent, until
from tcpassay.substrate.agent import agent_program

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
# State that changes without the test.
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


def built(process: subprocess.Popen[str], pid: int) -> None:
    """Waits until the agent with this number has built the namespaces of its run."""
    wanted = {"tcpassay-sender", "tcpassay-receiver"}
    until(lambda: process.poll() is not None or wanted <= namespaces_of(pid), "the namespaces are there")
    still(process)


class EndedError(Exception):
    """The run ended before the test could kill it."""


def still(process: subprocess.Popen[str]) -> None:
    """Raises `EndedError` if the run has ended: a case ends at once if the probes of the path do not reach its rate."""
    if process.poll() is not None:
        said = process.communicate()[0]
        assert process.returncode == 0, said
        assert "path" in said, said
        raise EndedError(said)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """A run that ends too early fails the test, and skips it if something else disturbed the machine."""
    seen = Control()
    try:
        with control([]) as seen:
            yield
    except EndedError as error:
        seen.skip_if_disturbed(f"the run ended before it was killed: {error}")


def killed(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Half a second after its namespaces are there."""
    time.sleep(0.5)
    process.send_signal(number)
    if process.wait(SAFETY_NET_S) != -number:
        still(process)


@contextlib.contextmanager
def started(*command: str | Path, said: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the test at the latest."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(said)
        process.stdin.close()
        process.stdin = None
        try:
            yield process
        finally:
            process.kill()


RUNNER = (
    sys.executable,
    "-c",
    "import sys, json; from tcpassay.substrate import host; print(host.run_case(**json.loads(sys.argv[1]), quiet_s=0))",
)


@pytest.fixture
def before() -> dict[str, str]:
    Path("/run/netns").mkdir(exist_ok=True)  # as the first `ip netns add` of a machine leaves it
    return state()


def settled(before: dict[str, str]) -> None:
    """The kernel takes a moment to take namespaces apart, and a busy one longer."""
    ends = time.monotonic() + 180
    while (now := state()) != before and time.monotonic() < ends:
        time.sleep(0.1)
    assert now == before


def test_a_run_leaves_nothing_behind(tmp_path: Path, before: dict[str, str]) -> None:
    done = subprocess.run(
        [agent_program(), "host"],
        input=request(tmp_path, "200ms"),
        capture_output=True,
        text=True,
        check=True,
    )
    # On a machine that is too busy for the rate it ends before the traffic, and leaves nothing either.
    assert json.loads(done.stdout)["ended"] in {"duration", "path"}, done.stdout
    settled(before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_killed_leaves_nothing_behind(
    tmp_path: Path, before: dict[str, str], number: signal.Signals
) -> None:
    with watched(), started(agent_program(), "host", said=request(tmp_path, "1h")) as process:
        built(process, process.pid)
        # During the run other processes see no change.
        assert state() == before
        killed(process, number)
    settled(before)


def test_a_runner_that_is_killed_takes_its_agent_along_and_leaves_nothing_behind(
    tmp_path: Path, before: dict[str, str]
) -> None:
    with watched(), started(*RUNNER, request(tmp_path, "1h")) as process:
        child = child_of(process)
        built(process, child or 0)
        killed(process, signal.SIGKILL)
    assert child is not None
    until(lambda: parent(child) is None, "the agent is gone")
    settled(before)


def program_of(process: int) -> str | None:
    """The file that a process executes; `None` if it has ended."""
    try:
        return os.path.realpath(f"/proc/{process}/exe")
    except FileNotFoundError:
        return None


def child_of(runner: subprocess.Popen[str]) -> int | None:
    """The agent process of a runner; `None` if the runner has ended."""

    def seen() -> list[int]:
        there = children(runner.pid)
        return [one for one in there if program_of(one) == str(agent_program())]

    until(lambda: seen() or runner.poll() is not None, "the agent is started")
    return next(iter(seen()), None)


def test_a_kill_at_any_moment_leaves_nothing_behind(tmp_path: Path, before: dict[str, str]) -> None:
    """Twenty times: before the namespaces, between them, in the probes, in the traffic; with and without programs."""
    shim = subprocess.run([agent_program(), "bpf", "shim"], capture_output=True, check=False).returncode == 0
    dice = random.Random(1)  # noqa: S311 - moments, of which a machine makes others each time
    for attempt in range(20):
        case = json.loads(request(tmp_path / str(attempt), "1h"))
        if shim and attempt % 4 > 1:
            case["triples"] |= {
                "stack.cc_engine": "shim",
                "queue.ecn_mark": "ack",
                "queue.ecn_threshold": "15KB",
            }
        moment = dice.uniform(0, 1.5)
        with started(*RUNNER, json.dumps(case)) as runner:
            its_agent = child_of(runner)
            time.sleep(moment)
            # It may have ended by itself, on a machine that is too busy.
            if attempt % 2 == 0:
                runner.kill()
            elif its_agent is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(its_agent, signal.SIGKILL)
            runner.wait(SAFETY_NET_S)
        try:
            settled(before)
        except AssertionError as error:
            error.add_note(f"attempt {attempt}: killed {moment:.3f} s after the agent's start")
            raise
