"""Runs requests on a few worker processes, within limits; a worker that dies costs its own request and no other.

Time is measured from the request to its answer, memory is what is resident of the process. Whoever goes beyond is
killed, and the request gets that as its answer.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

Request = dict[str, Any]
Answer = dict[str, Any]

# How much of what a dead worker said is looked at, and how much of its beginning and its end is kept.
MOST_WORDS = 1 << 20
LAST_WORDS = 1000
# What the interpreter is started with; the number of this process follows.
WORKER = ["-m", "tcpassay.run.worker"]
_LOOK: Final = 0.1
"""How often memory is looked at, in seconds."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# How Rust's allocator ends a process, and what glibc's says when a thread cannot be had.
_NO_MEMORY: Final = ("memory allocation of", "Cannot allocate memory", "MemoryError")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take."""

    seconds: float | None = None
    memory: int | None = None
    """Bytes."""


@dataclass(slots=True)
class Worker:
    """A process, what it said beside its answers, and the request that it is busy with."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    key: int | None = None
    since: float = 0.0
    said: int = 0
    """Where in `errors` the present request begins."""
    killed: int = 0
    """How often the kernel had killed for want of memory when the process began."""
    received: bytearray = field(default_factory=bytearray)

    @classmethod
    def start(cls) -> "Worker":
        """A fresh process, waiting."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
            [sys.executable, *WORKER, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            # The processes are one a core already.
            env=os.environ | {"POLARS_MAX_THREADS": "1"},
        )
        return cls(process, errors, killed=_oom_kills())

    def ask(self, key: int, request: Request) -> None:
        """Hands a request over."""
        self.key, self.since = key, time.monotonic()
        self.said = self.errors.seek(0, 2)
        self.received.clear()
        if self.process.stdin is None:
            raise RuntimeError("a worker is started with its input piped")
        # A worker that has just died is found by the end of its output.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def read(self) -> Answer | None:
        """What has arrived: an answer, the death of the process as an answer, or nothing yet."""
        if self.process.stdout is None:
            raise RuntimeError("a worker is started with its output piped")
        chunk = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
        if not chunk:
            return self._death()
        self.received += chunk
        if not self.received.endswith(b"\n"):
            return None
        answer: Answer = json.loads(self.received)
        return answer

    def _death(self) -> Answer:
        """The answer for a request whose process ended; `outside` when somebody else ended it."""
        code = self.process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = self.last_words()
        message = f"the process running it ended with {how}\n{_shortened(words)}".strip()
        starved = any(sign in words for sign in _NO_MEMORY)
        if code == -signal.SIGKILL and _oom_kills() > self.killed:
            starved, message = True, "the system killed the process running it, for want of memory"
        outside = not starved and -code in {signal.SIGKILL, signal.SIGTERM}
        return {"outcome": "memory" if starved else "crashed", "message": message, "outside": outside}

    def over(self, limits: Limits, *, weigh: bool) -> Answer | None:
        """The answer for a request that went beyond a limit, after its process has been killed."""
        answer = None
        if limits.seconds is not None and time.monotonic() - self.since > limits.seconds:
            answer = {"outcome": "timeout", "message": f"it ran longer than {limits.seconds:g} s"}
        elif weigh and limits.memory is not None and (used := self._resident()) > limits.memory:
            said = f"it took {used / 2**20:.0f} MiB; allowed are {limits.memory / 2**20:.0f} MiB"
            answer = {"outcome": "memory", "message": said}
        if answer:
            self.process.kill()
            self.process.wait()
        return answer

    def _resident(self) -> int:
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
        except OSError:  # it has just died
            return 0

    def last_words(self) -> str:
        """What the process wrote to standard error since the request, as far as it fits."""
        self.errors.seek(self.said)
        return self.errors.read(MOST_WORDS).decode(errors="replace").strip()

    def stop(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Pool:
    """Worker processes on this machine."""

    def __init__(self, jobs: int, limits: Limits) -> None:
        self._jobs = jobs
        self._limits = limits
        self._workers: list[Worker] = []
        self._weighed = 0.0
        """When memory was last looked at."""
        self._selector = selectors.DefaultSelector()

    def run(self, requests: Iterable[Request]) -> Generator[tuple[int, Answer]]:
        """Runs every request, and yields its index and its answer as they come.

        Requests are taken when a process is free for them. The processes end with the generator, also when an interrupt
        closes it.
        """
        waiting = enumerate(requests)
        try:
            for _ in range(self._jobs):
                if not self._give(None, waiting):
                    break
            while self._workers and any(worker.key is not None for worker in self._workers):
                for worker, key, answer in list(self._answers()):
                    # The process first, so that it need not wait for what is done with the answer.
                    if worker.process.poll() is None:
                        self._give(worker, waiting)
                    else:
                        self._bury(worker)
                        self._give(None, waiting)
                    yield key, answer
        finally:
            for worker in self._workers:
                worker.stop()
            self._selector.close()

    def _give(self, worker: Worker | None, waiting: Iterator[tuple[int, Request]]) -> bool:
        following = next(waiting, None)
        if following is None:
            return False
        if worker is None:
            worker = Worker.start()
            self._workers.append(worker)
            self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        worker.ask(*following)
        return True

    def _bury(self, worker: Worker) -> None:
        self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        self._workers.remove(worker)
        worker.stop()

    def _answers(self) -> Iterator[tuple[Worker, int, Answer]]:
        """Waits for something to happen, and yields what requests came to."""
        for ready, _ in self._selector.select(self._patience()):
            worker: Worker = ready.data
            answer = worker.read()
            if answer is not None and worker.key is not None:
                key, worker.key = worker.key, None
                yield worker, key, answer
        weigh = time.monotonic() - self._weighed > _LOOK
        if weigh:
            self._weighed = time.monotonic()
        for worker in self._workers:
            if worker.key is not None and (answer := worker.over(self._limits, weigh=weigh)) is not None:
                key, worker.key = worker.key, None
                yield worker, key, answer

    def _patience(self) -> float | None:
        """How long nothing needs to be looked at."""
        if self._limits.memory is not None:
            return _LOOK
        if self._limits.seconds is None:
            return None
        busy = [worker.since for worker in self._workers if worker.key is not None]
        return max(0.0, min(busy) + self._limits.seconds - time.monotonic()) + 0.001


class Single:
    """One worker process that is asked again and again; for executors that have their own way to wait."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._worker: Worker | None = None

    def ask(self, request: Request) -> Answer:
        """The answer, however the request ends."""
        if self._worker is None or self._worker.process.poll() is not None:
            self.stop()
            self._worker = Worker.start()
        worker = self._worker
        worker.ask(0, request)
        with selectors.DefaultSelector() as selector:
            selector.register(worker.process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            while True:
                answer = worker.read() if selector.select(_LOOK) else worker.over(self._limits, weigh=True)
                if answer is not None:
                    return answer

    def stop(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def _shortened(words: str) -> str:
    """The beginning, which says what happened, and the end; between them may be a long backtrace."""
    if len(words) <= 2 * LAST_WORDS:
        return words
    return f"{words[:LAST_WORDS]}\n[...]\n{words[-LAST_WORDS:]}"


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
