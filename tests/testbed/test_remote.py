"""Cases on hosts with real sshd in network namespaces, and what remains of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agents
import beds
import labs
from beds import LARGE, PLAN, plan, start, tcpassay, until_running
from patience import parent, until
from tcpassay.recording import Recording


def test_check_reports_hosts_and_paths_and_leaves_them_as_they_were(lab: labs.Lab) -> None:
    before = lab.states()
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
    before = lab.states()
    out = tmp_path / "out"
    # Clocks are compared each second.
    done = tcpassay(lab, "run", str(plan(lab, tmp_path, "1200ms")), "--out", str(out))
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
    rows = {(row["entity"], row["property"]): row["measured"] for row in index["environment"]}
    for name in beds.ROLES:
        # All hosts have one clock.
        for what in ("offset", "offset_during"):
            assert abs(rows[f"clock.{name}", what]) <= rows[f"clock.{name}", f"{what}_error"]
    assert {(f"machine.{name}", what) for name in beds.ROLES for what in ("start", "interrupts")} <= set(rows)
    # The path was measured before the run. A veth device has no interrupt coalescing that could be recorded.
    assert rows["path.alpha.gamma", "rtt"] > 0
    assert ("eth1.alpha", "rx_usecs") not in rows
    assert set(recording.table("events")["host"].unique()) == {0, 1}
    lab.settled(before)


def test_what_a_testbed_cannot_do_is_refused_before_anything_runs(lab: labs.Lab, tmp_path: Path) -> None:
    before = lab.states()
    out = tmp_path / "out"
    file = plan(lab, tmp_path, "1s", PLAN.replace('"pair"', '"dumbbell:2"'))
    done = tcpassay(lab, "run", str(file), "--out", str(out))
    assert done.returncode == 2
    assert "2 hosts that are senders, and the testbed has 1" in done.stderr
    file = plan(lab, tmp_path, "1s", PLAN.replace("events = true", "deliveries = true"))
    done = tcpassay(lab, "run", str(file), "--out", str(out))
    assert done.returncode == 2
    assert "`collect.deliveries` has one-way delays, which a testbed does not measure" in " ".join(
        done.stderr.split()
    )
    strict = lab.folder / "strict.toml"
    strict.write_text(lab.file.read_text().replace('role = "sender"', 'role = "sender"\nallow = []'))
    file = plan(lab, tmp_path, "1s", LARGE.replace("FILE", str(strict)))
    done = tcpassay(lab, "run", str(file), "--out", str(out))
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
    before = lab.states()
    process = start(lab, plan(lab, tmp_path, "300s", LARGE), tmp_path / "out")
    until_running(lab, process, len(beds.ROLES))
    assert "mtu 4000" in lab.call("gamma", "ip", "link", "show", "eth1")
    begun = time.monotonic()
    assert kill(lab, victim, process)
    lab.settled(before)
    # The pipe ends with the last process that was started for the run.
    process.communicate()
    took = time.monotonic() - begun
    assert process.returncode == (-signal.SIGKILL if victim == "controller" else 1)
    until(lambda: not lab.serving(), "the agents end")
    # The run has not gone on to its end.
    assert took < 300
    assert lab.call("alpha", "ls", "/var/lib") == ""


def kill(lab: labs.Lab, victim: str, process: subprocess.Popen[bytes]) -> list[int]:
    """Kills processes; returns their numbers."""
    if victim == "controller":
        os.killpg(process.pid, signal.SIGKILL)
        return [process.pid]
    living = lab.processes()
    chosen = {"ssh": living.ssh, "run": living.runs, "agent": living.agents}
    for one in chosen[victim][:1]:
        os.kill(one, signal.SIGKILL)
    return chosen[victim][:1]


def test_a_second_controller_is_reported_that_a_host_is_in_use(lab: labs.Lab, tmp_path: Path) -> None:
    before = lab.states()
    process = start(lab, plan(lab, tmp_path, "300s"), tmp_path / "out")
    until_running(lab, process, len(beds.ROLES))
    done = tcpassay(lab, "testbed", "check", str(lab.file))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not lab.serving(), "the agents end")
    assert done.returncode == 2
    assert "another controller" in done.stderr
    # Devices of the run may remain for a moment; the next test reads the state of the hosts.
    lab.settled(before)


@pytest.mark.parametrize("then", ["nothing", "reboot"])
def test_what_a_killed_supervisor_has_left_is_restored_by_the_command_restore(
    lab: labs.Lab, tmp_path: Path, then: str
) -> None:
    before = lab.states()
    process = start(lab, plan(lab, tmp_path, "300s", LARGE), tmp_path / "out")
    until_running(lab, process, len(beds.ROLES))
    supervisor, agent = at_host(lab, "gamma")
    for one in (supervisor, agent):
        os.kill(one, signal.SIGKILL)
    process.communicate()
    assert process.returncode == 1
    assert "mtu 4000" in lab.call("gamma", "ip", "link", "show", "eth1")
    assert lab.call("gamma", "ls", "/var/lib/tcpassay") == "journal\n"
    if then == "reboot":
        # Settings of interfaces do not outlive a reboot; the journal does.
        lab.call("gamma", "ip", "link", "set", "eth1", "mtu", "1500")
        lab.call("gamma", "ethtool", "-K", "eth1", "tso", "on", "gro", "off")
    lab.call("gamma", "sh", "-c", "/root/.cache/tcpassay/agent-* restore")
    lab.settled(before)
    # Nothing is left to be restored.
    lab.call("gamma", "sh", "-c", "/root/.cache/tcpassay/agent-* restore")


def test_a_killed_supervisor_is_replaced_and_the_next_run_has_one(lab: labs.Lab, tmp_path: Path) -> None:
    before = lab.states()
    text = LARGE.replace("oracles", "seeds = [1, 2]\noracles")
    process = start(lab, plan(lab, tmp_path, "1s", text), tmp_path / "out")
    until_running(lab, process, len(beds.ROLES))
    supervisor, _ = at_host(lab, "gamma")
    os.kill(supervisor, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    lab.settled(before)


def at_host(lab: labs.Lab, name: str) -> tuple[int, int]:
    """The supervisor of a host, and its agent."""
    (supervisor,) = lab.processes(name).supervisors
    agent = parent(supervisor)
    assert agent is not None
    return supervisor, agent


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_processes_of_a_lab_end_with_a_test_that_a_signal_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    beds.require()
    script = (
        "import labs, pathlib, signal\n"
        # A shell may have started the tests with signals ignored.
        "signal.signal(signal.SIGTERM, signal.SIG_DFL), signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        f"with labs.lab(pathlib.Path({str(tmp_path)!r}), {{'a': 'sender', 'b': 'receiver'}}, [('a', 'b')]) as lab:\n"
        "    print(*lab.namespaces(), flush=True)\n"
        "    signal.pause()\n"
    )
    here = Path(__file__).parents[1]
    test = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=here)
    assert test.stdout is not None
    namespaces = test.stdout.readline().split()
    assert len(namespaces) == 3
    # A first process for each, and sshd on the hosts.
    assert len(agents.members(namespaces)) >= 5
    test.send_signal(number)
    test.communicate()
    until(lambda: not agents.members(namespaces), "all processes of the lab end")


def test_two_senders_two_receivers_and_a_router_start_together(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    beds.require()
    with labs.lab(tmp_path_factory.mktemp("five"), beds.FIVE, beds.FIVE_LINKS) as five:
        before = five.states()
        text = PLAN.replace('"pair"', '"dumbbell:2"').replace('"app.flows" = 2', '"app.flows" = 1')
        done = tcpassay(five, "run", str(plan(five, tmp_path, "500ms", text)), "--out", str(tmp_path / "out"))
        assert done.returncode == 0, done.stdout + done.stderr
        five.settled(before)
    (place,) = (tmp_path / "out").rglob("recording.json")
    index = json.loads(place.read_text())
    data = [flow for flow in index["flows"] if flow["counters"]["sent_bytes"] > 100_000]
    assert {(flow["from"], flow["to"]) for flow in data} == {(0, 1), (2, 3)}
    assert all(flow["counters"]["delivered_bytes"] > 100_000 for flow in data)
    # All hosts of the lab have one clock: an estimated offset is wrong by no more than its error.
    clocks = {(row["entity"], row["property"]): row["measured"] for row in index["environment"]}
    for name in beds.FIVE:
        assert abs(clocks[f"clock.{name}", "offset"]) <= clocks[f"clock.{name}", "offset_error"]
