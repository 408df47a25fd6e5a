"""Frames with messages of testbeds, and checks of what an agent sends.

`crates/messages` declares the messages and describes the frames. An agent may be on a host that is not trusted: the
length of each frame, the fields of each message and the names and sizes of files are checked before they are used.
"""

import json
from dataclasses import asdict
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from tcpassay.testbed.messages import (
    BYTES,
    CHUNK,
    FILES,
    JSON,
    LARGEST,
    LONGEST,
    File,
    FromAgent,
    FromController,
)

_MESSAGES: Final[TypeAdapter[FromAgent]] = TypeAdapter(Annotated[FromAgent, Field(discriminator="kind")])


class WireError(Exception):
    """What an agent sent is no message of this version."""


def pack(message: FromController) -> bytes:
    """The frame of a message to an agent."""
    content = json.dumps(asdict(message)).encode()
    return len(content).to_bytes(4, "little") + bytes([JSON]) + content


def header(frame: bytes) -> tuple[int, int]:
    """The length and the kind of a frame. Raises `WireError` for a frame that is not allowed."""
    length, kind = int.from_bytes(frame[:4], "little"), frame[4]
    most = {JSON: LONGEST, BYTES: CHUNK}.get(kind)
    if most is None:
        raise WireError(f"a frame of the unknown kind {kind}")
    if length > most:
        raise WireError(f"a frame of {length} bytes; allowed are {most}")
    return length, kind


def parse(content: bytes) -> FromAgent:
    """A message from the content of its frame. Raises `WireError` if it is none."""
    try:
        return _MESSAGES.validate_json(content)
    except (ValidationError, RecursionError) as error:
        why = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else "too deep"
        raise WireError(f"a message that is not allowed: {why}") from None


def file_name(message: File, left: int) -> str:
    """The name of a file of a recording; `left` is its maximum size. Raises `WireError` for any other name or size."""
    if message.name not in FILES:
        raise WireError(f"a file `{message.name[:40]!r}`; allowed are {', '.join(sorted(FILES))}")
    if message.size > left:
        raise WireError(f"a recording that is larger than {LARGEST} bytes")
    return message.name
