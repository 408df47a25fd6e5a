"""Runs requests on worker processes with limits. A worker that dies affects only its own request.

Time is measured from the moment when a request is the first of its process to its answer; memory is the resident size
of the process. A process that exceeds a limit is killed, and its request receives the corresponding answer.

For short requests, each process has further requests in its pipe, so that it need not wait until its answer has been
processed, and several answers are processed together: waking this process between two requests costs more than the
processing. Long requests are assigned when a process is free, so that the last ones do not wait for each other.
"""

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile  # noqa: TID251 - a file without a name ends with its process
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tcpassay.messages import Answer, CaseRequest
from tcpassay.run import message
from tcpassay.run.message import Request
from tcpassay.run.worker import MEMORY

# Limits on the evaluated output of a dead worker, and on the parts of its beginning and end that are stored.
MOST_WORDS = 1 << 20
LAST_WORDS = 1000
# Additional time of a request with its own limit (`seconds`) to report how it ended.
GRACE = 10.0
# Arguments of the interpreter; the id of this process follows. With `-P` a file such as `types.py` in the working
# folder does not replace a module of the standard library.
WORKER = ["-P", "-m", "tcpassay.run.worker"]
_LOOK: Final = 0.1
"""Interval of memory checks in seconds."""
_SHORT: Final = 1.0
"""In seconds: a process whose last request was shorter receives the next one in advance."""
_AHEAD: Final = 0.5
"""Seconds of work that a process receives in advance if its requests are short."""
_MOST_AHEAD: Final = 12
"""Maximum number of requests in advance: the next ones may be long, and another process may be free for them."""
_AHEAD_BYTES: Final = 1 << 14
"""Size limit of requests in advance: they must fit the pipe; otherwise both processes could wait for each other."""
_PAUSE: Final = 0.2
"""Maximum time in seconds that answers may wait while every process has further requests."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# Messages of Rust's allocator when it ends a process, and of glibc when a thread cannot be created.
_NO_MEMORY: Final = ("memory allocation of", "Cannot allocate memory", "MemoryError")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a request."""

    seconds: float | None = None
    memory: int | None = None
    """In bytes."""


