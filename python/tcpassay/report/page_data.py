"""The data of the report's page: what Python writes and the scripts in `js/` read.

`tools/page_types.py` generates `tools/js/page_data.d.ts` from these classes, with which the scripts are type-checked.

Arrays of numbers are in a pack (`pack.py`); an `Index` refers to an array of the pack that contains it.
"""

from typing import NotRequired, TypedDict

from tcpassay.finding import Severity
from tcpassay.interface import Direction
from tcpassay.judge.registry import OracleData
from tcpassay.recording_format import FlowCounters, PropertyRow, TcpCounters
from tcpassay.result_format import VerdictRow

Index = int


# `from` is a keyword, so that a class cannot have it.
_Ends = TypedDict("_Ends", {"from": str, "to": str})


class FlowData(_Ends):
    """A flow of a run, with the names of its hosts."""

    name: str
    cc: str | None
    counters: FlowCounters
    tcp: TcpCounters | None


class Bottleneck(TypedDict):
    """The device whose rate is the capacity of the path."""

    name: str
    rate_bps: int | None


class Curve(TypedDict):
    """A curve of a panel."""

    name: str
    x: Index
    y: Index
    of: int
    """Number of points before the reduction."""
    flow: NotRequired[int]
    owner: NotRequired[str]
    """The name of the flow."""
    smoothed: NotRequired[bool]
    """Whether the values are smoothed round-trip times instead of samples."""


class Panel(TypedDict):
    """Curves with a common unit."""

    key: str
    title: str
    unit: str
    curves: list[Curve]
    width_ns: NotRequired[int]
    """The width of bars."""


class Distribution(TypedDict):
    """A distribution as quantiles."""

    key: str
    title: str
    x: Index
    y: Index
    of: int
    """Number of values."""


class LaneData(TypedDict):
    """Events on one line of the timeline."""

    key: str
    title: str
    x: Index
    flow: Index
    of: int
    """Number of events before the reduction."""


class SequenceData(TypedDict):
    """The time-sequence graph of a flow: bars of time, lowest and highest position."""

    name: str
    flow: int
    sent: list[Index]
    sent_of: int
    again: list[Index]
    again_of: int
    acked: list[Index]


class CurvesData(TypedDict):
    """The header of the pack of a run."""

    duration_ns: int
    interval_ns: int | None
    bottleneck: Bottleneck | None
    complete: bool
    environment: list[PropertyRow]
    flows: list[FlowData]
    senders: int
    panels: list[Panel]
    distributions: list[Distribution]
    lanes: list[LaneData]
    sequence: list[SequenceData]


class FactorData(TypedDict):
    """A parameter and its level in each run."""

    name: str
    levels: tuple[str, ...]
    codes: Index
    ordered: bool
    doc: str


class MetricData(TypedDict):
    """A metric and its value in each run."""

    name: str
    unit: str
    doc: str
    good: Direction
    values: Index


class RunsData(TypedDict):
    """The header of the pack of all runs; lists have an element for each run."""

    count: int
    case: list[str]
    seed: list[int]
    outcomes: list[str]
    outcome: Index
    expected: list[int]
    """Indices of runs with the outcome that their case expects."""
    messages: dict[int, str]
    factors: list[FactorData]
    members: list[FactorData]
    metrics: list[MetricData]


class LineData(TypedDict):
    """The coverage at a strength, or of a family."""

    name: str
    strength: int
    total: int
    covered: int
    excluded: int
    missing: list[dict[str, str]]


class PairData(TypedDict):
    """The number of cases for each pair of levels of two parameters."""

    a: str
    b: str
    total: int
    covered: int
    rows: list[str]
    columns: list[str]
    counts: list[int]


class CoverageData(TypedDict):
    """The coverage of the completed cases."""

    cases: int
    planned: bool
    lines: list[LineData]
    pairs: list[PairData]


class ReachedData(TypedDict):
    """A behaviour that a run reached or the plan requires."""

    name: str
    runs: int
    times: int
    required: int
    """Number of runs that must reach it."""
    regime: bool
    """Whether it is a regime of the network instead of an event."""


class AmountData(TypedDict):
    """The numbers of reached and of all lines, branches or functions."""

    reached: int
    of: int


class SourceData(TypedDict):
    """The reached code of a source file of a kernel."""

    file: str
    lines: AmountData
    branches: AmountData
    functions: AmountData


class KernelCoverageData(TypedDict):
    """The reached code of a kernel with counters."""

    kernel: str
    runs: int
    files: list[SourceData]


class BetterRow(TypedDict):
    """The controllers for one metric at one level."""

    level: str
    metric: str
    best: str
    """Those to which no other is better; if that are all, whether the runs cannot decide or exclude a difference."""
    better: str
    """Which is better than which."""
    medians: str
    against: str
    """Each beside the one with the best median: the effect with its interval, and p."""


class BetterData(TypedDict):
    """Which controller is better for which metric."""

    parameter: str
    by: str
    """The factor of the levels; empty if there is none."""
    confidence: float
    rows: list[BetterRow]


class FoundData(TypedDict):
    """A best case of a search."""

    run: int
    """Index of its first run."""
    case: str
    value: float | None
    text: str
    """The value with its unit, or the seed with which the finding showed."""
    settings: str


class SearchData(TypedDict):
    """What a search found."""

    lead: str
    metric: str
    unit: str
    runs: int
    path: list[tuple[int, float]]
    """Runs, and the best value up to there."""
    best: list[FoundData]


class PlanData(TypedDict):
    """The plan."""

    name: str
    doc: str
    text: str


class FindingRow(TypedDict):
    """A row of the event log that is evidence of a finding."""

    index: int
    time_ns: int
    host: str
    flow: str
    kind: str
    why: str
    values: dict[str, int | bool]


class FindingData(TypedDict):
    """A finding (`tcpassay.finding.Finding`) with what the page shows of it."""

    oracle: str
    severity: Severity
    title: str
    host: str
    flow: str
    start_ns: int
    end_ns: int
    count: int
    text: str
    events: list[FindingRow]
    packets: tuple[int, ...]
    replay: str
    case: str
    seed: int | None
    rows: int
    """Number of rows of evidence, of which `events` has the first ones."""
    first_end_ns: int
    """End of the first occurrence."""
    drawing: str
    """The sequence diagram as SVG in base64; empty if the finding was not explained."""


class PageData(TypedDict):
    """Small data: texts, findings, checks, coverage."""

    plan: PlanData
    version: str
    status: str
    environment: dict[str, str | None]
    folder: str
    replay: str
    judged: bool
    undetermined: int
    metrics: list[str]
    """The metrics that the plan names."""
    checks: list[VerdictRow]
    fixed: dict[str, str]
    findings: list[FindingData]
    oracles: dict[str, OracleData]
    coverage: CoverageData
    reached: list[ReachedData]
    kernel_coverage: list[KernelCoverageData]
    better: BetterData | None
    """`None` if the runs have one controller."""
    search: SearchData | None
    """`None` for a plan whose cases do not depend on results."""
    problems: list[str]
    """Damaged files."""


class WholePage(PageData):
    """All small data, with what is known after the curves were written."""

    recorded: int
    drawn: int
