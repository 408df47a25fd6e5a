"""Messages between a process and its workers, which run the same program: a length, then a pickle.

JSON would also work, but writing the numbers of an answer as text takes a worker a tenth of a millisecond, half a
percent of a run. Neither side accepts messages from other processes.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from tcpassay.messages import Answer, CaseRequest
from tcpassay.script.report import Packetdrill

Request = CaseRequest | Packetdrill


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a worker to a request."""

    answer: Answer
    said: int
    """Bytes that the worker has written to standard error; further output belongs to the next request."""


_LENGTH: Final = 8
"""Size of the length field in bytes, little-endian."""


def pack(message: Request | Reply) -> bytes:
    """The bytes of a message."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(_LENGTH, "little") + body


def take(received: bytearray) -> Iterator[Reply]:
    """The complete replies, which are removed from the received bytes."""
    while len(received) >= _LENGTH:
        end = _LENGTH + int.from_bytes(received[:_LENGTH], "little")
        if len(received) < end:
            return
        body = bytes(received[_LENGTH:end])
        del received[:end]
        yield pickle.loads(body)  # noqa: S301 - from a worker of ours


def receive(stream: BinaryIO) -> Iterator[Request]:
    """The requests of a stream until its end."""
    while len(length := stream.read(_LENGTH)) == _LENGTH:
        yield pickle.loads(stream.read(int.from_bytes(length, "little")))  # noqa: S301 - from who started us
