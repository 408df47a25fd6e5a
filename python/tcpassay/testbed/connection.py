"""The connection to the agent of a host: the system's `ssh`, and messages over its standard input and output.

`ssh` uses the keys, the known hosts and the configuration of the user, and never asks (BatchMode). The host is an
argument after `--`. The command for the other side is a constant with the digest of the agent, or the path of an
installed agent, which contains no character with a meaning to a shell.
"""

import hashlib
import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import IO, Final, Self, TypeVar

from tcpassay.testbed import messages, wire
from tcpassay.testbed.clock import Exchange, Offset, estimate, known_after, settled
from tcpassay.testbed.file import Host
from tcpassay.testbed.wire import WireError

_Kind = TypeVar("_Kind", bound=messages.FromAgent)

CONNECT_S: Final = 15
"""Maximum time to connect to a host."""
ANSWER_S: Final = 60.0
"""Maximum time for an answer."""
_COPY_S: Final = 600
"""Maximum time to copy the agent (36 MB), as over a line of 0.5 Mbit/s."""
_END_S: Final = 10
_ALIVE_S: Final = messages.SILENCE_MS / 6000
"""The agent ends if it hears nothing for six times as long."""
EXCHANGES: Final = 24
"""Maximum number of exchanges about the clock before a run."""
EXCHANGES_AFTER: Final = 8
"""After a run nothing depends on the offset but the drift, whose error the recording has."""
_NEAR_NS: Final = 5_000_000
"""Round trips below this time are measured for a few hosts at a time: otherwise the hosts would wait for this one."""
_TURNS: Final = threading.BoundedSemaphore(2)
_LAST_WORDS: Final = 4000
NO_AGENT: Final = 79
"""Exit code of the command that starts the agent, if the agent is not there or has another digest."""
_OPTIONS: Final = (
    "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", "-o", "ServerAliveInterval=5",
    "-o", "ServerAliveCountMax=3", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "ClearAllForwardings=yes",
)  # fmt: skip
_PLACE: Final = '"$HOME"/.cache/tcpassay'


