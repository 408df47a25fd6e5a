"""Cases on hosts with real sshd in network namespaces, and what remains of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import labs
from patience import parent, until
from tcpassay.errors import UserError
from tcpassay.recording import Recording
from tcpassay.substrate.agent import agent_program

pytestmark = pytest.mark.testbed

ROLES = {"alpha": "sender", "beta": "router", "gamma": "receiver"}
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


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[labs.Lab]:
    if why := labs.lacking():
        pytest.skip(f"no testbed can be made: {why}")
    try:
        agent_program()
    except UserError as error:
        pytest.skip(f"no testbed can be made: {error}")
    links = [("alpha", "beta"), ("beta", "gamma")]
    with labs.lab(tmp_path_factory.mktemp("lab"), ROLES, links) as made:
        yield made


def command(lab: labs.Lab, *words: str) -> list[str]:
    return lab.inside("control", sys.executable, "-m", "tcpassay", *words)


def tcpassay(lab: labs.Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(lab, *words), capture_output=True, text=True, check=False)


def plan(lab: labs.Lab, folder: Path, duration: str, more: str = "") -> Path:
    file = folder / "plan.toml"
    file.write_text(PLAN.replace("FILE", str(lab.file)).replace("DURATION", duration) + more)
    return file


def states(lab: labs.Lab) -> dict[str, dict[str, str]]:
    return {name: lab.state(name) for name in ROLES}


def agents() -> list[int]:
    """The processes of agents that serve a controller."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 1 and b"/.cache/tcpassay/agent-" in words[0] and words[1] == b"remote":
            found.append(int(path.parent.name))
    return sorted(found)


def test_check_reports_hosts_and_paths_and_leaves_them_as_they_were(lab: labs.Lab) -> None:
    before = states(lab)
    done = tcpassay(lab, "testbed", "check", str(lab.file), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(one["where"], one["what"]): one["found"] for one in json.loads(done.stdout)}
    assert found["host beta", "root"] == "yes"
    assert found["host beta", "interface eth2"].startswith("up 1, mtu 1500")
    path = "path alpha - beta - gamma"
    assert found[path, "MTU"] == "packets of 1500 B pass"
    assert {"RTT", "rate"} <= {what for where, what in found if where == path}
    lab.settled(before)


