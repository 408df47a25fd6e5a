"""Ends guests whose runner was killed.

The processes of a User-Mode Linux do not end reliably with the process that started it. A parent-death signal reaches
only the first of them, and only if it was requested before the parent's death; the others, which the first traces, may
stay stopped for ever. Therefore each runner has a guard, a process in a session of its own. The runner tells the guard
the process group of each guest before the guest begins. When the runner ends for any reason, the guard's input ends,
and the guard kills the groups that remain.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

# The guard starts without the site packages, in about ten milliseconds.
_GUARD: Final = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    change, group = line.split()
    (groups.add if change == "+" else groups.discard)(int(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""

# The program begins after a line on its standard input, which its runner writes when the guard knows the group.
_WAIT: Final = ("sh", "-c", 'read -r begin && exec "$@" </dev/null', "sh")

# Descriptor of the guard's input by process, because a forked process needs a guard of its own.
_guards: dict[int, int] = {}
_lock = threading.Lock()


def _tell(line: str) -> None:
    """Sends a line to the guard of this process. The guard is started at the first use, and again if it was killed."""
    own = os.getpid()
    with _lock:
        if own in _guards:
            with suppress(BrokenPipeError):
                os.write(_guards[own], line.encode())
                return
            os.close(_guards[own])
        read, _guards[own] = os.pipe()
        guard = subprocess.Popen(  # noqa: S603 - an argument list of our own
            [sys.executable, "-I", "-S", "-c", _GUARD],
            cwd="/",
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        guard.returncode = 0  # no process waits for a guard: it ends after this process
        os.write(_guards[own], line.encode())
        os.close(read)


@contextmanager
def guarded(
    command: Sequence[str], cwd: Path, environment: dict[str, str], output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a program in a session of its own, which ends at the end of the block or of this process.

    `output` is the program's standard output and error.
    """
    read, begin = os.pipe()
    try:
        program = subprocess.Popen(  # noqa: S603 - an argument list of our own
            [*_WAIT, *command],
            cwd=cwd,
            env=environment,
            stdin=read,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _tell(f"+ {program.pid}\n")
            os.write(begin, b"begin\n")
            yield program
        finally:
            # The group exists until the program is waited for, or longer if one of its processes remains.
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            _tell(f"- {program.pid}\n")
    finally:
        os.close(read)
        os.close(begin)
