"""A process between a run and a stack, which changes nothing that a stack may depend on.

    python -m tcpassay.stacks.proxy slow COMMAND     # each answer is delayed by a millisecond of wall time
    python -m tcpassay.stacks.proxy again COMMAND    # after each request, `advance` to the same time is requested, too

A stack that follows docs/stacks.md does the same through it. It gets no batches, and is not asked to fork.
"""

import struct
import subprocess
import sys
import time
from typing import IO, Final

ADVANCE: Final = 2
FOUND: Final = 3
"""Exit status when the stack did what it must not do; standard error says what."""
_HEAD: Final = 12
"""Bytes of an answer without items: deadline and result."""
_DELAY: Final = 0.001
_SHOWN: Final = 9
_NOT_PASSED: Final = frozenset({b"batch=1", b"fork=1"})
_UNQUIET: Final = "it was not quiet: `advance` to the time of its last answer gave further items"
_MOVED: Final = "its deadline changed by `advance` to the time of its last answer"


def _read(stream: IO[bytes]) -> bytes | None:
    head = stream.read(4)
    if len(head) < len(b"size"):
        return None
    (length,) = struct.unpack("<I", head)
    content = stream.read(length)
    return content if len(content) == length else None


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(struct.pack("<I", len(content)) + content)
    stream.flush()


def main(mode: str, command: list[str]) -> int:
    """Serves until the end of standard input, and ends as the stack does if that ends first."""
    own_in, own_out = sys.stdin.buffer, sys.stdout.buffer
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: S603 - what the user checks
        if child.stdin is None or child.stdout is None:
            return 1
        began = False
        while (request := _read(own_in)) is not None:
            _send(child.stdin, request)
            answer = _read(child.stdout)
            if answer is None:
                return child.wait()
            if mode == "slow":
                time.sleep(_DELAY)
            if not began:
                # Requests come one by one, and each run has a process of its own.
                answer = b"\n".join(line for line in answer.split(b"\n") if line not in _NOT_PASSED)
            if mode == "again" and began:
                _send(child.stdin, bytes([ADVANCE]) + request[1:_SHOWN])
                more = _read(child.stdout)
                if more is None:
                    return child.wait()
                if why := _changed(request, answer, more):
                    sys.stderr.write(f"{why}\n")
                    return FOUND
            began = True
            _send(own_out, answer)
        child.stdin.close()
        return child.wait()


def _changed(request: bytes, answer: bytes, more: bytes) -> str:
    """What a second `advance` did that it must not do; empty if it did nothing."""
    (now,) = struct.unpack_from("<Q", request, 1)
    first, second = (max(struct.unpack_from("<Q", one)[0], now) for one in (answer, more))
    if len(more) > _HEAD:
        return _UNQUIET
    # A deadline that is now has been reached by this request.
    return _MOVED if first != second and first > now else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
