"""Hosts that fail: the outcome has the reason, the others are restored, and the runs go on or pause."""

import json
import os
import signal
from pathlib import Path

import pytest

import beds
import labs
from beds import LARGE, plan, start, tcpassay, until_running
from patience import until

LAST = "the connections end"
TWO = LARGE.replace("oracles", "seeds = [1, 2]\noracles")


def result(out: Path) -> dict[str, list[dict[str, object]]]:
    read: dict[str, list[dict[str, object]]] = json.loads((out / "result.json").read_text())
    return read


def outcomes(out: Path) -> list[tuple[object, object]]:
    """The outcome of each run with its message."""
    return [(one["outcome"], one["message"]) for one in result(out)["runs"]]


def bed_file(lab: labs.Lab, **more: object) -> Path:
    """The testbed file of the lab with more settings."""
    file = lab.folder / "failing.toml"
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    file.write_text(lines + lab.file.read_text())
    return file


def test_a_host_that_reboots_pauses_the_runs_and_is_restored_when_they_are_resumed(
    lab: labs.Lab, tmp_path: Path
) -> None:
    before = lab.states()
    file = bed_file(lab, on_failure="pause")
    out = tmp_path / "out"
    process = start(lab, plan(lab, tmp_path, "1s", TWO.replace("FILE", str(file))), out)
    until_running(lab, process, len(beds.ROLES))
    lab.crash("gamma")
    said, _ = process.communicate()
    lab.boot("gamma")
    assert process.returncode == 130, said
    assert b"host `gamma`" in said, said
    assert result(out)["status"] == "paused"
    assert [outcome for outcome, _ in outcomes(out)] == ["not run", "not run"]
    # The journal outlived the crash; the other hosts are restored.
    assert lab.call("gamma", "ls", "/var/lib/tcpassay") == "journal\n"
    until(lambda: not lab.serving("alpha", "beta"), LAST)
    lab.settled({name: before[name] for name in ("alpha", "beta")})
    done = tcpassay(lab, "run", "--resume", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [outcome for outcome, _ in outcomes(out)] == ["done", "done"]
    lab.settled(before)


def test_runs_go_on_after_a_failure_when_the_host_can_be_reached_again(lab: labs.Lab, tmp_path: Path) -> None:
    before = lab.states()
    file = bed_file(lab, on_failure="continue", reconnect_s=300)
    out = tmp_path / "out"
    process = start(lab, plan(lab, tmp_path, "1s", TWO.replace("FILE", str(file))), out)
    until_running(lab, process, len(beds.ROLES))
    lab.crash("gamma")
    lab.boot("gamma")
    said, _ = process.communicate()
    assert process.returncode == 1, said
    (first, why), (second, _) = sorted(outcomes(out), key=str)
    assert (first, second) == ("crashed", "done")
    assert "host `gamma`" in str(why)
    lab.settled(before)


def test_an_agent_that_dies_is_an_outcome_with_the_reason_and_later_runs_are_done(
    lab: labs.Lab, tmp_path: Path
) -> None:
    before = lab.states()
    out = tmp_path / "out"
    process = start(lab, plan(lab, tmp_path, "1s", TWO), out)
    until_running(lab, process, len(beds.ROLES))
    (agent,) = lab.processes("beta").agents
    os.kill(agent, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 1, said
    (first, why), (second, _) = sorted(outcomes(out), key=str)
    assert (first, second) == ("crashed", "done")
    assert "host `beta`" in str(why)
    lab.settled(before)


def test_a_full_disk_of_a_host_fails_the_run_with_the_reason(lab: labs.Lab, tmp_path: Path) -> None:
    before = lab.states()
    out = tmp_path / "out"
    lab.call("gamma", "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/var/lib")
    try:
        lab.call("gamma", "sh", "-c", "dd if=/dev/zero of=/var/lib/full bs=4k count=1 2>/dev/null")
        done = tcpassay(lab, "run", str(plan(lab, tmp_path, "1s", LARGE)), "--out", str(out))
    finally:
        lab.call("gamma", "umount", "/var/lib")
    assert done.returncode == 1, done.stdout + done.stderr
    ((outcome, why),) = outcomes(out)
    assert outcome == "failed"
    assert "host `gamma`" in str(why)
    assert "No space left on device" in str(why)
    lab.settled(before)


def test_an_agent_of_another_version_is_named_with_both_versions(lab: labs.Lab, tmp_path: Path) -> None:
    before = lab.states()
    said = '{"kind":"welcome","protocol":99,"version":"9.9","root":true,"release":"6.1"}'
    agent = lab.folder / "agent"
    agent.write_text(f"#!/bin/sh\nprintf '\\{len(said):o}\\0\\0\\0\\0%s' '{said}'\ncat > /dev/null\n")
    agent.chmod(0o755)
    file = lab.folder / "other.toml"
    file.write_text(
        lab.file.read_text().replace('role = "receiver"', f'role = "receiver"\nagent = "{agent}"')
    )
    done = tcpassay(
        lab, "run", str(plan(lab, tmp_path, "1s", LARGE.replace("FILE", str(file)))), "--out", "o"
    )
    assert done.returncode == 2
    assert "host `gamma`: its agent speaks version 99 of the messages, and this is 3" in " ".join(
        done.stderr.split()
    )
    until(lambda: not lab.serving(), LAST)
    lab.settled(before)


def test_a_host_that_cannot_be_reached_is_named_before_anything_runs(lab: labs.Lab, tmp_path: Path) -> None:
    lab.crash("gamma")
    try:
        done = tcpassay(lab, "run", str(plan(lab, tmp_path, "1s")), "--out", str(tmp_path / "out"))
    finally:
        lab.listen("gamma")
    assert done.returncode == 2
    assert "host `gamma`: ssh ended with exit code 255" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.fixture(autouse=True)
def _serving(lab: labs.Lab) -> None:
    """A test that fails does not leave a host without sshd."""
    if "gamma.sshd" not in lab.holders:
        lab.listen("gamma")


def test_a_lost_network_ends_the_run_and_the_host_is_restored(lab: labs.Lab, tmp_path: Path) -> None:
    before = beds.states_after_a_check(lab)
    process = start(lab, plan(lab, tmp_path, "300s", LARGE), tmp_path / "out")
    until_running(lab, process, len(beds.ROLES))
    (agent,) = lab.processes("gamma").agents
    lab.call("control", "ip", "link", "set", "m4", "down")
    said, _ = process.communicate()
    assert process.returncode == 1
    assert b"gamma" in said, said
    # gamma has heard nothing for 30 s; the others have heard the end of the controller.
    until(lambda: agent not in lab.serving(), "the agent of gamma ends")
    until(lambda: not lab.serving(), "the agents end")
    until(lambda: "mtu 1500" in lab.call("gamma", "ip", "link", "show", "eth1"), "gamma is restored")
    lab.call("control", "ip", "link", "set", "m4", "up")
    lab.settled(before)
    done = beds.tcpassay(lab, "testbed", "check", str(lab.file))
    assert done.returncode == 0, done.stdout + done.stderr
    lab.settled(before)


@pytest.fixture(autouse=True)
def _connected(lab: labs.Lab) -> None:
    """A test that fails does not leave the lab without its network."""
    lab.call("control", "ip", "link", "set", "m4", "up")
