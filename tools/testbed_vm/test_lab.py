"""A testbed of virtual machines: `sudo -n`, netem, HTB, NICs with coalescing, rings and LRO, reboots, two kernels."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from image import Image
from lab import Lab, LabError

from tcpassay.results import load

if TYPE_CHECKING:
    import subprocess

PLAN = """
name = "vm"
substrates = ["remote:FILE"]
seeds = SEEDS
oracles = ORACLES
[fixed]
"topology" = "pair"
"link.rate" = "200Mbit"
"link.delay" = "10ms"
"queue.kind" = "htb"
"queue.rate" = "20Mbit"
"queue.limit" = "100KB"
"stack.cc" = "cubic"
"app.workload" = "bulk"
"app.flows" = 2
"app.duration" = "DURATION"
MORE
[collect]
series = "10ms"
events = true
"""
STATE = (
    "for i in test1 test2; do [ -e /sys/class/net/$i ] || continue; cat /sys/class/net/$i/flags /sys/class/net/$i/mtu; "
    "for o in -k -c -g; do ethtool $o $i 2>&1 || true; done; done; ip -br link | wc -l; ls /var/lib | grep -c tcpassay"
)
TIMEOUT = 600.0


def plan(
    lab: Lab, folder: Path, more: str = "", *, seeds: str = "[1]", oracles: bool = False, **words: str
) -> Path:
    """A plan for the lab."""
    file = folder / "plan.toml"
    text = (
        PLAN.replace("FILE", Path(words.get("file", lab.file)).stem)
        .replace("SEEDS", seeds)
        .replace("MORE", more)
    )
    text = text.replace("ORACLES", "true" if oracles else "false")
    file.write_text(text.replace("DURATION", words.get("duration", "2s")))
    return file


def states(lab: Lab) -> dict[str, str]:
    """The settings of all test interfaces, the number of interfaces, and whether there is a journal."""
    return {guest.name: lab.on(guest.name, f"{STATE}; true") for guest in lab.guests}


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def settled(lab: Lab, before: dict[str, str]) -> None:
    """Waits until all hosts are as they were."""
    end = time.monotonic() + 60
    while (now := states(lab)) != before and time.monotonic() < end:
        time.sleep(0.5)
    assert now == before


def result(out: Path) -> dict[str, Any]:
    """The result of a plan."""
    results = load(out)
    return {**results.index, "runs": results.runs}


def recording(out: Path) -> tuple[dict[str, Any], dict[tuple[str, str], tuple[float, float]]]:
    """The recording of the only run, and its rows about the hosts: asked and measured."""
    (place,) = out.rglob("recording.json")
    index = json.loads(place.read_text())
    return index, {
        (row["entity"], row["property"]): (row["asked"], row["measured"]) for row in index["environment"]
    }


def test_a_check_names_hosts_interfaces_and_paths(vms: Lab, image: Image) -> None:
    before = states(vms)
    done = vms.tcpassay("testbed", "check", vms.file, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(one["where"], one["what"]): one["found"] for one in json.loads(done.stdout)}
    for guest in vms.guests:
        assert found[f"host {guest.name}", "root"] == "yes"
        assert found[f"host {guest.name}", "Linux"] == image.kernels[0].release
        assert {"htb", "netem", "fq_codel"} <= set(found[f"host {guest.name}", "rates"].split(", "))
    assert found["host gamma", "interface test1"] == "up 0, mtu 1500, tso 1, gro 1, lro 1"
    assert found["path alpha - router - gamma", "MTU"] == "packets of 1500 B pass"
    settled(vms, before)


def test_sudo_is_used_without_root_rights_of_the_login(vms: Lab) -> None:
    words = ("ssh", "-F", vms.folder / "ssh_config", "-o", "BatchMode=yes", "--", "gamma")
    assert vms.call(*words, "id -un && sudo -n id -un") == "lab\nroot\n"
    file = vms.folder / "without.toml"
    file.write_text(vms.file.read_text().replace("sudo = true", "sudo = false"))
    done = vms.tcpassay("testbed", "check", file)
    assert done.returncode == 1
    assert re.search(r"host gamma, root: no: log in as root, or set `sudo = true`", done.stdout), done.stdout


@pytest.mark.parametrize("cc", ["cubic", "bbr"])
def test_netem_and_htb_at_the_router_make_the_path_of_the_case(vms: Lab, tmp_path: Path, cc: str) -> None:
    before = states(vms)
    more = f'"link.loss" = 0.01\n"sender/stack.cc" = "{cc}"'
    done = vms.tcpassay("run", plan(vms, tmp_path, more, duration="4s"), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    ((run),) = result(tmp_path / "out")["runs"]
    index, rows = recording(tmp_path / "out")
    assert run["outcome"] == "done"
    # netem delays each direction by 10 ms, and HTB has 20 Mbit/s.
    assert rows["path.alpha.gamma", "rtt"][1] >= 20e6
    assert {flow["cc"] for flow in index["flows"] if flow["from"] == 0} == {cc}
    assert all(flow["tcp"]["min_rtt_ns"] >= 20_000_000 for flow in index["flows"] if flow["from"] == 0)
    queue = index["devices"][index["header"]["bottleneck"]]
    assert (queue["kind"], queue["rate_bps"]) == ("htb", 20_000_000)
    sent = sum(flow["counters"]["delivered_bytes"] for flow in index["flows"])
    assert 500_000 < sent < 1.1 * 20e6 / 8 * 4
    # netem dropped packets, which Linux has sent again.
    assert sum(flow["counters"]["retransmitted_packets"] for flow in index["flows"]) > 0
    settled(vms, before)


def test_oracles_judge_the_events_of_two_machines(vms: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = vms.tcpassay("run", plan(vms, tmp_path, oracles=True), "--out", out)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    index, _ = recording(out)
    assert index["files"]["events.parquet"]["rows"] > 500
    # They compare what one end has announced with what the other one sends, and need the handshake of the peer.
    oracles = {finding["oracle"] for finding in json.loads((out / "findings.json").read_text())["findings"]}
    assert not oracles & {"flow-control", "late-ack"}, oracles


def test_parameters_of_a_nic_are_honoured_recorded_and_restored(vms: Lab, tmp_path: Path) -> None:
    before = states(vms)
    more = '"sender/nic.rx_usecs" = "100us"\n"sender/nic.ring" = 512\n"receiver/nic.ring" = 512\n"nic.gro" = true'
    done = vms.tcpassay("run", plan(vms, tmp_path, more), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    _, rows = recording(tmp_path / "out")
    assert rows["test1.alpha", "rx_usecs"] == (100, 100)
    assert rows["test1.alpha", "rx_ring"] == (512, 512)
    assert rows["test1.gamma", "rx_ring"] == (512, 512)
    # vmxnet3 has no coalescing here.
    assert ("test1.gamma", "rx_usecs") not in rows
    # Runs switch LRO off; it is on again afterwards.
    assert "large-receive-offload: on" in before["gamma"]
    settled(vms, before)


def test_a_large_mtu_resets_nics_and_the_run_waits_for_their_carriers(vms: Lab, tmp_path: Path) -> None:
    before = states(vms)
    done = vms.tcpassay("run", plan(vms, tmp_path, '"stack.mtu" = "4000B"'), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    index, _ = recording(tmp_path / "out")
    assert {flow["mss_bytes"] for flow in index["flows"]} == {3948}
    settled(vms, before)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            '"sender/nic.rx_frames" = 32',
            "host `alpha` of the testbed: rx-frames of `test1`: 32: Operation not supported",
        ),
        (
            '"sender/nic.rx_usecs" = "20ms"',
            "host `alpha` of the testbed: rx-usecs of `test1`: 20000: Invalid argument",
        ),
        (
            '"sender/nic.adaptive" = "on"',
            "host `alpha` of the testbed: adaptive-rx of `test1`: 1: Operation not supported",
        ),
        ('"sender/nic.ring" = 8192', "ring rx of `test1`: 8192 is more than its maximum of 4096"),
        ('"sender/nic.ring" = 100', "`rx_ring` of `test1`: 100 was written and it is 104"),
        (
            '"receiver/nic.rx_usecs" = "50us"',
            "host `gamma` of the testbed: rx-usecs of `test1`: Operation not supported",
        ),
    ],
)
def test_what_a_nic_does_not_take_is_refused_before_anything_runs(
    vms: Lab, tmp_path: Path, setting: str, words: str
) -> None:
    before = states(vms)
    done = vms.tcpassay("run", plan(vms, tmp_path, setting), "--out", tmp_path / "out")
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in " ".join(done.stderr.split()), done.stderr
    assert not (tmp_path / "out").exists()
    settled(vms, before)


def started(lab: Lab, file: Path, out: Path) -> "subprocess.Popen[str]":
    """Starts the runs of a plan, and waits until gamma has its journal and its network namespaces."""
    process = lab.begin("run", file, "--out", out)

    def prepared() -> bool:
        assert process.poll() is None, process.communicate()
        return (
            lab.on("gamma", "test -s /var/lib/tcpassay/journal && ip -br link | grep -c test1; true").strip()
            != ""
        )

    until(prepared, "the run is prepared")
    return process


def test_a_loss_of_power_in_a_run_is_an_outcome_and_the_next_run_restores_the_host(
    vms: Lab, tmp_path: Path
) -> None:
    before = states(vms)
    file = vms.folder / "continue.toml"
    vms.write_file(file, on_failure="continue", reconnect_s=300, quiet_s=0)
    out = tmp_path / "out"
    more = '"stack.mtu" = "4000B"'
    process = started(vms, plan(vms, tmp_path, more, seeds="[1, 2]", file=str(file), duration="20s"), out)
    vms.qmp("gamma", "system_reset")
    said, _ = process.communicate()
    assert process.returncode == 1, said
    (first, why), (second, _) = sorted(
        ((run["outcome"], run["message"]) for run in result(out)["runs"]), key=str
    )
    assert (first, second) == ("crashed", "done"), said
    assert "host `gamma`" in why
    vms.wait("gamma")
    settled(vms, before)


def test_a_reboot_pauses_the_runs_and_the_command_restore_empties_the_journal(
    vms: Lab, tmp_path: Path
) -> None:
    before = states(vms)
    file = vms.folder / "pause.toml"
    vms.write_file(file, on_failure="pause", quiet_s=0)
    out = tmp_path / "out"
    process = started(vms, plan(vms, tmp_path, '"stack.mtu" = "4000B"', file=str(file), duration="20s"), out)
    vms.qmp("gamma", "system_reset")
    said, _ = process.communicate()
    assert process.returncode == 130, said
    assert result(out)["status"] == "paused"
    vms.wait("gamma")
    # The journal is on the disk, although the power was lost right after it was written.
    journal = json.loads(vms.on("gamma", "cat /var/lib/tcpassay/journal"))
    assert {"interface": "test1", "attribute": "mtu", "before": 1500, "written": 4000} in journal
    vms.on("gamma", "/home/lab/.cache/tcpassay/agent-* restore")
    assert vms.on("gamma", "ls -A /var/lib | grep tcpassay; true") == ""
    # The other hosts were restored when the connections ended.
    settled(vms, before)
    done = vms.tcpassay("run", "--resume", out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [run["outcome"] for run in result(out)["runs"]] == ["done"]
    settled(vms, before)


def test_a_cable_that_is_unplugged_is_named(vms: Lab, tmp_path: Path) -> None:
    before = states(vms)
    vms.qmp("gamma", "set_link", name="net1", up=False)
    try:
        done = vms.tcpassay("run", plan(vms, tmp_path), "--out", tmp_path / "out")
    finally:
        vms.qmp("gamma", "set_link", name="net1", up=True)
    assert done.returncode == 1, done.stdout + done.stderr
    (run,) = result(tmp_path / "out")["runs"]
    assert run["outcome"] == "failed"
    assert "host `gamma`: `test1` has had no carrier for 20 s" in run["message"]
    settled(vms, before)


def test_two_kernels_are_compared_by_two_results(vms: Lab, image: Image, tmp_path: Path) -> None:
    old, new = (kernel.release for kernel in image.kernels)
    file = plan(vms, tmp_path, seeds="[1, 2, 3]", duration="1s")
    try:
        for kernel, name in zip(image.kernels, ("old", "new"), strict=True):
            if kernel is not image.kernels[0]:
                vms.stop("alpha")
                vms.start("alpha", kernel)
                vms.wait("alpha")
            done = vms.tcpassay("run", file, "--out", tmp_path / name)
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"alpha: {kernel.release}, router: {old}" in json.dumps(
                result(tmp_path / name)["environment"]
            )
        done = vms.tcpassay("compare", tmp_path / "old", tmp_path / "new")
        assert done.returncode in {0, 1}, done.stderr
        assert f"alpha: {old}, router: {old}" in " ".join(done.stdout.split())
        assert f"alpha: {new}, router: {old}" in " ".join(done.stdout.split())
        assert "3 pairs of runs" in done.stdout
    finally:
        vms.stop("alpha")
        vms.start("alpha", image.kernels[0])
        vms.wait("alpha")


def test_a_machine_that_is_no_guest_is_an_error(vms: Lab) -> None:
    with pytest.raises(LabError):
        vms.on("alpha", "false")
