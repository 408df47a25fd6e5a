"""What an oracle found, with the evidence that anyone can look at again."""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """It breaks a rule that a TCP must keep."""
    WARNING = "warning"
    """Every rule may have been kept, but throughput or latency was lost for nothing."""
    NOTE = "note"
    """Random events on the path explain it."""

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `events.parquet`, by its place in the file, from 0."""

    index: int
    time_ns: int
    host: str
    flow: str
    kind: str
    why: str
    values: dict[str, int | bool]
    """The columns that have a value here, with their units in their names."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an oracle hands over: where, when, what. The rest of a finding is added by `judge`."""

    flow: int
    """Place of the flow in the recording: the direction in which the data go."""
    host: int
    """Place of the host that is to blame, or where it shows."""
    start_ns: int
    end_ns: int
    severity: Severity
    title: str
    text: str
    """A paragraph in plain words about the first occurrence."""
    rows: tuple[int, ...]
    """Rows of the event log that prove the first occurrence."""
    count: int = 1
    """How often it happened in this flow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A judgement with its evidence; all that happened to one flow in one way is one finding."""

    oracle: str
    severity: Severity
    title: str
    host: str
    flow: str
    start_ns: int
    """When the first occurrence begins."""
    end_ns: int
    """When the last one ends."""
    count: int
    """How often; the text and the evidence are of the first."""
    text: str
    events: tuple[Row, ...]
    packets: tuple[int, ...]
    """The same moments in `packets.pcapng`, as numbers of frames, from 1; empty when packets were not captured."""
    replay: str = ""
    """The command that repeats the run."""
    case: str = ""
    seed: int | None = None

    def of(self, case: str, seed: int, replay: str = "") -> "Finding":
        """The same finding, said of a run of a plan."""
        return replace(self, case=case, seed=seed, replay=replay or self.replay)

    def as_json(self) -> dict[str, object]:
        """For files; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> "Finding":
        """From what `as_json` gave. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        said: Any = value  # whatever a file contains
        events = tuple(Row(**row) for row in said["events"])
        made = {"severity": Severity(said["severity"]), "events": events, "packets": tuple(said["packets"])}
        return cls(**(said | made))