class LostError(Exception):
    """The connection to a host ended, or what arrived is no message."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"host `{host}`: {why}")
        self.host = host


@cache
def digest(program: Path) -> str:
    """The SHA-256 digest of the agent."""
    return hashlib.sha256(program.read_bytes()).hexdigest()


def ssh_command(host: Host, config: Path | None, command: str) -> list[str]:
    """The arguments of `ssh` that run a command on a host."""
    options = [] if config is None else ["-F", str(config.resolve())]
    return ["ssh", *_OPTIONS, *options, "--", host.ssh, command]


def start_command(host: Host, sha256: str) -> str:
    """The command of a shell on the host that starts its agent."""
    sudo = "sudo -n " if host.sudo else ""
    if host.agent is not None:
        return f'exec {sudo}{host.agent} remote "$SSH_CONNECTION"'
    place = f"{_PLACE}/agent-{sha256}"
    test = f'[ "$(sha256sum < {place} 2>/dev/null)" = "{sha256}  -" ]'
    return f'{test} || exit {NO_AGENT}; exec {sudo}{place} remote "$SSH_CONNECTION"'


def copy_command(sha256: str) -> str:
    """The command of a shell on the host that stores standard input as the agent, in a folder of the user alone."""
    new = f"{_PLACE}/new-$$"
    # A part of it would fill a full disk further.
    return (
        f"umask 077 && mkdir -p {_PLACE} && cat > {new} && chmod 700 {new} && mv {new} {_PLACE}/agent-{sha256} "
        f"|| {{ rm -f {new}; exit 1; }}"
    )


class Connection:
    """An agent on a host."""

    def __init__(self, host: Host, config: Path | None, program: Path) -> None:
        self.host = host
        self.longest_ns = 0
        """The longest round trip when the clock was last asked for; half of an earlier one if that is longer."""
        self._known_ns: int | None = None
        """The shortest round trip of all times when the clock was asked for."""
        self.deadline = math.inf
        """When a run ends at the latest, by the monotonic clock; nothing is sent or awaited after it."""
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._words = bytearray()
        self._process = self._start(config, program)
        self._stderr = threading.Thread(target=self._listen, daemon=True)
        self._stderr.start()
        try:
            self.hello = self._hello(config, program)
        except LostError:
            self.close()
            raise
        threading.Thread(target=self._stay_alive, daemon=True).start()

    def _start(self, config: Path | None, program: Path) -> subprocess.Popen[bytes]:
        sha256 = "" if self.host.agent else digest(program)
        try:
            return subprocess.Popen(  # noqa: S603 - arguments without a shell
                ssh_command(self.host, config, start_command(self.host, sha256)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            raise LostError(self.host.name, f"`ssh` cannot be run: {error.strerror}") from None

    def _hello(self, config: Path | None, program: Path) -> messages.Welcome:
        """The first message, of an agent of this version."""
        hello = self._first(config, program)
        if hello.protocol != messages.PROTOCOL:
            why = (
                f"its agent speaks version {hello.protocol} of the messages, and this is {messages.PROTOCOL}"
            )
            raise LostError(self.host.name, why)
        return hello

    def _first(self, config: Path | None, program: Path) -> messages.Welcome:
        """The first message. An agent that is not there is copied first."""
        try:
            return self._greet()
        except LostError:
            if self.host.agent or self._exit_code() != NO_AGENT:
                raise
        try:
            copied = subprocess.run(  # noqa: S603 - arguments without a shell
                ssh_command(self.host, config, copy_command(digest(program))),
                input=program.read_bytes(),
                capture_output=True,
                check=False,
                timeout=_COPY_S,
            )
        except subprocess.TimeoutExpired:
            why = f"the agent cannot be copied in {_COPY_S} s; install it there, and set `agent` in the testbed file"
            raise LostError(self.host.name, why) from None
        if copied.returncode != 0:
            said = copied.stderr.decode(errors="replace").strip()[-_LAST_WORDS:]
            raise LostError(self.host.name, f"the agent cannot be copied: {said or copied.returncode}")
        self._process = self._start(config, program)
        self._stderr = threading.Thread(target=self._listen, daemon=True)
        self._stderr.start()
        return self._greet()

    def _exit_code(self) -> int | None:
        """The exit code of `ssh`; `None` if it goes on."""
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return None

    def _greet(self) -> messages.Welcome:
        return self.ask(messages.Hello(messages.PROTOCOL), messages.Welcome, CONNECT_S + ANSWER_S)

    def _listen(self) -> None:
        """Keeps the end of what `ssh` and the agent write to standard error."""
        stream = self._process.stderr
        while stream is not None and (some := stream.read(4096)):
            self._words += some
            del self._words[:-_LAST_WORDS]

    def _stay_alive(self) -> None:
        while not self._ended.wait(_ALIVE_S):
            try:
                self.send(messages.Alive())
            except LostError:
                return

    def fileno(self) -> int:
        """The descriptor on which messages arrive."""
        if self._process.stdout is None:
            raise RuntimeError("it is started with a pipe")
        return self._process.stdout.fileno()

    def send(self, message: messages.FromController) -> None:
        """Sends a message. Raises `LostError` if the connection has ended."""
        stream = self._process.stdin
        if stream is None:
            raise RuntimeError("it is started with a pipe")
        with self._writing:
            try:
                os.set_blocking(stream.fileno(), False)
                left = memoryview(wire.pack(message))
                while left:
                    self._wait([], [stream], time.monotonic() + ANSWER_S, "its agent does not read")
                    left = left[os.write(stream.fileno(), left) :]
            except (OSError, ValueError):
                raise self._lost() from None

    def receive(self, seconds: float | None = None) -> messages.FromAgent:
        """The next message. Raises `LostError` if none arrives in time, or something else does."""
        content, kind = self._frame(time.monotonic() + (ANSWER_S if seconds is None else seconds))
        if kind != messages.JSON:
            raise LostError(self.host.name, "bytes of a file arrived instead of a message")
        return self._checked(lambda: wire.parse(content))

    def ask(self, message: messages.FromController, kind: type[_Kind], seconds: float | None = None) -> _Kind:
        """Sends a message and returns its answer. Raises `LostError` for any other one."""
        self.send(message)
        return self.expect(kind, seconds)

    def expect(self, kind: type[_Kind], seconds: float | None = None) -> _Kind:
        """The next message, which must be of this kind."""
        answer = self.receive(seconds)
        if isinstance(answer, kind):
            return answer
        why = (
            answer.message if isinstance(answer, messages.Failed) else f"`{answer.kind}` arrived unexpectedly"
        )
        raise LostError(self.host.name, why)

    def receive_file(self, message: messages.File, folder: Path, left: int) -> int:
        """Stores a file that was announced; `left` is the maximum size in bytes. Returns its size."""
        name = self._checked(lambda: wire.file_name(message, left))
        rest = message.size
        with (folder / name).open("xb") as file:
            while rest > 0:
                content, kind = self._frame(time.monotonic() + ANSWER_S)
                if kind != messages.BYTES or not 0 < len(content) <= rest:
                    raise LostError(self.host.name, f"`{name}` is not as long as announced")
                if len(content) != (full := min(messages.CHUNK, rest)):
                    why = f"`{name}` came in a frame of {len(content)} bytes; allowed is {full}"
                    raise LostError(self.host.name, why)
                file.write(content)
                rest -= len(content)
        return message.size

    def offset(self, exchanges: int = EXCHANGES) -> Offset:
        """How much the clock of the host is ahead of this one's."""
        first = self._exchange()
        made = [first]
        with _TURNS if first.round_trip < _NEAR_NS else nullcontext():
            while len(made) < exchanges and not settled(made, self._known_ns):
                made.append(self._exchange())
        self.longest_ns = max(self.longest_ns // 2, *(one.round_trip for one in made))
        self._known_ns = known_after(made, self._known_ns)
        try:
            return estimate(made)
        except ValueError as error:
            raise LostError(self.host.name, str(error)) from None

    def _exchange(self) -> Exchange:
        sent = time.time_ns()
        now = self.ask(messages.Clock(), messages.Time).now
        return Exchange(sent, now, time.time_ns())

    def end(self) -> None:
        """Tells the agent the end of the connection; it restores its host."""
        self._ended.set()
        with self._writing:
            if self._process.stdin is not None:
                self._process.stdin.close()

    def close(self) -> None:
        """Ends the connection. The process of `ssh` is ended if it does not end by itself."""
        self.end()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.join(1)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _checked(self, read: Callable[[], "_T"]) -> "_T":
        try:
            return read()
        except WireError as error:
            raise LostError(self.host.name, f"its agent sent {error}") from None

    def _frame(self, until: float) -> tuple[bytes, int]:
        first = self._exactly(messages.HEADER, until)
        length, kind = self._checked(lambda: wire.header(first))
        return self._exactly(length, until), kind

    def _exactly(self, length: int, until: float) -> bytes:
        received = bytearray()
        while len(received) < length:
            self._wait([self], [], until, "its agent does not answer")
            some = os.read(self.fileno(), length - len(received))
            if not some:
                raise self._lost()
            received += some
        return bytes(received)

    def _wait(self, reading: list[Self], writing: list[IO[bytes]], until: float, why: str) -> None:
        """Waits until one of them is ready. Raises `LostError` after `until` or the deadline of the run."""
        left = min(until, self.deadline) - time.monotonic()
        if left <= 0 or not any(select.select(reading, writing, [], left)):
            late = time.monotonic() >= self.deadline
            raise LostError(self.host.name, "the run has not ended at its time limit" if late else why)

    def _lost(self) -> LostError:
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return LostError(self.host.name, "the connection ended")
        self._stderr.join(1)
        said = self._words.decode(errors="replace").strip()
        how = f"ssh ended with exit code {code}" if code >= 0 else f"ssh was ended by signal {-code}"
        return LostError(self.host.name, f"{how}: {said}" if said else how)


_T = TypeVar("_T")
