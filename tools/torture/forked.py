"""Commands in children of this process, which have the modules of `tcpassay` already.

Starting an interpreter and importing the modules of a command takes half a second of CPU, more than most trials need
for anything else. A child is forked before threads compute (reading a result folder starts them), and then does
what `python -m tcpassay` does. Trials of the start of a command itself (`exact`) execute an interpreter instead.
"""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_PRELOADED = (
    "polars", "tcpassay.cli", "tcpassay.run.session", "tcpassay.run.execute", "tcpassay.run.show", "tcpassay.results",
    "tcpassay.report", "tcpassay.judge.folders", "tcpassay.compare", "tcpassay.run.replay", "tcpassay.plan.read",
    "tcpassay.recording", "numpy.ma", "pydantic.dataclasses", "email.parser", "importlib.readers",
)  # fmt: skip
_HARMLESS = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that importing polars starts: of its allocator, whose locks are valid in a child, and one that only waits."""
_STEP = 0.005


def preload(plan: str) -> None:
    """Imports what most commands need, and reads a plan: the first one builds the checks of its tables."""
    # As `tcpassay.__main__` does, for the threads of numpy; tables of eight runs are read faster by one thread, too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    for name in _PRELOADED:
        importlib.import_module(name)
    from tcpassay.cli.assemble import MODULES, assembled  # noqa: PLC0415

    assembled(MODULES)
    from tcpassay.plan.read import read  # noqa: PLC0415

    read(plan, Path("plan.toml"))
    tasks = {file.read_text(encoding="ascii").strip() for file in Path("/proc/self/task").glob("*/comm")}
    own = Path("/proc/self/comm").read_text(encoding="ascii").strip()
    if strange := tasks - _HARMLESS - {own}:
        raise AssertionError(
            f"threads {strange}; a child could wait for ever for a lock that one of them held"
        )


class Forked:
    """A command in a child, with the part of `subprocess.Popen` that trials need."""

    def __init__(
        self,
        arguments: list[str],
        cwd: Path,
        env: dict[str, str],
        preexec_fn: Callable[[], None] | None = None,
        stdout: IO[bytes] | int = subprocess.PIPE,
        stderr: IO[bytes] | int = subprocess.PIPE,
    ) -> None:
        self.args = ["tcpassay", *arguments]
        self.returncode: int | None = None
        pipes = {1: _pipe(stdout), 2: _pipe(stderr)}
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(arguments, cwd, env, preexec_fn, {number: ends[1] for number, ends in pipes.items()})
        self._readers = {number: ends[0] for number, ends in pipes.items() if ends[0] is not None}
        for reader, writer in pipes.values():
            if reader is not None:
                os.close(writer)

    def poll(self) -> int | None:
        """The exit code if the child has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal to a living child."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the child."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """What the child printed, after it has ended."""
        import selectors  # noqa: PLC0415

        ends = time.monotonic() + timeout
        said = {1: b"", 2: b""}
        with selectors.DefaultSelector() as selector:
            for number, reader in self._readers.items():
                selector.register(reader, selectors.EVENT_READ, number)
            while selector.get_map():
                if time.monotonic() > ends:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                for key, _ in selector.select(1.0):
                    chunk = os.read(key.fd, 1 << 16)
                    said[key.data] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
                        os.close(key.fd)
                        self._readers.pop(key.data)
        while self.poll() is None:
            if time.monotonic() > ends:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(_STEP)
        return said[1], said[2]


def _pipe(where: IO[bytes] | int) -> tuple[int | None, int]:
    if where == subprocess.PIPE:
        return os.pipe()
    return None, where if isinstance(where, int) else where.fileno()


def _become(
    arguments: list[str],
    cwd: Path,
    env: dict[str, str],
    prepare: Callable[[], None] | None,
    outputs: dict[int, int],
) -> None:
    """Does in the child what an interpreter with this command does, and ends it."""
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for number, handle in outputs.items():
            os.dup2(handle, number)
        os.closerange(3, 256)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["tcpassay", *arguments]
        sys.stdout = _stream(1)
        sys.stderr = _stream(2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if prepare is not None:
            prepare()
        from tcpassay import __main__, cli, guard  # noqa: PLC0415

        del __main__
        guard.prepare()
        guard.guarded(cli.main)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _stream(number: int) -> Any:
    return open(number, "w", encoding="utf-8", closefd=False)
