"""Runs requests on a few worker processes; a worker that dies costs its own request and no other."""

import contextlib
import json
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import IO, Any

# How much of what a dead worker said is kept.
LAST_WORDS = 2000
# What the interpreter is started with.
WORKER = ["-m", "tcpassay.run.worker"]


@dataclass(slots=True)
class Worker:
    """A process, what it said beside its answers, and the request that it is busy with."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    key: int | None = None
    received: bytearray = field(default_factory=bytearray)

    @classmethod
    def start(cls) -> "Worker":
        """A fresh process, waiting."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
            [sys.executable, *WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        return cls(process, errors)

    def ask(self, key: int, request: dict[str, Any]) -> None:
        """Hands a request over."""
        self.key = key
        self.received.clear()
        if self.process.stdin is None:
            raise RuntimeError("a worker is started with its input piped")
        # A worker that has just died is found by the end of its output.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def read(self) -> dict[str, Any] | None:
        """What has arrived: an answer, the death of the process as an answer, or nothing yet."""
        if self.process.stdout is None:
            raise RuntimeError("a worker is started with its output piped")
        chunk = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
        if not chunk:
            code = self.process.wait()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            message = f"the process running it ended with {how}\n{self.last_words()}".strip()
            return {"outcome": "crashed", "message": message}
        self.received += chunk
        if not self.received.endswith(b"\n"):
            return None
        answer: dict[str, Any] = json.loads(self.received)
        return answer

    def last_words(self) -> str:
        """The end of what the process wrote to standard error."""
        size = self.errors.seek(0, 2)
        self.errors.seek(max(0, size - LAST_WORDS))
        return self.errors.read().decode(errors="replace").strip()

    def stop(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def run_all(requests: Iterable[dict[str, Any]], jobs: int) -> Generator[tuple[int, dict[str, Any]]]:
    """Runs every request on `jobs` processes, and yields its index and its answer as they come.

    The generator ends its processes when it is closed, also by an interrupt.
    """
    waiting = enumerate(requests)
    workers: list[Worker] = []
    with selectors.DefaultSelector() as selector:

        def give(worker: Worker | None) -> None:
            following = next(waiting, None)
            if following is None:
                return
            if worker is None:
                worker = Worker.start()
                workers.append(worker)
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
            worker.ask(*following)

        try:
            for _ in range(jobs):
                give(None)
            while any(worker.key is not None for worker in workers):
                for ready, _ in selector.select():
                    worker: Worker = ready.data
                    answer = worker.read()
                    if answer is None or worker.key is None:
                        continue
                    key, worker.key = worker.key, None
                    yield key, answer
                    if worker.process.poll() is None:
                        give(worker)
                    else:
                        selector.unregister(ready.fileobj)
                        worker.stop()
                        workers.remove(worker)
                        give(None)
        finally:
            for worker in workers:
                worker.stop()
