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
import folders
import testbeds
from beds import LARGE, PLAN, plan, start, tcpassay, until_running
from patience import parent, until
from tcpassay.recording import Recording


def test_check_reports_hosts_and_paths_and_leaves_them_as_they_were(testbed: testbeds.Testbed) -> None:
    before = testbed.states()
    done = tcpassay(testbed, "testbed", "check", str(testbed.file), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(one["where"], one["what"]): one["found"] for one in json.loads(done.stdout)}
    assert found["host beta", "root"] == "yes"
    assert found["host beta", "interface eth2"].startswith("up 1, mtu 1500")
    path = "path alpha - beta - gamma"
    assert found[path, "MTU"] == "packets of 1500 B pass"
    assert {"RTT", "rate"} <= {what for where, what in found if where == path}
    testbed.settled(before)


def test_a_case_on_three_hosts_is_one_recording(testbed: testbeds.Testbed, tmp_path: Path) -> None:
    before = testbed.states()
    out = tmp_path / "out"
    # Clocks are compared each second, also if a busy controller is late by more than a second.
    done = tcpassay(testbed, "run", str(plan(testbed, tmp_path, "2500ms")), "--out", str(out))
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
    measured = {(row["entity"], row["property"]): row["measured"] for row in index["environment"]}
    for name in beds.ROLES:
        # All hosts have one clock.
        for what in ("offset", "offset_during"):
            assert abs(measured[f"clock.{name}", what]) <= measured[f"clock.{name}", f"{what}_error"]
    assert {(f"machine.{name}", what) for name in beds.ROLES for what in ("start", "interrupts")} <= set(
        measured
    )
    # The path was measured before the run. A veth device has no interrupt coalescing that could be recorded.
    assert measured["path.alpha.gamma", "rtt"] > 0
    assert ("eth1.alpha", "rx_usecs") not in measured
    events = recording.table("events")
    assert set(events["host"].unique()) == {0, 1}
    # Each host knows the numbers and the window of the other one from its handshake.
    rows = events.select("kind", "host", "seq", "ack", "len", "window_bytes").rows()
    assert min(seq for kind, host, seq, _, size, _ in rows if (kind, host) == ("in", 1) and size) == 1
    assert max(ack for kind, host, _, ack, _, _ in rows if (kind, host) == ("out", 1)) > 100_000
    # Without the scale of the option a window has at most 65,535 bytes.
    assert max(window for kind, host, _, _, _, window in rows if (kind, host) == ("in", 0)) > 65_535
    testbed.settled(before)