def test_a_case_on_three_hosts_is_one_recording(lab: labs.Lab, tmp_path: Path) -> None:
    before = states(lab)
    out = tmp_path / "out"
    done = tcpassay(lab, "run", str(plan(lab, tmp_path, "500ms")), "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (place,) = out.rglob("recording.json")
    recording = Recording.open(place.parent)
    index = json.loads(place.read_text())
    assert index["header"]["substrate"] == "remote"
    assert index["hosts"] == ["sender", "receiver"]
    first = index["flows"][0]
    # What left was counted at the sender, what arrived at the receiver, and the queue at the router.
    counters = first["counters"]
    assert counters["sent_bytes"] >= counters["delivered_bytes"] > 100_000
    assert counters["read_bytes"] == pytest.approx(counters["delivered_bytes"], rel=0.05)
    assert first["tcp"]["bytes_acked"] > 100_000
    queue = index["devices"][index["header"]["bottleneck"]]
    assert (queue["name"], queue["rate_bps"]) == ("queue.bottleneck", 50_000_000)
    assert queue["counters"]["bytes"] > 1_000_000
    rows = {(row["entity"], row["property"]) for row in index["environment"]}
    assert {(f"clock.{name}", "offset_error") for name in ROLES} <= rows
    assert set(recording.table("events")["host"].unique()) == {0, 1}
    lab.settled(before)


def test_what_a_testbed_cannot_do_is_refused_before_anything_runs(lab: labs.Lab, tmp_path: Path) -> None:
    before = states(lab)
    out = tmp_path / "out"
    text = plan(lab, tmp_path, "1s").read_text().replace('"pair"', '"dumbbell:2"')
    (tmp_path / "plan.toml").write_text(text)
    done = tcpassay(lab, "run", str(tmp_path / "plan.toml"), "--out", str(out))
    assert done.returncode == 2
    assert "2 hosts that are senders, and the testbed has 1" in done.stderr
    strict = lab.folder / "strict.toml"
    strict.write_text(lab.file.read_text().replace('role = "sender"', 'role = "sender"\nallow = []'))
    text = plan(lab, tmp_path, "1s", "").read_text().replace(str(lab.file), str(strict))
    (tmp_path / "plan.toml").write_text(text.replace("[collect]", '"stack.mtu" = "9000B"\n[collect]'))
    done = tcpassay(lab, "run", str(tmp_path / "plan.toml"), "--out", str(out))
    assert done.returncode == 2
    assert "`allow` does not contain `mtu`" in done.stderr
    assert not out.exists()
    lab.settled(before)


def test_the_interface_of_the_connection_is_never_used(lab: labs.Lab) -> None:
    bad = lab.folder / "bad.toml"
    bad.write_text(lab.file.read_text().replace("alpha:eth1", "alpha:mgmt0"))
    done = tcpassay(lab, "testbed", "check", str(bad))
    assert done.returncode == 1
    assert "carries the controller's connection" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize("victim", ["run", "agent", "ssh", "controller"])
def test_a_kill_leaves_no_host_changed(lab: labs.Lab, tmp_path: Path, victim: str) -> None:
    before = states(lab)
    text = plan(lab, tmp_path, "60s").read_text()
    # It changes the MTU of the test interfaces, which is not in a namespace of the run.
    (tmp_path / "plan.toml").write_text(text.replace("[collect]", '"stack.mtu" = "4000B"\n[collect]'))
    process = subprocess.Popen(
        command(lab, "run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    changed = ("ip", "link", "show", "eth1")
    until(
        lambda: process.poll() is not None or "mtu 4000" in lab.call("gamma", *changed), "the run is prepared"
    )
    time.sleep(0.5)
    assert process.poll() is None
    ended = kill(victim, process)
    assert ended
    lab.settled(before)
    if victim == "controller":
        process.wait()
    else:
        process.communicate()
        assert process.returncode == 1
    assert lab.call("alpha", "ls", "/var/lib") == ""


def kill(victim: str, process: subprocess.Popen[bytes]) -> list[int]:
    """Kills processes; returns their numbers."""
    serving = agents()
    parents = {
        one: int(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[1]) for one in serving
    }
    if victim == "controller":
        os.killpg(process.pid, signal.SIGKILL)
        return [process.pid]
    if victim == "ssh":
        # The last one: the process that runs cases connects after the one that checks them.
        chosen = sorted(one for one in sessions() if one not in serving)[-1:]
    elif victim == "run":
        # A run is the child of its agent in a session of its own, and it has namespaces of its own.
        chosen = [one for one in serving if parents[one] in serving and is_run(one)][:1]
    else:
        chosen = [
            one for one in serving if parents[one] not in serving and any(parents[o] == one for o in serving)
        ][:1]
    for one in chosen:
        os.kill(one, signal.SIGKILL)
    return chosen


def is_run(process: int) -> bool:
    """Whether a process has another mount namespace than its parent."""
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own, others = (Path(f"/proc/{one}/ns/mnt").readlink() for one in (process, stat[1]))
    return own != others


def sessions() -> list[int]:
    """The processes of `ssh` that are connected to an agent."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if words.startswith(b"ssh\0") and b'remote "$SSH_CONNECTION"' in words:
            found.append(int(path.parent.name))
    return found


def test_a_second_controller_is_told_that_a_host_is_in_use(lab: labs.Lab, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(lab, "run", str(plan(lab, tmp_path, "60s")), "--out", str(tmp_path / "out")),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until(lambda: process.poll() is not None or any(is_run(one) for one in agents()), "the run is prepared")
    done = tcpassay(lab, "testbed", "check", str(lab.file))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert done.returncode == 2
    assert "another controller" in done.stderr


def test_what_a_killed_supervisor_has_left_is_restored_by_the_command_restore(
    lab: labs.Lab, tmp_path: Path
) -> None:
    before = states(lab)
    text = plan(lab, tmp_path, "60s").read_text()
    (tmp_path / "plan.toml").write_text(text.replace("[collect]", '"stack.mtu" = "4000B"\n[collect]'))
    process = subprocess.Popen(
        command(lab, "run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    changed = ("ip", "link", "show", "eth1")
    until(
        lambda: process.poll() is not None or "mtu 4000" in lab.call("gamma", *changed), "the run is prepared"
    )
    network = Path(f"/proc/{lab.holders['gamma'].pid}/ns/net").readlink()
    here = [one for one in agents() if Path(f"/proc/{one}/ns/net").readlink() == network]
    (supervisor,) = (one for one in here if parent(one) in here and not is_run(one))
    agent = parent(supervisor)
    assert agent is not None
    for one in (supervisor, agent):
        os.kill(one, signal.SIGKILL)
    process.communicate()
    assert process.returncode == 1
    assert "mtu 4000" in lab.call("gamma", *changed)
    assert lab.call("gamma", "ls", "/var/lib/tcpassay") == "journal\n"
    lab.call("gamma", "sh", "-c", "/root/.cache/tcpassay/agent-* restore")
    lab.settled(before)


def test_two_senders_two_receivers_and_a_router_start_together(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if why := labs.lacking():
        pytest.skip(f"no testbed can be made: {why}")
    roles = {"s1": "sender", "s2": "sender", "r": "router", "d1": "receiver", "d2": "receiver"}
    links = [("s1", "r"), ("s2", "r"), ("r", "d1"), ("r", "d2")]
    with labs.lab(tmp_path_factory.mktemp("five"), roles, links) as five:
        before = {name: five.state(name) for name in roles}
        text = plan(five, tmp_path, "500ms").read_text().replace('"pair"', '"dumbbell:2"')
        (tmp_path / "plan.toml").write_text(text.replace('"app.flows" = 2', '"app.flows" = 1'))
        done = tcpassay(five, "run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"))
        assert done.returncode == 0, done.stdout + done.stderr
        five.settled(before)
    (place,) = (tmp_path / "out").rglob("recording.json")
    index = json.loads(place.read_text())
    data = [flow for flow in index["flows"] if flow["counters"]["sent_bytes"] > 100_000]
    assert {(flow["from"], flow["to"]) for flow in data} == {(0, 1), (2, 3)}
    assert all(flow["counters"]["delivered_bytes"] > 100_000 for flow in data)
    # All hosts of the lab have one clock: an estimated offset is wrong by no more than its error.
    clocks = {(row["entity"], row["property"]): row["measured"] for row in index["environment"]}
    for name in roles:
        assert abs(clocks[f"clock.{name}", "offset"]) <= clocks[f"clock.{name}", "offset_error"]
