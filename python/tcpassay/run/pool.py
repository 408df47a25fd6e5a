"""Runs requests on a few worker processes, within limits; a worker that dies costs its own request and no other.

Time is measured from when a request is the first of its process to its answer, memory is what is resident of the
process. Whoever goes beyond is killed, and the request gets that as its answer.

While requests are short, each process has some more in its pipe already, so that it need not wait until its answer has
been dealt with, and several answers are dealt with at once: to wake this process between two requests costs more than
what it then does. Long ones are handed out when a process is free: the last of them shall not wait for each other.
"""

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from tcpassay.run import message
from tcpassay.run.worker import MEMORY

Request = dict[str, Any]
Answer = dict[str, Any]

# How much of what a dead worker said is looked at, and how much of its beginning and its end is kept.
MOST_WORDS = 1 << 20
LAST_WORDS = 1000
# How long a request with a limit of its own (`seconds`) has after it to say how that ended.
GRACE = 10.0
# What the interpreter is started with; the number of this process follows.
WORKER = ["-m", "tcpassay.run.worker"]
_LOOK: Final = 0.1
"""How often memory is looked at, in seconds."""
_SHORT: Final = 1.0
"""Seconds: a process whose last request took less gets the next one ahead."""
_AHEAD: Final = 0.5
"""Seconds of work that a process gets ahead when its requests are shorter than that."""
_MOST_AHEAD: Final = 12
"""Requests that a process gets ahead: the next may be long ones, for which another process is free."""
_AHEAD_BYTES: Final = 1 << 14
"""Of the requests ahead: they must fit the pipe, or we would wait for a process that may be waiting for us."""
_PAUSE: Final = 0.2
"""Seconds that answers may wait to be dealt with, while every process has work ahead."""
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
    """A process, what it said beside its answers, and the requests that it has."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    queue: deque[tuple[int, Request]] = field(default_factory=deque)
    """The first is the one that it is busy with."""
    since: float = 0.0
    """When that became the first."""
    said: int = 0
    """Where in `errors` it begins."""
    pace: float = math.inf
    """Seconds that a request took lately."""
    sizes: deque[int] = field(default_factory=deque)
    """Bytes of each request in the queue."""
    killed: int = 0
    """How often the kernel had killed for want of memory when the process began."""
    received: bytearray = field(default_factory=bytearray)
    held: bytes = b""
    """A request that is too long to wait in the pipe."""
    ended: bool = False
    """Whether it is known to be dead."""

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
            env=MEMORY | os.environ | {"POLARS_MAX_THREADS": "1"},  # the processes are one a core already
        )
        return cls(process, errors, killed=_oom_kills())

    def ask(self, key: int, request: Request) -> None:
        """Hands a request over."""
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
        """Seconds beyond the limit for the process to end by itself what it has started."""
        return GRACE if self.queue and self.queue[0][1].get("seconds") else 0.0

    def _write(self, packed: bytes) -> None:
        if self.process.stdin is None:
            raise RuntimeError("a worker is started with its input piped")
        # A worker that has just died is found by the end of its output.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(packed)
            self.process.stdin.flush()

    def _first(self, said: int) -> None:
        self.since, self.said = time.monotonic(), said
        if self.held:
            self._write(self.held)
            self.held = b""

    def hungry(self) -> bool:
        """Whether it can have one more request."""
        if not self.queue:
            return True
        if self.held or self.pace > _SHORT:
            return False
        return len(self.queue) <= max(1, min(_MOST_AHEAD, int(_AHEAD / max(self.pace, 1e-6))))

    @property
    def busy_for(self) -> float:
        """Seconds for which it certainly needs nobody, as far as the last requests tell."""
        return self.pace * (len(self.queue) - 1) / 2 if len(self.queue) > 1 and not self.held else 0.0

    def _ahead(self) -> int:
        return sum(self.sizes) - (self.sizes[0] if self.sizes else 0)

    def _popped(self) -> int:
        self.sizes.popleft()
        return self.queue.popleft()[0]

    def read(self) -> Iterator[tuple[int, Answer]]:
        """What has arrived, answers by their keys; the last may be the death of the process."""
        if self.process.stdout is None:
            raise RuntimeError("a worker is started with its output piped")
        chunk = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
        if not chunk:
            self.ended = True
            if self.queue:
                yield self._popped(), self._death()
            return
        self.received += chunk
        answers = list(message.take(self.received))
        if answers:
            self.pace = (time.monotonic() - self.since) / len(answers)
        for answer in answers:
            key = self._popped()
            self._first(answer.pop("said", self.said))
            yield key, answer

    def _death(self) -> Answer:
        """The answer for a request whose process ended; `outside` when somebody else ended it."""
        code = self.process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = self.last_words()
        said = f"the process running it ended with {how}\n{_shortened(words)}".strip()
        starved = any(sign in words for sign in _NO_MEMORY)
        if code == -signal.SIGKILL and _oom_kills() > self.killed:
            starved, said = True, "the system killed the process running it, for want of memory"
        outside = not starved and -code in {signal.SIGKILL, signal.SIGTERM}
        return {"outcome": "memory" if starved else "crashed", "message": said, "outside": outside}

    def over(self, limits: Limits, *, weigh: bool) -> Iterator[tuple[int, Answer]]:
        """The answer for a request that went beyond a limit, after its process has been killed."""
        if not self.queue:
            return
        answer = None
        if limits.seconds is not None and time.monotonic() - self.since > limits.seconds + self.grace:
            answer = {"outcome": "timeout", "message": f"it ran longer than {limits.seconds:g} s"}
        elif weigh and limits.memory is not None and (used := self._resident()) > limits.memory:
            said = f"it took {used / 2**20:.0f} MiB; allowed are {limits.memory / 2**20:.0f} MiB"
            answer = {"outcome": "memory", "message": said}
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
    """Worker processes on this machine.

    With `stay` idle processes outlive a call of `run` and serve the next one, until `close`.
    """

    def __init__(self, jobs: int, limits: Limits, *, stay: bool = False) -> None:
        self._jobs = jobs
        self._limits = limits
        self._stay = stay
        self._workers: list[Worker] = []
        self._weighed = 0.0
        """When memory was last looked at."""
        self._selector = selectors.DefaultSelector()

    def run(self, requests: Iterable[Request]) -> Generator[list[tuple[int, Answer]]]:
        """Runs every request, and yields indices and answers as they come, some at a time.

        Requests are taken when a process is free for them. The processes end with the generator, unless they `stay` and
        have nothing to do when it ends.
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
                    # What it had not begun is nobody's fault.
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
        """Ends the processes that stayed."""
        for worker in list(self._workers):
            self._bury(worker)
        self._selector.close()

    def _feed(self, waiting: Iterator[tuple[int, Request]], returned: deque[tuple[int, Request]]) -> None:
        """Gives the processes what they can have: those that are idle first, then those that are to be, then ahead."""
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
        """Waits for something to happen, and yields what requests came to."""
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
        """How long nothing needs to be looked at."""
        if self._limits.memory is not None:
            return _LOOK
        if self._limits.seconds is None:
            return None
        busy = [worker.since + worker.grace for worker in self._workers if worker.queue]
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
                ready = selector.select(_LOOK)
                for _, answer in worker.read() if ready else worker.over(self._limits, weigh=True):
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
