"""What stands between the command and the world around it: odd descriptors, few of them, interrupts, full output.

It imports nothing that is slow or can fail, because it is there before the rest is imported.
"""

import contextlib
import errno
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

USER: Final = 2
INTERRUPTED: Final = 130
_FEWEST: Final = 64
"""Open files without which importing the libraries fails in odd ways."""
_WANTED: Final = 1024
_TOO_MANY: Final = {errno.EMFILE, errno.ENFILE}
# What a terminal obeys: C0 but for tab and line feed, DEL, C1, and what reverses the direction of text.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text with an escape, as JSON has them, in the place of each character that a terminal would obey."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Clean:
    """A text stream that lets no control characters through; `rich` goes past it and cleans for itself."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Writes the text, cleaned."""
        self._stream.write(clean(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Writes the lines, cleaned."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Makes the process fit to run a command, or ends it with a message."""
    # A closed standard stream would give its number to the next file that is opened, which what is printed would
    # then be written into.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A name that is not UTF-8 can be told, too.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout, sys.stderr = Clean(sys.stdout), Clean(sys.stderr)
    _descriptors()
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            end(f"the argument {argument} is not UTF-8; names of files must be")


def _descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    if soft != resource.RLIM_INFINITY and soft < _WANTED:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_WANTED if unlimited else min(hard, _WANTED), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft < _FEWEST:
            end(f"this process may open {soft} files; at least {_FEWEST} are needed (`ulimit -n`)")


def guarded(command: Callable[[], object]) -> None:
    """Calls `command`, and turns what the environment does to it into a message and an exit code."""
    try:
        try:
            command()
        except SystemExit as ended:
            _flush()
            raise ended from None
        _flush()
    except KeyboardInterrupt:
        end("interrupted", INTERRUPTED)
    except BrokenPipeError:
        end("", 128 + signal.SIGPIPE)  # whoever read has gone, as after `| head`
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        if error.errno in _TOO_MANY:
            end(f"{reason}: allow more open files (`ulimit -n`) or use fewer --jobs")
        end(f"{os.fsdecode(error.filename)}: {reason}" if error.filename else reason)
    except MemoryError:
        end("out of memory")


def _flush() -> None:
    """Raises `OSError` when what was printed cannot be written, as on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = "standard output"
        raise


def end(message: str, code: int = USER) -> None:
    """Ends the process with a message, and without another attempt to write what could not be written."""
    with contextlib.suppress(OSError, ValueError):
        if message:
            sys.stderr.write(f"tcpassay: {message}\n")
        sys.stderr.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)


class Stop:
    """An interrupt (SIGINT, SIGTERM, SIGHUP) as a `KeyboardInterrupt`, once; what follows it changes nothing.

    `with Stop() as stop:` around what may be interrupted; `stop.ignore()` before what must not be.
    """

    SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.asked = False
        self._deaf = False
        self._before: dict[int, Any] = {}

    def _hear(self, *_: object) -> None:
        if not self.asked and not self._deaf:
            self.asked = True
            raise KeyboardInterrupt
        self.asked = True

    def ignore(self) -> None:
        """From now on nothing is interrupted."""
        self._deaf = True

    def check(self) -> None:
        """Raises `KeyboardInterrupt` when one came and was lost, in a place that cannot pass it on."""
        if self.asked and not self._deaf:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
