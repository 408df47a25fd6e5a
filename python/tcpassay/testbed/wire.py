"""The messages of agents: frames, and what their contents may be.

`crates/agent/src/remote/frames.rs` describes the format. An agent may be on a host that is not trusted: the length of
each frame, the fields of each message and the names and sizes of files are checked before they are used.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tcpassay.interface import RunEnd

PROTOCOL: Final = 2
LONGEST: Final = 16 << 20
"""The longest content of a JSON frame in bytes."""
CHUNK: Final = 1 << 20
"""The longest content of a frame with bytes of a file."""
JSON: Final = 0
BYTES: Final = 1
HEADER: Final = 5
FILES: Final = frozenset(
    ("recording.json", "latency.parquet", "series.parquet", "completions.parquet", "events.parquet",
     "packets.pcapng", "part.json")
)  # fmt: skip
"""The files of the recording of a host."""
LARGEST: Final = 4 << 30
"""The largest size of all files of a host in bytes."""


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)


_Text = Annotated[str, Field(max_length=100_000), AfterValidator(printable)]
_Number = Annotated[int, Field(ge=0, lt=2**63)]


class WireError(Exception):
    """What an agent sent is no message of this version."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Hello(_Message):
    """The first message of an agent."""

    kind: Literal["hello"]
    protocol: _Number
    version: _Text
    root: bool
    release: _Text


class Finding(_Message):
    """A feature of a host."""

    what: _Text
    ok: bool
    found: _Text
    mtu: _Number | None = None


class Inspected(_Message):
    """What a host can do."""

    kind: Literal["inspected"]
    found: Annotated[list[Finding], Field(max_length=1000)]


class Claimed(_Message):
    """The host is reserved."""

    kind: Literal["claimed"]
    restored: Annotated[list[_Text], Field(max_length=1000)]


class Busy(_Message):
    """Another controller uses the host."""

    kind: Literal["busy"]


class CaseProblem(_Message):
    """A setting that a host refuses; `other` is the setting that it contradicts."""

    path: _Text
    other: _Text | None
    value: _Text | None
    why: _Text


class CheckResult(_Message):
    """The settings that differ from the defaults, or the problems of the case."""

    said: dict[str, str] | None = None
    errors: Annotated[list[CaseProblem], Field(max_length=10_000)] = []


class Checked(_Message):
    """Whether the host can run its part of a case."""

    kind: Literal["checked"]
    result: CheckResult


class Time(_Message):
    """The clock of the host in nanoseconds."""

    kind: Literal["time"]
    now: _Number


class Prepared(_Message):
    """Everything is ready for the start."""

    kind: Literal["prepared"]


class ProbedPath(_Message):
    """The path of data from a host to another one; times are in nanoseconds."""

    from_: Annotated[str, Field(alias="from", max_length=100)]
    to: Annotated[str, Field(max_length=100)]
    size: _Number
    asked: _Number
    measured: _Number | None
    lossy: bool


class Probed(_Message):
    """The paths of the data that the host sends."""

    kind: Literal["probed"]
    paths: Annotated[list[ProbedPath], Field(max_length=1000)]


class Idle(_Message):
    """Whether all applications of the host have finished."""

    kind: Literal["idle"]
    at: _Number
    idle: bool


class File(_Message):
    """A file of the recording, whose bytes follow."""

    kind: Literal["file"]
    name: Annotated[str, Field(max_length=100)]
    size: Annotated[int, Field(ge=0, le=LARGEST)]


class Ended(_Message):
    """The end of a run."""

    kind: Literal["ended"]
    ended: RunEnd
    message: _Text
    errors: Annotated[list[CaseProblem], Field(max_length=10_000)]


class Restored(_Message):
    """The settings of the host are as before the run, except for problems."""

    kind: Literal["restored"]
    problems: Annotated[list[_Text], Field(max_length=1000)]


class Failed(_Message):
    """The agent cannot process a message."""

    kind: Literal["failed"]
    message: _Text


Message = (
    Hello
    | Inspected
    | Claimed
    | Busy
    | Checked
    | Time
    | Prepared
    | Probed
    | Idle
    | File
    | Ended
    | Restored
    | Failed
)
_MESSAGES: Final[TypeAdapter[Message]] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def pack(message: Mapping[str, object]) -> bytes:
    """The frame of a message to an agent."""
    content = json.dumps(message).encode()
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


def parse(content: bytes) -> Message:
    """A message from the content of its frame. Raises `WireError` if it is none."""
    try:
        return _MESSAGES.validate_json(content)
    except (ValidationError, RecursionError) as error:
        why = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else "too deep"
        raise WireError(f"a message that is not allowed: {why}") from None


def file_name(message: File) -> str:
    """The name of a file of a recording. Raises `WireError` for any other name."""
    if message.name not in FILES:
        raise WireError(f"a file `{message.name[:40]!r}`; allowed are {', '.join(sorted(FILES))}")
    return message.name
