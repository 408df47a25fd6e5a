"""Protection of the command against its environment: closed descriptors, few descriptors, interrupts, full disks.

The module imports nothing that is slow or can fail, because it runs before all other imports.
"""

import contextlib
import errno
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

USER: Final = 2
BUG: Final = 70
"""The exit code after a panic of the data plane or an unexpected exception (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED: Final = 130
_FEWEST: Final = 64
"""Minimum number of open files; with fewer, importing libraries fails with unclear errors."""
_WANTED: Final = 1024
_TOO_MANY: Final = {errno.EMFILE, errno.ENFILE}
# Control characters of terminals: C0 except tab and line feed, DEL, C1, and characters that change the text
# direction.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Replaces each control character by an escape as in JSON."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Clean:
    """A text stream that escapes control characters; `rich` bypasses it and cleans its own output."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Writes the text without control characters."""
        self._stream.write(clean(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Writes the lines without control characters."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Prepares the process for a command, or ends it with a message."""
    # The next opened file would get the number of a closed standard stream, and output would be written into it.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Also names that are not UTF-8 can be printed.
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
    """Calls `command` and converts failures of the environment to a message and an exit code."""
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
        end("", 128 + signal.SIGPIPE)  # the reader has closed the pipe, as with `| head`
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        if error.errno in _TOO_MANY:
            end(f"{reason}: allow more open files (`ulimit -n`) or use fewer --jobs")
        end(f"{os.fsdecode(error.filename)}: {reason}" if error.filename else reason)
    except MemoryError:
        end("out of memory")
    except BaseException as error:
        # A panic of the data plane is no `Exception`. Its class is known by name, because importing the module is slow.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        with contextlib.suppress(OSError, ValueError):
            sys.__excepthook__(type(error), error, error.__traceback__)  # `traceback` is slow to import
        end(f"this is a bug of tcpassay ({type(error).__name__}); please report it with the lines above", BUG)


def _flush() -> None:
    """Raises `OSError` if output cannot be written, as on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = "standard output"
        raise


def end(message: str, code: int = USER) -> None:
    """Ends the process with a message, without a further attempt to write the pending output."""
    with contextlib.suppress(OSError, ValueError):
        if message:
            sys.stderr.write(f"tcpassay: {message}\n")
        sys.stderr.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)


T = TypeVar("T")
Handler = Callable[[int, FrameType | None], object] | int | None
"""What `signal.signal` returns and accepts; `None` for a handler that was not installed from Python."""


class Stop:
    """Converts the first interrupt (SIGINT, SIGTERM, SIGHUP) to a `KeyboardInterrupt`; later ones have no effect.

    Use `with Stop() as stop:` around code that may be interrupted, and `stop.ignore()` before code that must not be
    interrupted.
    """

    SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.asked = False
        self._deaf = False
        self._before: dict[int, Handler] = {}

    def _hear(self, *_: object) -> None:
        if not self.asked and not self._deaf:
            self.asked = True
            raise KeyboardInterrupt
        self.asked = True

    def ignore(self) -> None:
        """Ignores further interrupts."""
        self._deaf = True

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if an interrupt was lost in code that cannot propagate it."""
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


def took_all(values: Iterable[T], take: Callable[[T], object]) -> bool:
    """Passes each value to `take` as it comes; false if an interrupt ended this before the last one."""
    with Stop():
        try:
            for value in values:
                take(value)
        except KeyboardInterrupt:
            return False
    return True