@dataclass(slots=True)
class Worker:
    """A process, its output besides answers, and its requests."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    queue: deque[tuple[int, Request]] = field(default_factory=deque)
    """The first one is in progress."""
    since: float = 0.0
    """The time at which the first one started."""
    said: int = 0
    """Start of its output in `errors`."""
    pace: float = math.inf
    """Recent duration of a request in seconds."""
    sizes: deque[int] = field(default_factory=deque)
    """Size of each request in the queue in bytes."""
    killed: int = 0
    """The kernel's count of out-of-memory kills when the process started."""
    received: bytearray = field(default_factory=bytearray)
    held: bytes = b""
    """The rest of a request that did not fit in the pipe."""
    ended: bool = False
    """Whether it is known to be dead."""

    @classmethod
    def start(cls) -> "Worker":
        """Starts a process."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
            [sys.executable, *WORKER, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env=MEMORY | os.environ | {"POLARS_MAX_THREADS": "1"},  # there is one process per core already
        )
        return cls(process, errors, killed=_oom_kills())

    def ask(self, key: int, request: Request) -> None:
        """Assigns a request."""
        packed = message.pack(request)
        if not self.queue:
            self._first(self.errors.seek(0, 2))
            self._write(packed)
        elif len(packed) + self._ahead() > _AHEAD_BYTES:
            self.held = packed
        else:
            self._write(packed)
        self.queue.append((key, request))
        self.sizes.append(len(packed))

    @property
    def grace(self) -> float:
        """Seconds beyond the limit in which the process may end its child processes."""
        first = self.queue[0][1] if self.queue else None
        return GRACE if isinstance(first, CaseRequest) and first.seconds else 0.0

    def _write(self, packed: bytes) -> None:
        if self.process.stdin is None:
            raise RuntimeError("a worker is started with its input piped")
        # The death of a worker is detected by the end of its output.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(packed)
            self.process.stdin.flush()

    def _first(self, said: int) -> None:
        self.since, self.said = time.monotonic(), said
        if self.held:
            self._write(self.held)
            self.held = b""

    def hungry(self) -> bool:
        """Whether it can receive another request."""
        if not self.queue:
            return True
        if self.held or self.pace > _SHORT:
            return False
        return len(self.queue) <= max(1, min(_MOST_AHEAD, int(_AHEAD / max(self.pace, 1e-6))))

    @property
    def busy_for(self) -> float:
        """Seconds for which it has enough requests, estimated from the last ones."""
        return self.pace * (len(self.queue) - 1) / 2 if len(self.queue) > 1 and not self.held else 0.0

    def _ahead(self) -> int:
        return sum(self.sizes) - (self.sizes[0] if self.sizes else 0)

    def _popped(self) -> int:
        self.sizes.popleft()
        return self.queue.popleft()[0]

    def read(self) -> Iterator[tuple[int, Answer]]:
        """The received answers by key; the last one may be that of a process that died."""
        if self.process.stdout is None:
            raise RuntimeError("a worker is started with its output piped")
        chunk = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
        if not chunk:
            self.ended = True
            if self.queue:
                answer = self._death()  # names the request, which is still in the queue
                yield self._popped(), answer
            return
        self.received += chunk
        replies = list(message.take(self.received))
        if replies:
            self.pace = (time.monotonic() - self.since) / len(replies)
        for reply in replies:
            key = self._popped()
            self._first(reply.said)
            yield key, reply.answer

    def _death(self) -> Answer:
        """The answer for a request whose process ended; `outside` if an unrelated process ended it."""
        code = self.process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = self.last_words()
        said = f"the process running it ended with {how}\n{_shortened(words)}".strip()
        starved = any(sign in words for sign in _NO_MEMORY)
        if code == -signal.SIGKILL and _oom_kills() > self.killed:
            starved, said = True, "the system killed the process running it, because memory was exhausted"
        outside = not starved and -code in {signal.SIGKILL, signal.SIGTERM}
        if starved:
            said = f"{_too_little(self.queue[0][1])}\n{said}"
        return Answer("memory" if starved else "crashed", said, outside=outside)

    def over(self, limits: Limits, *, weigh: bool) -> Iterator[tuple[int, Answer]]:
        """The answer for a request that exceeded a limit, after its process has been killed."""
        if not self.queue:
            return
        answer = None
        if limits.seconds is not None and time.monotonic() - self.since > limits.seconds + self.grace:
            answer = Answer("timeout", f"it ran longer than {limits.seconds:g} s")
        elif weigh and limits.memory is not None and (used := self._resident()) > limits.memory:
            said = f"it took {used / 2**20:.0f} MiB; allowed are {limits.memory / 2**20:.0f} MiB"
            answer = Answer("memory", f"{said}; {_too_little(self.queue[0][1])}")
        if answer:
            self.process.kill()
            self.process.wait()
            self.ended = True
            yield self._popped(), answer

    def _resident(self) -> int:
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
        except OSError:  # it has just died
            return 0

    def last_words(self) -> str:
        """The output of the process to standard error since the start of the request, shortened."""
        self.errors.seek(self.said)
        return self.errors.read(MOST_WORDS).decode(errors="replace").strip()

    def stop(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Pool:
    """Worker processes on this machine.

    With `stay` idle processes remain after a call of `run` and serve the next one, until `close`.
    """

    def __init__(self, jobs: int, limits: Limits, *, stay: bool = False) -> None:
        self._jobs = jobs
        self._limits = limits
        self._stay = stay
        self._workers: list[Worker] = []
        self._weighed = 0.0
        """Time of the last memory check."""
        self._selector = selectors.DefaultSelector()

    def run(self, requests: Iterable[Request]) -> Generator[list[tuple[int, Answer]]]:
        """Runs all requests, and yields indices and answers as they complete, several at a time.

        A request is taken when a process is free for it. The processes end with the generator, unless they `stay` and
        are idle at its end.
        """
        waiting = enumerate(requests)
        returned: deque[tuple[int, Request]] = deque()
        try:
            while True:
                self._feed(waiting, returned)
                if not any(worker.queue for worker in self._workers):
                    return
                answers = list(self._answers())
                for worker in [worker for worker in self._workers if worker.ended]:
                    # Requests that were not started are returned.
                    returned.extend(worker.queue)
                    self._bury(worker)
                if answers:
                    yield answers
        finally:
            for worker in [worker for worker in self._workers if worker.queue or not self._stay]:
                self._bury(worker)
            if not self._stay:
                self._selector.close()

    def close(self) -> None:
        """Ends the idle processes."""
        for worker in list(self._workers):
            self._bury(worker)
        self._selector.close()

    def _feed(self, waiting: Iterator[tuple[int, Request]], returned: deque[tuple[int, Request]]) -> None:
        """Assigns requests: to idle processes first, then to new processes, then in advance."""
        for worker in [worker for worker in self._workers if not worker.queue]:
            if worker.process.poll() is not None:
                self._bury(worker)
            elif not self._give(worker, waiting, returned):
                return
        while len(self._workers) < self._jobs:
            if not self._give(None, waiting, returned):
                return
        while hungry := [worker for worker in self._workers if worker.hungry()]:
            for worker in hungry:
                if not self._give(worker, waiting, returned):
                    return

    def _give(
        self,
        worker: Worker | None,
        waiting: Iterator[tuple[int, Request]],
        returned: deque[tuple[int, Request]],
    ) -> bool:
        following = returned.popleft() if returned else next(waiting, None)
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

    def _answers(self) -> Iterator[tuple[int, Answer]]:
        """Waits for events and yields completed requests."""
        if len(self._workers) == self._jobs:
            time.sleep(min(_PAUSE, *(worker.busy_for for worker in self._workers)))
        for ready, _ in self._selector.select(self._patience()):
            worker: Worker = ready.data
            yield from worker.read()
        weigh = time.monotonic() - self._weighed > _LOOK
        if weigh:
            self._weighed = time.monotonic()
        for worker in self._workers:
            yield from worker.over(self._limits, weigh=weigh)

    def _patience(self) -> float | None:
        """The time until the next check."""
        if self._limits.memory is not None:
            return _LOOK
        if self._limits.seconds is None:
            return None
        busy = [worker.since + worker.grace for worker in self._workers if worker.queue]
        return max(0.0, min(busy) + self._limits.seconds - time.monotonic()) + 0.001


class Single:
    """A single worker process for repeated use, for executors with their own event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._worker: Worker | None = None

    def ask(self, request: Request) -> Answer:
        """The answer, regardless of how the request ends."""
        if self._worker is None or self._worker.process.poll() is not None:
            self.stop()
            self._worker = Worker.start()
        worker = self._worker
        worker.ask(0, request)
        with selectors.DefaultSelector() as selector:
            selector.register(worker.process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            while True:
                ready = selector.select(_LOOK)
                for _, answer in worker.read() if ready else worker.over(self._limits, weigh=True):
                    return answer

    def stop(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def _too_little(request: Request) -> str:
    """What needs the memory of a run, and how it gets more."""
    if not isinstance(request, CaseRequest):
        return "it needs more memory than it may have"
    limit = "" if request.memory is None else f" = {request.memory / 2**20:.0f} MiB"
    more = f"it needs more memory than `limits.case_memory`{limit} of the plan: raise it, or shorten the run"
    if not request.collect.get("events"):
        return more
    return (
        f"{more}, or run without the event log, which is in memory until the run ends (`events = false` in [collect] "
        "and `oracles = false`)"
    )


def _shortened(words: str) -> str:
    """The beginning of a text, which contains the cause, and its end; a long backtrace between them is omitted."""
    if len(words) <= 2 * LAST_WORDS:
        return words
    return f"{words[:LAST_WORDS]}\n[...]\n{words[-LAST_WORDS:]}"


def _oom_kills() -> int:
    """The number of processes that the kernel has killed because of memory shortage."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
