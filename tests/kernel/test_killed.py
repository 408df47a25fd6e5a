"""A guest that an unrelated process kills has no result: the run is repeated, and nothing is left behind."""

import json
import os
import shlex
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import patience

from tcpassay.errors import UserError
from tcpassay.kernel import store
from tcpassay.script import linux
from tcpassay.substrate import kernel as guest

if TYPE_CHECKING:
    from tcpassay.messages import Answer

pytestmark = pytest.mark.usefixtures("kernel")

# The process ends by a signal.
ENDLESS = {"link.rate": "1Gbit", "app.duration": "3000s"}


def guests(scratch: Path) -> list[int]:
    """Processes of guests whose scratch folder is below this one, the guest's own kernel first."""
    image = str(store.find().image)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            below = (entry / "cwd").readlink().is_relative_to(scratch)
            program = (entry / "exe").readlink().name
        except OSError:
            continue
        # In Linux 7 a process of a guest has a program of its own in memory, and no arguments.
        if below and (words[0].decode() == image or program.startswith("memfd:uml-userspace")):
            found.append(int(entry.name))
    return sorted(found)


@pytest.mark.parametrize(
    ("console", "outside"),
    [
        ("Core dump limits :\n\tsoft - 0\n\thard - NONE\n", True),
        ("Checking if /dev/shm is on tmpfs...OK\nChecking PROT_EXEC mmap in /dev/shm...OK\n", True),
        ("Checking environment variables for a tempdir...none found\n", True),
        ("[    0.000000] Linux version 6.1.192\n[    0.000000] Zone ranges:\n", True),
        ("Checking PROT_EXEC mmap in /dev/shm...Operation not permitted\n", False),
        ("[    0.000000] Linux version 6.1.192\nKernel panic - not syncing: no memory\n", False),
    ],
    ids=["limits", "checks", "folder", "kernel", "check-that-fails", "panic"],
)
def test_a_guest_that_was_asked_to_end_while_it_starts_did_not_fail_by_itself(
    console: str, *, outside: bool
) -> None:
    assert guest.Ended(console, late=False, code=1).outside == outside


@pytest.mark.parametrize(
    ("which", "number"),
    [(0, signal.SIGKILL), (0, signal.SIGTERM), (1, signal.SIGKILL)],
    ids=["guest-killed", "guest-asked-to-end", "its-init-killed"],
)
def test_a_guest_that_is_killed_is_an_outcome_from_outside_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, which: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answers: list[Answer] = []

    def case() -> None:
        nothing = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}
        answers.append(
            guest.run_case(
                triples=ENDLESS, seed=1, base=".", collect=nothing, folder=str(tmp_path / "recording")
            )
        )

    runner = threading.Thread(target=case)
    runner.start()
    # Its init is there when it has a process of its own after its kernel has left its pid file: what its kernel starts
    # before that only tries the machine, and a signal then ends what is not yet a guest.
    patience.until(
        lambda: (any(tmp_path.rglob("pid")) and len(guests(tmp_path)) > 1) or not runner.is_alive(),
        "a guest runs",
    )
    os.kill(guests(tmp_path)[which], number)
    runner.join()
    (answer,) = answers
    assert answer.outcome == "crashed"
    assert answer.outside
    assert answer.message.startswith("somebody killed the guest or a process of it (exit code ")
    assert guests(tmp_path) == []
    home = tmp_path / f"tcpassay-{os.getuid()}"
    assert [entry.name for entry in home.iterdir()] == [".lock"]
    assert not (tmp_path / "recording").exists()


