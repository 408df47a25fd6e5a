"""Runs one case in a guest: a User-Mode Linux in virtual time whose init is the agent.

The guest is a process of the user who runs it and needs no privilege. It is started in a scratch folder that holds a
link to the agent and the case, with a command line that never differs but for the seed (the kernel draws from it), and
leaves its answer there. Whatever else it does (panic, no end, no memory) is an outcome with the end of its console.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tcpassay.kernel import store
from tcpassay.scratch import folder as scratch_folder
from tcpassay.substrate.agent import agent_program, check_case, killed_outside, memory_kills, request
from tcpassay.substrate.base import Answer, Folder, Left, Triples

# The guest's clock at boot; the agent counts on it.
BOOT_NS: Final = 1_000_000_000_000_000_000
# Memory of the guest. TCP's buffers do not depend on it: the agent sets them.
MEMORY: Final = "512M"
# Wall time after which a guest is given up, when the request says nothing.
PATIENCE_S: Final = 600.0
# Bytes that a guest may write to its console.
_CONSOLE: Final = 1 << 18
# How much of a console is kept with an outcome.
LAST_WORDS: Final = 2000

_PANIC: Final = re.compile(r"Kernel panic - not syncing: (.*)")
# What a guest says when one of its processes, which are processes of this machine, is ended by a signal from here
# (arch/um/os-Linux/skas/process.c and mem.c, start_up.c): it is gone (ESRCH), or its status is SIGKILL or SIGTERM
# (3967 and 0xf7f: stopped by it) instead of a trap. A process that a fault of its own has stopped is still there, and
# its status names that fault. That its init was killed the guest says also of an init that ended by its own fault.
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
# A guest whose init runs ends with exit code 1 and no word more only for SIGTERM and SIGINT (arch/um/os-Linux/main.c,
# last_ditch_exit).
_BOOTED: Final = "as init process"
# How often the console of a running guest is looked at, in seconds: a guest that waits for a killed process never ends.
_LOOK_S: Final = 5.0
_SPLICE_F_NONBLOCK: Final = 2
_MEMORY: Final = re.compile(r"Out of memory|out_of_memory|page allocation failure")


def run_case(  # noqa: PLR0913 - the request of `_native.run_case`, and what bounds it
    *,
    triples: dict[str, Any],
    seed: int,
    base: str,
    collect: dict[str, Any],
    folder: str,
    kernel: str | None = None,
    patience_s: float = PATIENCE_S,
    tamper: list[tuple[str, str, str]] | None = None,
) -> dict[str, Any]:
    """Runs a case and writes its recording to `folder`; what goes wrong in it becomes its outcome.

    The answer has `outcome` (`done`, `refused`, `path`, `failed`, `crashed`, `timeout`, `memory`), `message`, `cpu_s`,
    and when it is done `trace` and `metrics`; `outside` when somebody else killed the guest, which says nothing of the
    case. `tamper` is for tests of the probes: namespaces, `ip` or `tc`, and a line that changes the path behind the
    agent's back.
    """
    image = store.find(kernel).image
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder() as place:
        (place / "init").symlink_to(agent_program())
        case = request(triples, seed, base, collect, folder)
        if tamper:
            case["tamper"] = tamper
        (place / "case.json").write_text(json.dumps(case), encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        starved = memory_kills()
        ended = boot(image, place, seed, patience_s)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer = outcome_of(place, ended, patience_s, starved=memory_kills() > starved)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if answer["outcome"] != "done":
        shutil.rmtree(folder, ignore_errors=True)
    return answer | {"cpu_s": cpu}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a guest ended."""

    console: str
    late: bool
    """It had to be ended."""
    code: int
    """Of its process; a signal is negative."""

    @property
    def outside(self) -> bool:
        """Whether somebody else ended the guest or one of its processes, so that what it answers means nothing."""
        asked_to_end = self.code == 1 and not _PANIC.search(self.console) and _BOOTED in self.console
        killed = killed_outside(self.code) or asked_to_end or _PROCESS_KILLED.search(self.console) is not None
        return killed and not self.late


