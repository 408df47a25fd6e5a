"""Messages between a process and its workers, which are the same program: a length, then a pickle.

JSON would do, but to write the numbers of an answer as text took a worker a tenth of a millisecond, half a per cent of
a run. Neither end listens to anybody else.
"""

import pickle
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

Message = dict[str, Any]

_LENGTH: Final = 8
"""Bytes of the length, little-endian."""


def pack(message: Message) -> bytes:
    """The bytes of a message."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_LENGTH, "little") + body


def take(received: bytearray) -> Iterator[Message]:
    """The messages that are there as a whole, each taken away from what was received."""
    while len(received) >= _LENGTH:
        end = _LENGTH + int.from_bytes(received[:_LENGTH], "little")
        if len(received) < end:
            return
        body = bytes(received[_LENGTH:end])
        del received[:end]
        yield pickle.loads(body)  # noqa: S301 - from a worker of ours


def receive(stream: BinaryIO) -> Iterator[Message]:
    """The messages of a stream as they come, until it ends."""
    while len(length := stream.read(_LENGTH)) == _LENGTH:
        yield pickle.loads(stream.read(int.from_bytes(length, "little")))  # noqa: S301 - from who started us
