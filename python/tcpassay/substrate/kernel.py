"""Runs a case in a guest: a User-Mode Linux in virtual time with the agent as init.

The guest is a process of the user and needs no privileges. It starts in a temporary folder with a link to the agent and
the case, and writes its answer there. Its command line is constant except for the seed, because the kernel mixes it
into its random numbers. A panic, a timeout or memory exhaustion becomes an outcome with the end of its console output.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.finding import Finding, Severity
from tcpassay.gcov.catalogue import Catalogue
from tcpassay.gcov.counters import reached
from tcpassay.kernel import store
from tcpassay.kernel.splats import ORACLE, Splat, splats
from tcpassay.messages import Answer, CaseRequest, Collect, Outcome, Triples
from tcpassay.scratch import folder as scratch_folder
from tcpassay.substrate.agent import (
    PATIENCE_S,
    ChildUsage,
    agent_program,
    answer_of,
    check_case,
    killed_outside,
    request,
    run_request,
)
from tcpassay.substrate.base import RunArtifacts
from tcpassay.substrate.guard import guarded

# The guest's clock at boot; the agent uses the same value.
BOOT_NS: Final = 1_000_000_000_000_000_000
# Memory of the guest. TCP's buffers do not depend on it, because the agent sets them.
MEMORY: Final = "512M"
# The same of a guest with racks or the topology of a file: each host has rings for its taps, and buffers.
LARGE_MEMORY: Final = "3G"
# Maximum console output of a guest in bytes.
_CONSOLE: Final = 1 << 18
# Length of the console output that is stored with an outcome.
LAST_WORDS: Final = 2000

_PANIC: Final = re.compile(r"(?:(?P<place>BUG: failure at .*)!\n.*)?Kernel panic - not syncing: (?P<why>.*)")
"""The reason of a panic; that of `BUG()` is only "BUG!", the line before it has the place."""
# Console messages if a process of the guest, which is a process of this machine, was ended by a signal from this
# machine (arch/um/os-Linux/skas/process.c, mem.c, start_up.c): the process does not exist (ESRCH), or its status is
# SIGKILL or SIGTERM (3967 and 0xf7f: stopped by it) instead of a trap. A process that failed by itself still exists,
# and its status shows the fault. The message that init was killed also appears for an init that failed by itself.
_PROCESS_KILLED: Final = re.compile(
    r"(?i:ptrace)[ _].*failed, (?:op = \d+, |pid = \d+, )?errno = 3$"
    r"|Failed to continue (?:stub|new process), pid = \d+, errno = 3$"
    r"|handle_trap - (?:nullifying|continuing to end of) syscall failed, errno = 3$"
    r"|handle_trap - failed to wait at end of syscall, errno = \d+, status = (?:9|15|3967)$"
    r"|_fp_registers (?:failed, errno = 3|failed, pid = \d+, err = -3|returned -3)$"
    r"|wait_stub_done : failed to wait for SIGTRAP, .*(?:status = 0x(?:9|f|f7f)|n = -1, errno = 10, .*)$"
    r"|wait_stub_done : continue failed, errno = 3$"
    r"|userspace - child stopped with signal 15$"
    r"|(?:check_ptrace|check_sysemu|start_userspace) ?: expected .*got status = (?:9|15|3967)$",
    re.MULTILINE,
)
# A guest whose kernel has begun ends with exit code 1 and without a panic only after SIGTERM and SIGINT
# (arch/um/os-Linux/main.c, last_ditch_exit). What fails before (start_up.c) says so in its last line.
_BEGUN: Final = "Linux version "
_STARTING: Final = re.compile(r"(?:Core dump limits :|(?:soft|hard) - \w+|\.\.\.(?:OK|none found))\s*\Z")
# Interval of checks of a running guest's console in seconds; a guest that waits for a killed process never ends.
_LOOK_S: Final = 5.0
_SPLICE_F_NONBLOCK: Final = 2
# The file beside the case to which a kernel with counters writes them at the end (patches/coverage).
_COUNTERS: Final = "gcov"
_MEMORY: Final = re.compile(r"Out of memory|out_of_memory|page allocation failure")


def run_case(  # noqa: PLR0913 - the request of `_native.run_case`, and what bounds it
    *,
    triples: Triples,
    seed: int,
    base: str,
    collect: Collect,
    folder: str,
    kernel: str | None = None,
    patience_s: float = PATIENCE_S,
    tamper: list[tuple[str, str, str]] | None = None,
) -> Answer:
    """Runs a case and writes its recording to `folder`; errors become the outcome.

    `tamper` is for tests of the path probes: namespaces, `ip` or `tc`, and a command that changes the path without the
    agent.
    """
    chosen = store.find(kernel)
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder() as place:
        (place / "init").symlink_to(agent_program())
        case = request(triples, seed, base, collect, folder)
        if tamper:
            case["tamper"] = tamper
        (place / "case.json").write_text(json.dumps(case), encoding="utf-8")
        usage = ChildUsage()
        memory = memory_of(triples)
        ended = boot(chosen.image, place, seed, patience_s, memory)
        answer = outcome_of(place, ended, patience_s, starved=usage.starved(), memory=memory)
        if answer.outcome == Outcome.DONE:
            answer = replace(answer, covered=covered(chosen, place))
        cpu_s = usage.cpu_s()
    if answer.outcome != Outcome.DONE:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(answer, cpu_s=cpu_s)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a guest ended."""

    console: str
    late: bool
    """It was stopped because of the time limit."""
    code: int
    """Exit code of its process; a signal is negative."""

    @property
    def outside(self) -> bool:
        """Whether an unrelated process ended the guest or one of its processes, so that its answer is invalid."""
        begun = _BEGUN in self.console or _STARTING.search(self.console) is not None
        asked_to_end = self.code == 1 and not _PANIC.search(self.console) and begun
        killed = killed_outside(self.code) or asked_to_end or _PROCESS_KILLED.search(self.console) is not None
        return killed and not self.late