def boot(image: Path, scratch: Path, seed: int, patience_s: float) -> Ended:
    """Starts the guest and waits for its end."""
    command = [
        # It ends with this process, which may be killed: nobody else knows of it.
        *("setpriv", "--pdeathsig", "KILL"),
        *("setarch", "-R", str(image)),
        *("root=none", "rootfstype=hostfs", "rw", "init=/proc/self/cwd/init", "con0=null,fd:1"),
        *(f"mem={MEMORY}", "time-travel=inf-cpu", f"time-travel-start={BOOT_NS}", "tt-read-cost=0"),
        f"rand-seed={seed}",
    ]
    # The tunable keeps a static glibc from registering what a guest must not; HOME is where UML puts its pid file.
    environment = {
        "HOME": str(scratch),
        "PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
    }
    # The console is a pipe that nobody reads before the end: reading would signal the guest that there is room, at an
    # instant of the machine's, and what interrupts a kernel is part of its randomness. Who writes more must wait.
    read, write = os.pipe()
    with contextlib.suppress(OSError):  # an ordinary user may have used up what there is; then it is less
        fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, _CONSOLE)
    with os.fdopen(read, "rb", buffering=0) as words:
        with os.fdopen(write, "wb", buffering=0) as console:
            guest = subprocess.Popen(  # noqa: S603 - an argument list of our own
                command,
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            code = _wait(guest, read, patience_s)
        finally:
            # The guest's processes are of its own session; none of them outlives it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
        os.set_blocking(read, False)
        said = (words.read(_CONSOLE) or b"").decode(errors="replace")
        return Ended(said, code is None, -signal.SIGKILL if code is None else code)


def _wait(guest: subprocess.Popen[bytes], console: int, patience_s: float) -> int | None:
    """The guest's exit code; that of a kill when one of its processes was killed; `None` when it takes too long."""
    ends = time.monotonic() + patience_s
    while (left := ends - time.monotonic()) > 0:
        try:
            return guest.wait(min(left, _LOOK_S))
        except subprocess.TimeoutExpired:
            if _PROCESS_KILLED.search(_peek(console)):
                return -signal.SIGKILL
    return None


def _peek(console: int) -> str:
    """What the pipe holds, which stays there: unlike a read, tee(2) tells the writer nothing."""
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as copy, os.fdopen(write, "wb", buffering=0):
        with contextlib.suppress(OSError):
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _CONSOLE)
        copied = ctypes.CDLL(None).tee(console, write, ctypes.c_size_t(_CONSOLE), _SPLICE_F_NONBLOCK)
        return (copy.read(_CONSOLE) or b"").decode(errors="replace") if copied > 0 else ""


def outcome_of(scratch: Path, ended: Ended, patience_s: float, *, starved: bool) -> dict[str, Any]:
    """What the guest left behind, as an outcome."""
    end = ended.console.strip()[-LAST_WORDS:]
    if ended.late:
        return {"outcome": "timeout", "message": f"the guest was ended after {patience_s:g} s\n{end}"}
    try:
        answer = json.loads((scratch / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        answer = None
    if answer is None and _MEMORY.search(ended.console):
        return {"outcome": "memory", "message": f"the guest ran out of its {MEMORY}\n{end}"}
    if ended.outside:
        if starved:
            return {"outcome": "memory", "message": "the system killed the guest, for want of memory"}
        how = f"somebody killed the guest or a process of it (exit code {ended.code})"
        return {"outcome": "crashed", "message": f"{how}\n{end}", "outside": True}
    if answer is None:
        panic = _PANIC.search(ended.console)
        how = f"the guest's kernel panicked: {panic[1]}" if panic else "the guest left no answer"
        return {"outcome": "crashed", "message": f"{how}\n{end}"}
    return _answered(answer, end)


def _answered(answer: dict[str, Any], end: str) -> dict[str, Any]:
    """The outcome that a guest's answer names."""
    if answer["ended"] in {"duration", "finished"}:
        return {
            "outcome": "done",
            "message": "",
            "trace": answer["trace"],
            "metrics": answer["metrics"]["values"],
        }
    if answer["ended"] == "refused":
        message = "; ".join(f"`{e['path']}`: {e['why']}" for e in answer["errors"])
        return {"outcome": "refused", "message": message}
    message = answer.get("message", "")
    if "panicked" in message:
        message += f"\n{end}"
    return {"outcome": "path" if answer["ended"] == "path" else "failed", "message": message}


class Kernel:
    """A Linux of its own for each case, in virtual time."""

    real_time = False

    def __init__(self, name: str | None) -> None:
        self._name = name

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """What the case sets beyond the defaults, as the agent reads it."""
        return check_case(dict(triples), base)

    def ready(self) -> None:
        """An agent and a kernel are needed."""
        agent_program()
        store.find(self._name)

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs a case in a guest, which has its own memory and ends with the request's `seconds`."""
        asked = {name: request[name] for name in ("triples", "base", "seed", "collect", "folder")}
        patience = request.get("seconds") or PATIENCE_S
        answer = run_case(**asked, kernel=self._name, patience_s=patience)
        answer["elsewhere_s"] = answer.pop("cpu_s")
        return answer, Folder(request["folder"]) if answer["outcome"] == "done" else None
