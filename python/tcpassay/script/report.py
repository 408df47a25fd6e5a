"""A packetdrill script to run in virtual time, and the report of a runner about a script."""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from tcpassay.messages import Answer

Status = Literal["pass", "time", "fail", "unsupported", "syntax", "crashed"]
"""`time`: only the times differ. `crashed`: the process that ran the script ended."""


class Report(TypedDict):
    """A report in the form of the runner (`crates/script`), on the model and on a kernel."""

    status: Status
    line: int | None
    column: int | None
    reason: str
    details: list[str]
    drift_usecs: int
    error_usecs: int
    virtual_time_usecs: int
    events: int
    printed: list[str]
    attempts: NotRequired[int]
    """On a host, where time is real and a failed script is repeated."""


def crashed(why: str) -> Report:
    """The report of a script that ended its process."""
    return {
        "status": "crashed",
        "line": None,
        "column": None,
        "reason": why,
        "details": [],
        "drift_usecs": 0,
        "error_usecs": 0,
        "virtual_time_usecs": 0,
        "events": 0,
        "printed": [],
    }


@dataclass(frozen=True, slots=True)
class Packetdrill:
    """A script to run on the model, or on another TCP."""

    text: str
    profile: str
    loose: bool
    options: tuple[tuple[str, str], ...]
    stack: str | None = None
    """The value of `stack.implementation` of another TCP."""


@dataclass(frozen=True, slots=True)
class PacketdrillAnswer(Answer):
    """The answer to a `Packetdrill`."""

    report: Report | None = None