def covered(kernel: store.Kernel, scratch: Path) -> str:
    """The kernel code that the guest of a scratch folder reached; empty for a kernel without counters."""
    if kernel.notes is None:
        return ""
    catalogue = catalogue_of(kernel.notes)
    try:
        written = (scratch / _COUNTERS).read_bytes()
    except OSError:
        raise UserError("the guest left no counters of its coverage") from None
    return catalogue.encode(reached(catalogue, kernel.notes, written))


@cache
def catalogue_of(notes: Path) -> Catalogue:
    """The catalogue of the kernel's counters."""
    return Catalogue.read(notes / store.CATALOGUE)


def memory_of(triples: Triples) -> str:
    """The memory of the guest of a case. The guest takes only what it uses from the machine."""
    shape = str(triples.get("topology", ""))
    return LARGE_MEMORY if shape.startswith(("racks:", "file:")) else MEMORY


def boot(image: Path, scratch: Path, seed: int, patience_s: float, memory: str = MEMORY) -> Ended:
    """Starts the guest and waits for its end."""
    command = [
        *("setarch", "-R", str(image)),
        *("root=none", "rootfstype=hostfs", "rw", "init=/proc/self/cwd/init", "con0=null,fd:1"),
        *(f"mem={memory}", "time-travel=inf-cpu", f"time-travel-start={BOOT_NS}", "tt-read-cost=0"),
        f"rand-seed={seed}",
    ]
    # The tunable prevents a static glibc from registering restartable sequences, which a guest does not support; UML
    # writes its pid file to HOME.
    environment = {
        "HOME": str(scratch),
        "PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
    }
    # The console is a pipe that is read only after the end. Reading it earlier would send a signal to the guest at a
    # random time, which would change the kernel's random numbers. A guest with more output than the pipe holds
    # blocks.
    read, write = os.pipe()
    with contextlib.suppress(OSError):  # an ordinary user may have reached the limit of pipe sizes
        fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, _CONSOLE)
    with os.fdopen(read, "rb", buffering=0) as words:
        with (
            os.fdopen(write, "wb", buffering=0) as console,
            guarded(command, scratch, environment, console) as guest,
        ):
            code = _wait(guest, read, patience_s)
        os.set_blocking(read, False)
        said = (words.read(_CONSOLE) or b"").decode(errors="replace")
        return Ended(said, code is None, -signal.SIGKILL if code is None else code)


def _wait(guest: subprocess.Popen[bytes], console: int, patience_s: float) -> int | None:
    """The exit code of the guest, or that of a kill if one of its processes was killed; `None` at the time limit."""
    ends = time.monotonic() + patience_s
    while (left := ends - time.monotonic()) > 0:
        try:
            return guest.wait(min(left, _LOOK_S))
        except subprocess.TimeoutExpired:
            if _PROCESS_KILLED.search(_peek(console)):
                return -signal.SIGKILL
    return None


def _peek(console: int) -> str:
    """The content of the pipe, which is not consumed: unlike a read, tee(2) does not signal the writer."""
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as copy, os.fdopen(write, "wb", buffering=0):
        with contextlib.suppress(OSError):
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _CONSOLE)
        copied = ctypes.CDLL(None).tee(console, write, ctypes.c_size_t(_CONSOLE), _SPLICE_F_NONBLOCK)
        return (copy.read(_CONSOLE) or b"").decode(errors="replace") if copied > 0 else ""


def outcome_of(
    scratch: Path, ended: Ended, patience_s: float, *, starved: bool, memory: str = MEMORY
) -> Answer:
    """The answer of the guest, or how it ended without one."""
    end = ended.console.strip()[-LAST_WORDS:]
    if ended.late:
        return Answer("timeout", f"the guest was ended after {patience_s:g} s\n{end}")
    try:
        answer = answer_of((scratch / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        answer = None
    if answer is None and _MEMORY.search(ended.console):
        return Answer("memory", f"the guest ran out of its {memory}\n{end}")
    if ended.outside:
        if starved:
            return Answer("memory", "the system killed the guest, for want of memory")
        how = f"somebody killed the guest or a process of it (exit code {ended.code})"
        return Answer("crashed", f"{how}\n{end}", outside=True)
    if answer is None:
        how = "the guest left no answer"
        if panic := _PANIC.search(ended.console):
            how = f"the guest's kernel panicked: {panic['place'] or panic['why']}"
        return Answer("crashed", f"{how}\n{end}")
    answer = replace(answer, findings=[_finding(one) for one in splats(ended.console)])
    return replace(answer, message=f"{answer.message}\n{end}") if "panicked" in answer.message else answer


def _finding(splat: Splat) -> Finding:
    """A report of the kernel's checkers as a finding; the console has no virtual times."""
    title = f"the kernel reports {splat.title}"
    return Finding(ORACLE, Severity.ERROR, title, "kernel", "", 0, 0, 1, splat.text, (), ())


class Kernel:
    """A separate Linux for each case, in virtual time."""

    real_time = False

    def __init__(self, name: str | None) -> None:
        self._name = name

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults, according to the agent."""
        return check_case(triples, base)

    def ready(self) -> None:
        """Requires an agent and a kernel."""
        agent_program()
        store.find(self._name)

    def run(self, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
        """Runs a case in a guest, which has its own memory, with the time limit `seconds` of the request."""
        return run_request(partial(run_case, kernel=self._name), request)
