"""Hosts that fail: the outcome has the reason, the others are restored, and the runs go on or pause."""

import json
import os
import signal
from pathlib import Path

import pytest

import beds
import folders
import testbeds
from beds import LARGE, plan, start, tcpassay, until_running
from patience import until

LAST = "the connections end"
TWO = LARGE.replace("oracles", "seeds = [1, 2]\noracles")


def result(out: Path) -> dict[str, list[dict[str, object]]]:
    read: dict[str, list[dict[str, object]]] = folders.result(out)
    return read


def outcomes(out: Path) -> list[tuple[object, object]]:
    """The outcome of each run with its message."""
    return [(one["outcome"], one["message"]) for one in result(out)["runs"]]


def bed_file(testbed: testbeds.Testbed, **more: object) -> Path:
    """The testbed file with more settings."""
    file = testbed.folder / "failing.toml"
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    file.write_text(lines + testbed.file.read_text())
    return file


def test_a_host_that_reboots_pauses_the_runs_and_is_restored_when_they_are_resumed(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    file = bed_file(testbed, on_failure="pause")
    out = tmp_path / "out"
    with testbed.preparing("gamma"):
        process = start(testbed, plan(testbed, tmp_path, "1s", TWO.replace("FILE", file.stem)), out)
        until_running(testbed, process, len(beds.ROLES))
        testbed.crash("gamma")
    said, _ = process.communicate()
    testbed.boot("gamma")
    assert process.returncode == 130, said
    assert b"host `gamma`" in said, said
    assert result(out)["status"] == "paused"
    assert [outcome for outcome, _ in outcomes(out)] == ["not run", "not run"]
    # The journal outlived the crash; the other hosts are restored.
    assert testbed.call("gamma", "ls", "/var/lib/tcpassay") == "journal\n"
    until(lambda: not testbed.serving("alpha", "beta"), LAST)
    testbed.settled({name: before[name] for name in ("alpha", "beta")})
    done = tcpassay(testbed, "run", "--resume", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [outcome for outcome, _ in outcomes(out)] == ["done", "done"]
    testbed.settled(before)


def test_runs_go_on_after_a_failure_when_the_host_can_be_reached_again(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    file = bed_file(testbed, on_failure="continue", reconnect_s=300)
    out = tmp_path / "out"
    with testbed.preparing("gamma"):
        process = start(testbed, plan(testbed, tmp_path, "1s", TWO.replace("FILE", file.stem)), out)
        until_running(testbed, process, len(beds.ROLES))
        testbed.crash("gamma")
    testbed.boot("gamma")
    said, _ = process.communicate()
    assert process.returncode == 1, said
    (first, why), (second, _) = sorted(outcomes(out), key=str)
    assert (first, second) == ("crashed", "done")
    assert "host `gamma`" in str(why)
    testbed.settled(before)


def test_an_agent_that_dies_is_an_outcome_with_the_reason_and_later_runs_are_done(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    out = tmp_path / "out"
    with testbed.preparing("gamma"):
        process = start(testbed, plan(testbed, tmp_path, "1s", TWO), out)
        until_running(testbed, process, len(beds.ROLES))
        (agent,) = testbed.processes("beta").agents
        os.kill(agent, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 1, said
    (first, why), (second, _) = sorted(outcomes(out), key=str)
    assert (first, second) == ("crashed", "done")
    assert "host `beta`" in str(why)
    testbed.settled(before)


def test_a_full_disk_of_a_host_fails_the_run_with_the_reason(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    out = tmp_path / "out"
    testbed.call("gamma", "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/var/lib")
    try:
        testbed.call("gamma", "sh", "-c", "dd if=/dev/zero of=/var/lib/full bs=4k count=1 2>/dev/null")
        done = tcpassay(testbed, "run", str(plan(testbed, tmp_path, "1s", LARGE)), "--out", str(out))
    finally:
        testbed.call("gamma", "umount", "/var/lib")
    assert done.returncode == 1, done.stdout + done.stderr
    ((outcome, why),) = outcomes(out)
    assert outcome == "failed"
    assert "host `gamma`" in str(why)
    assert "No space left on device" in str(why)
    testbed.settled(before)


def test_an_agent_of_another_version_is_named_with_both_versions(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = testbed.states()
    said = '{"kind":"welcome","protocol":99,"version":"9.9","root":true,"release":"6.1","boot":""}'
    agent = testbed.folder / "agent"
    agent.write_text(f"#!/bin/sh\nprintf '\\{len(said):o}\\0\\0\\0\\0%s' '{said}'\ncat > /dev/null\n")
    agent.chmod(0o755)
    file = testbed.folder / "other.toml"
    file.write_text(
        testbed.file.read_text().replace('role = "receiver"', f'role = "receiver"\nagent = "{agent}"')
    )
    done = tcpassay(
        testbed, "run", str(plan(testbed, tmp_path, "1s", LARGE.replace("FILE", file.stem))), "--out", "o"
    )
    assert done.returncode == 2
    assert "host `gamma`: its agent speaks version 99 of the messages, and this is 4" in " ".join(
        done.stderr.split()
    )
    until(lambda: not testbed.serving(), LAST)
    testbed.settled(before)


def test_a_host_that_cannot_be_reached_is_named_before_anything_runs(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    testbed.crash("gamma")
    try:
        done = tcpassay(testbed, "run", str(plan(testbed, tmp_path, "1s")), "--out", str(tmp_path / "out"))
    finally:
        testbed.listen("gamma")
    assert done.returncode == 2
    assert "host `gamma`: ssh ended with exit code 255" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.fixture(autouse=True)
def _serving(testbed: testbeds.Testbed) -> None:
    """A test that fails does not leave a host without sshd."""
    if "gamma.sshd" not in testbed.holders:
        testbed.listen("gamma")


def test_a_lost_network_ends_the_run_and_the_host_is_restored(
    testbed: testbeds.Testbed, tmp_path: Path
) -> None:
    before = beds.states_after_a_check(testbed)
    process = start(testbed, plan(testbed, tmp_path, "300s", LARGE), tmp_path / "out")
    until_running(testbed, process, len(beds.ROLES))
    (agent,) = testbed.processes("gamma").agents
    testbed.call("control", "ip", "link", "set", "m4", "down")
    said, _ = process.communicate()
    assert process.returncode == 1
    assert b"gamma" in said, said
    # gamma has heard nothing for 30 s; the others have heard the end of the controller.
    until(lambda: agent not in testbed.serving(), "the agent of gamma ends")
    until(lambda: not testbed.serving(), "the agents end")
    until(lambda: "mtu 1500" in testbed.call("gamma", "ip", "link", "show", "eth1"), "gamma is restored")
    testbed.call("control", "ip", "link", "set", "m4", "up")
    testbed.settled(before)
    done = beds.tcpassay(testbed, "testbed", "check", str(testbed.file))
    assert done.returncode == 0, done.stdout + done.stderr
    testbed.settled(before)


@pytest.fixture(autouse=True)
def _connected(testbed: testbeds.Testbed) -> None:
    """A test that fails does not leave the testbed without its network."""
    testbed.call("control", "ip", "link", "set", "m4", "up")