def test_what_a_testbed_cannot_do_is_refused_before_anything_runs(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    out = tmp_path / "out"
    file = plan(testbed, tmp_path, "1s", PLAN.replace('"pair"', '"dumbbell:2"'))
    done = tcpassay(testbed, "run", str(file), "--out", str(out))
    assert done.returncode == 2
    assert "2 hosts that are senders, and the testbed has 1" in done.stderr
    file = plan(testbed, tmp_path, "1s", PLAN.replace("events = true", "deliveries = true"))
    done = tcpassay(testbed, "run", str(file), "--out", str(out))
    assert done.returncode == 2
    assert "`collect.deliveries` has one-way delays, which a testbed does not measure" in " ".join(
        done.stderr.split()
    )
    strict = testbed.folder / "strict.toml"
    strict.write_text(testbed.file.read_text().replace('role = "sender"', 'role = "sender"\nallow = []'))
    file = plan(testbed, tmp_path, "1s", LARGE.replace("FILE", strict.stem))
    done = tcpassay(testbed, "run", str(file), "--out", str(out))
    assert done.returncode == 2
    assert "`allow` does not contain `mtu`" in done.stderr
    assert not out.exists()
    testbed.settled(before)


def test_the_interface_of_the_connection_is_never_used(testbed: testbeds.Testbed) -> None:
    bad = testbed.folder / "bad.toml"
    bad.write_text(testbed.file.read_text().replace("alpha:eth1", "alpha:mgmt0"))
    done = tcpassay(testbed, "testbed", "check", str(bad))
    assert done.returncode == 1
    assert "carries the controller's connection" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize("victim", ["run", "agent", "ssh", "controller"])
def test_a_kill_leaves_no_host_changed(testbed: testbeds.Testbed, tmp_path: Path, victim: str) -> None:
    before = testbed.states()
    process = start(testbed, plan(testbed, tmp_path, "300s", LARGE), tmp_path / "out")
    until_running(testbed, process, len(beds.ROLES))
    assert "mtu 4000" in testbed.call("gamma", "ip", "link", "show", "eth1")
    begun = time.monotonic()
    assert kill(testbed, victim, process)
    testbed.settled(before)
    # The pipe ends with the last process that was started for the run.
    process.communicate()
    took = time.monotonic() - begun
    assert process.returncode == (-signal.SIGKILL if victim == "controller" else 1)
    until(lambda: not testbed.serving(), "the agents end")
    # The run has not gone on to its end.
    assert took < 300
    assert testbed.call("alpha", "ls", "/var/lib") == ""


def kill(testbed: testbeds.Testbed, victim: str, process: subprocess.Popen[bytes]) -> list[int]:
    """Kills processes; returns their numbers."""
    if victim == "controller":
        os.killpg(process.pid, signal.SIGKILL)
        return [process.pid]
    living = testbed.processes()
    chosen = {"ssh": living.ssh, "run": living.runs, "agent": living.agents}
    for one in chosen[victim][:1]:
        os.kill(one, signal.SIGKILL)
    return chosen[victim][:1]


def test_a_second_controller_is_reported_that_a_host_is_in_use(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    process = start(testbed, plan(testbed, tmp_path, "300s"), tmp_path / "out")
    until_running(testbed, process, len(beds.ROLES))
    done = tcpassay(testbed, "testbed", "check", str(testbed.file))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not testbed.serving(), "the agents end")
    assert done.returncode == 2
    assert "another controller" in done.stderr
    # Devices of the run may remain for a moment; the next test reads the state of the hosts.
    testbed.settled(before)


@pytest.mark.parametrize("then", ["nothing", "reboot"])
def test_what_a_killed_supervisor_has_left_is_restored_by_the_command_restore(
    testbed: testbeds.Testbed, tmp_path: Path, then: str
) -> None:
    before = testbed.states()
    process = start(testbed, plan(testbed, tmp_path, "300s", LARGE), tmp_path / "out")
    until_running(testbed, process, len(beds.ROLES))
    supervisor, agent = at_host(testbed, "gamma")
    for one in (supervisor, agent):
        os.kill(one, signal.SIGKILL)
    process.communicate()
    assert process.returncode == 1
    assert "mtu 4000" in testbed.call("gamma", "ip", "link", "show", "eth1")
    assert testbed.call("gamma", "ls", "/var/lib/tcpassay") == "journal\n"
    if then == "reboot":
        # Settings of interfaces do not outlive a reboot; the journal does.
        testbed.call("gamma", "ip", "link", "set", "eth1", "mtu", "1500")
        testbed.call("gamma", "ethtool", "-K", "eth1", "tso", "on", "gro", "off")
    testbed.call("gamma", "sh", "-c", "/root/.cache/tcpassay/agent-* restore")
    testbed.settled(before)
    # Nothing is left to be restored.
    testbed.call("gamma", "sh", "-c", "/root/.cache/tcpassay/agent-* restore")


def test_a_killed_supervisor_is_replaced_and_the_next_run_has_one(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    text = LARGE.replace("oracles", "seeds = [1, 2]\noracles")
    with testbed.preparing("gamma"):
        process = start(testbed, plan(testbed, tmp_path, "1s", text), tmp_path / "out")
        until_running(testbed, process, len(beds.ROLES))
        supervisor, _ = at_host(testbed, "gamma")
        os.kill(supervisor, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    testbed.settled(before)


def at_host(testbed: testbeds.Testbed, name: str) -> tuple[int, int]:
    """The supervisor of a host, and its agent."""
    (supervisor,) = testbed.processes(name).supervisors
    agent = parent(supervisor)
    assert agent is not None
    return supervisor, agent


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_processes_of_a_testbed_end_with_a_test_that_a_signal_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    beds.require()
    script = (
        "import testbeds, pathlib, signal\n"
        # A shell may have started the tests with signals ignored.
        "signal.signal(signal.SIGTERM, signal.SIG_DFL), signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        f"with testbeds.testbed(pathlib.Path({str(tmp_path)!r}), {{'a': 'sender', 'b': 'receiver'}}, [('a', 'b')])"
        " as testbed:\n"
        "    print(*testbed.namespaces(), flush=True)\n"
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
    until(lambda: not agents.members(namespaces), "all processes of the testbed end")


def test_two_senders_two_receivers_and_a_router_start_together(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    beds.require()
    with testbeds.testbed(tmp_path_factory.mktemp("five"), beds.FIVE, beds.FIVE_LINKS) as five:
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
    # All hosts of the testbed have one clock: an estimated offset is wrong by no more than its error.
    clocks = {(row["entity"], row["property"]): row["measured"] for row in index["environment"]}
    for name in beds.FIVE:
        assert abs(clocks[f"clock.{name}", "offset"]) <= clocks[f"clock.{name}", "offset_error"]


def test_two_testbeds_with_a_common_router_are_compared_by_one_plan(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    beds.require()
    roles = {"s1": "sender", "s2": "sender", "r": "router", "d": "receiver"}
    links = [("s1", "r"), ("s2", "r"), ("r", "d")]
    with testbeds.testbed(tmp_path_factory.mktemp("ab"), roles, links) as four:
        before = four.states()
        tables = four.file.read_text().split("\n[[")
        for name, other in (("a", "s2"), ("b", "s1")):
            kept = [one for one in tables if f'"{other}"' not in one and f"{other}:" not in one]
            (four.folder / f"{name}.toml").write_text("\n[[".join(kept))
        text = PLAN.replace('"remote:FILE"', '"remote:a", "remote:b"').replace(
            "oracles", "seeds = [1, 2]\noracles"
        )
        out = tmp_path / "out"
        done = tcpassay(four, "run", str(plan(four, tmp_path, "300ms", text)), "--out", str(out))
        assert done.returncode == 0, done.stdout + done.stderr
        four.settled(before)
        runs = folders.result(out)["runs"]
        assert [run["outcome"] for run in runs] == ["done"] * 4
        assert len({run["substrate"] for run in runs}) == 2
        done = tcpassay(four, "compare", str(out), "--between", "substrate", "--metric", "goodput")
        # The runs are pairs of the two testbeds; two of them are too few for a test, unless all are alike.
        said = " ".join(done.stdout.split())
        assert "remote:a" in said
        assert "remote:b" in said
        assert (done.returncode, "undecided" in said) in {(3, True), (0, False)}, done.stdout + done.stderr