# What guests printed whose processes were killed at drawn moments, and what one prints whose process has a fault.
KILLED = [
    "wait_stub_done : failed to wait for SIGTRAP, pid = 14330, n = 14330, errno = 25, status = 0x9",
    "wait_stub_done : failed to wait for SIGTRAP, pid = 14330, n = 14330, errno = 25, status = 0xf",
    "wait_stub_done : failed to wait for SIGTRAP, pid = 14330, n = 14330, errno = 25, status = 0xf7f",
    "userspace - child stopped with signal 15",
    "userspace - ptrace continue failed, op = 31, errno = 3",
    "userspace - PTRACE_GETREGS failed, errno = 3",
    "userspace - ptrace set regs failed, errno = 3",
    "Kernel panic - not syncing: do_syscall_stub : PTRACE_SETREGS failed, errno = 3",
    "start_userspace : expected SIGSTOP, got status = 9",
    "check_sysemu: expected SIGTRAP or (SIGTRAP | 0x80), got status = 9",
]
OWN_FAULT = [
    "wait_stub_done : failed to wait for SIGTRAP, pid = 14330, n = 14330, errno = 25, status = 0xb7f",
    "wait_stub_done : failed to wait for SIGTRAP, pid = 14330, n = 14330, errno = 3, status = 0xb7f",
    "wait_stub_done : failed to wait for SIGTRAP, pid = 14330, n = 14330, errno = 25, status = 0x97f",
    "handle_trap - failed to wait at end of syscall, errno = 3, status = 2943",
    "userspace - child stopped with signal 25",
    "Kernel panic - not syncing: do_syscall_stub : PTRACE_SETREGS failed, errno = 5",
]


def a_guest_that_says(tmp_path: Path, line: str, then: str) -> guest.Ended:
    image = tmp_path / "image"
    image.write_text(f"#!/bin/sh\necho {shlex.quote(line)}\n{then}\n", encoding="ascii")
    image.chmod(0o755)
    return guest.boot(image, tmp_path, 1, 600)


@pytest.mark.parametrize("line", KILLED)
def test_a_guest_is_ended_that_goes_on_without_a_process_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(guest, "_LOOK_S", 0.1)
    started = time.monotonic()
    ended = a_guest_that_says(tmp_path, line, "exec sleep 3600")
    assert ended.outside
    assert not ended.late
    assert ended.console == line + "\n"
    assert time.monotonic() - started < 500


@pytest.mark.parametrize("line", OWN_FAULT)
def test_a_process_of_a_guest_that_its_own_fault_stopped_was_not_killed_from_outside(
    tmp_path: Path, line: str
) -> None:
    assert not a_guest_that_says(tmp_path, line, "exit 0").outside


@pytest.mark.parametrize("said", ["failed", "finished"])
def test_an_answer_of_a_guest_with_a_killed_process_is_discarded(tmp_path: Path, said: str) -> None:
    answer = {"ended": said, "message": "ip: ", "trace": "1", "metrics": {"values": {}}}
    line = "userspace - ptrace continue failed, op = 31, errno = 3"
    ended = a_guest_that_says(tmp_path, line, f"echo {shlex.quote(json.dumps(answer))} >answer.json")
    outcome = guest.outcome_of(tmp_path, ended, 600, starved=False)
    assert outcome.outcome == "crashed"
    assert outcome.outside


def test_scripts_of_a_guest_that_somebody_kills_are_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    boot, killed = guest.boot, []

    def first_is_killed(image: Path, scratch: Path, seed: int, patience_s: float) -> guest.Ended:
        ended = boot(image, scratch, seed, patience_s)
        if len(killed) < 2:
            killed.append(scratch)
            return guest.Ended(ended.console, late=False, code=-signal.SIGKILL)
        return ended

    monkeypatch.setattr(guest, "boot", first_is_killed)
    asked = linux.request(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n",
        loose=False,
        options=[],
        limit_s=linux.VIRTUAL_LIMIT_S,
    )
    assert [report["status"] for report in linux.on_kernel([asked, asked])] == ["pass", "pass"]
    assert len(killed) == 2
    killed.clear()
    monkeypatch.setattr(guest, "boot", lambda *_: guest.Ended("Linux", late=False, code=-signal.SIGKILL))
    with pytest.raises(UserError, match="somebody killed the guest 3 times\nLinux"):
        linux.on_kernel([asked])
