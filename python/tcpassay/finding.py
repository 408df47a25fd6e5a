"""Findings of oracles with their evidence."""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How severe a finding is."""

    ERROR = "error"
    """The run violates a rule that is mandatory for a TCP."""
    WARNING = "warning"
    """Throughput or latency was lost; possibly no rule was violated."""
    DIFFERENCE = "difference"
    """The stack does something else than the model's profile of it; not necessarily a fault, and of no rule."""
    NOTE = "note"
    """Random events on the path explain the observation."""

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `events.parquet`, by its index in the file, from 0."""

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
    """The result of an oracle: place, time, description. `judge` adds the rest of a finding."""

    flow: int
    """Index of the flow in the recording; the flow is the direction of the data."""
    host: int
    """Index of the host that caused it, or at which it is visible."""
    start_ns: int
    end_ns: int
    severity: Severity
    title: str
    text: str
    """A description of the first occurrence."""
    rows: tuple[int, ...]
    """Rows of the event log that prove the first occurrence."""
    count: int = 1
    """Number of occurrences in this flow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding with its evidence; all occurrences with the same oracle, flow and title are one finding."""

    oracle: str
    severity: Severity
    title: str
    host: str
    flow: str
    start_ns: int
    """Begin of the first occurrence."""
    end_ns: int
    """End of the last occurrence."""
    count: int
    """Number of occurrences; text and evidence are those of the first."""
    text: str
    events: tuple[Row, ...]
    packets: tuple[int, ...]
    """The same moments in `packets.pcapng`, as numbers of frames, from 1; empty when packets were not captured."""
    replay: str = ""
    """The command that repeats the run."""
    case: str = ""
    seed: int | None = None

    def of(self, case: str, seed: int, replay: str = "") -> "Finding":
        """The same finding with the run of a plan to which it belongs."""
        return replace(self, case=case, seed=seed, replay=replay or self.replay)

    def as_json(self) -> dict[str, object]:
        """The form in files; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> "Finding":
        """The inverse of `as_json`. Raises `KeyError`, `TypeError` or `ValueError` for other values."""
        said: Any = value  # any JSON value
        events = tuple(Row(**row) for row in said["events"])
        made = {"severity": Severity(said["severity"]), "events": events, "packets": tuple(said["packets"])}
        return cls(**(said | made))
