"""Messages about runs: a `CaseRequest` asks for a run, and an `Answer` describes its result.

Workers and substrates exchange them. The module imports little, because a worker starts with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypedDict

from tcpassay.finding import Finding
from tcpassay.trust.consent import Consent, current

Value = bool | int | float | str
"""The value of a parameter, as a plan has it."""
Triples = Mapping[str, Value]
"""The settings of a case: paths of parameters with their values."""
Metrics = dict[str, float | None]
"""Metrics by name; `None` if the run does not have the metric."""


class Outcome(StrEnum):
    """The outcome of a case."""

    DONE = "done"
    """It completed."""
    FAILED = "failed"
    """It failed with an internal error."""
    CRASHED = "crashed"
    """Its process died."""
    TIMEOUT = "timeout"
    """It exceeded its time limit."""
    MEMORY = "memory"
    """It exceeded its memory limit."""
    STACK = "stack"
    """A real TCP (`stack.implementation`) broke the rules of its interface."""
    HUNG = "hung"
    """A real TCP did not answer in time."""
    PATH = "path"
    """The path differs from the one that the case requests, so that no traffic was sent."""
    UNSUPPORTED = "unsupported"
    """A script needs a feature that the model or the runner lacks."""
    REFUSED = "refused"
    """Its values were refused, as expected for a case with an invalid value."""


Expected = Literal["done", "refused"]
"""The expected outcome of a case."""


class Collect(TypedDict, total=False):
    """The data that a run collects, in the form of the data plane; an absent key has the default of a plan."""

    series: str | None
    """Interval of the time series."""
    warmup: str
    events: bool
    packets: bool
    deliveries: bool
    taps: bool


METRICS_ONLY: Final[Collect] = {
    "series": None,
    "warmup": "0s",
    "deliveries": False,
    "events": False,
    "packets": False,
}
"""A run that collects nothing but metrics and counters."""


class ScriptRow(TypedDict):
    """A packetdrill script as a case, in the row of a run."""

    file: str
    profile: str
    loose: bool
    options: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Script:
    """A packetdrill script as a case, with its options."""

    file: str
    """Relative to the plan."""
    profile: str
    loose: bool
    """Whether window, PSH and SYN options are ignored."""
    options: tuple[tuple[str, str], ...] = ()
    """Command-line options of packetdrill without dashes."""

    def as_json(self) -> ScriptRow:
        """The form in the row of a run."""
        return {"file": self.file, "profile": self.profile, "loose": self.loose, "options": [*self.options]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRequest:
    """A case to run with a seed, and the data of the run to keep."""

    substrate: str
    collect: Collect
    triples: Triples = field(default_factory=dict)
    seed: int = 0
    base: str = ""
    """The folder of files that values name."""
    folder: str = ""
    """The place of the recording."""
    expect: Expected = "done"
    """`refused` for a case that must not be accepted."""
    oracles: list[str] | None = field(default_factory=list)
    """Names of oracles; an empty list means none, `None` means all."""
    keep: bool = False
    """Whether the recording is kept in any case."""
    keep_found: bool = False
    """Whether the recording is kept if there is a finding or if one of `checks` fails."""
    keep_events: bool = False
    """Whether a recording without a finding keeps its event log."""
    checks: list[tuple[str, str, float]] = field(default_factory=list)
    """Metric, operator and value."""
    memory: int | None = None
    """Memory limit of the run in bytes."""
    seconds: float | None = None
    """Real time after which a guest is ended; the requesting process enforces all other time limits."""
    script: Script | None = None
    """A script that is run instead of traffic over a path."""
    consent: Consent = field(default_factory=current)
    """What the run may execute."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a run, which the journal stores."""

    outcome: str
    message: str = ""
    trace: str = ""
    """Equal for runs that took the same steps."""
    digest: str = ""
    """Checksum of all recorded data except the event log."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    cpu_s: float = 0.0
    """CPU time of all processes; in the answer of a substrate, of processes other than this one."""
    simulation_s: float = 0.0
    """The part of `cpu_s` for simulation and metrics in the data plane."""
    kept: bool = False
    """Whether the recording is in the folder of the request."""
    findings: list[Finding] = field(default_factory=list)
    """Without case, seed and command."""
    unjudged: dict[str, str] = field(default_factory=dict)
    """Oracles that could not evaluate the run, with the reason."""
    reached: dict[str, int] = field(default_factory=dict)
    """Occurrences of each behaviour in the event log."""
    covered: str = ""
    """What the run reached in the kernel's code (`gcov.Catalogue.encode`); empty if the kernel has no counters."""
    outside: bool = False
    """Whether an unrelated process ended the run, so that the outcome says nothing about the case."""
    pause: bool = False
    """Whether no further runs may start; this one is repeated when the results are resumed."""
