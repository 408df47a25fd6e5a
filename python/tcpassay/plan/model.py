"""The plan file's format: one model for reading, for the JSON schema and for the documentation.

A field's description is its documentation. The parameters and metrics are declared in the data
plane (`table.py`); `read.py` checks their names.
"""

from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, Tag

from tcpassay.plan.experiment_table import Experiment
from tcpassay.plan.fields import (
    TIME,
    Amount,
    FileName,
    FlowNumber,
    Number,
    Path,
    Scalar,
    Seed,
    Selector,
    Share,
    Size,
    Strength,
    Strict,
    Substrate,
    Time,
    Values,
    Word,
)
from tcpassay.plan.quantity import quantity


class Range(Strict):
    """Values at equal steps (`linear`) or at equal ratios (`log`), rounded to four significant digits.

    Without `steps` every value between the ends: for the strategy `search`.
    """

    start: Scalar = Field(alias="from", description="The first value, with its unit")
    end: Scalar = Field(alias="to", description="The last value, with its unit")
    steps: Annotated[StrictInt, Field(ge=2, le=1000)] | None = Field(
        default=None,
        description="Number of values; without it all values between the ends, for `search` only",
    )
    scale: Literal["linear", "log"] = Field(default="linear", description="Equal steps or equal ratios")


class Drawn(Strict):
    """Different values drawn at random, rounded to four significant digits.

    A longer draw begins with a shorter one of the same seed.
    """

    count: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(description="Number of values")
    seed: Seed = Field(default=1, description="Seed of the draw; parameters draw independently of each other")


class Uniform(Drawn):
    """Each value between the ends is equally likely."""

    distribution: Literal["uniform"] = Field(description="Which distribution")
    start: Scalar = Field(alias="from", description="Smallest value")
    end: Scalar = Field(alias="to", description="Largest value")


class LogUniform(Drawn):
    """Each order of magnitude between the ends is equally likely."""

    distribution: Literal["loguniform"] = Field(description="Which distribution")
    start: Scalar = Field(alias="from", description="Smallest value; above 0")
    end: Scalar = Field(alias="to", description="Largest value")


class Normal(Drawn):
    """The normal distribution, truncated at the ends."""

    distribution: Literal["normal"] = Field(description="Which distribution")
    mean: Scalar = Field(description="Mean before truncation")
    deviation: Scalar = Field(description="Standard deviation before truncation")
    start: Scalar | None = Field(default=None, alias="from", description="Smallest value; by default 0")
    end: Scalar | None = Field(default=None, alias="to", description="Largest value")


class Choice(Drawn):
    """Some values of a list, each drawn at most once."""

    distribution: Literal["choice"] = Field(description="Which distribution")
    values: Values = Field(description="The list of values")
    weights: list[Annotated[Number, Field(gt=0)]] | None = Field(
        default=None, description="Relative probability of each value to be drawn first"
    )


class Losses(Strict):
    """Lists of lost packets as values of `link.loss_model`, for the strategy `search`."""

    sequence: Literal["losses"] = Field(description="Kind of the values")
    most: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        description="Maximum number of lost packets; a list may be empty (`bernoulli`)"
    )
    among: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = Field(
        description="Losses occur among this number of first data packets that arrive at the link"
    )


class Rates(Strict):
    """Rates that change at equal steps as values of `link.rate`, for the strategy `search`."""

    sequence: Literal["rates"] = Field(description="Kind of the values")
    start: Scalar = Field(alias="from", description="Lowest rate")
    end: Scalar = Field(alias="to", description="Highest rate")
    interval: Time = Field(description="Duration of each rate")
    count: Annotated[StrictInt, Field(ge=2, le=1000)] = Field(
        description="Number of rates; they repeat cyclically"
    )
    scale: Literal["linear", "log"] = Field(
        default="log", description="Distribution of the rates between the ends"
    )


AXES: Final[dict[str, type[Strict]]] = {
    "range": Range,
    "uniform": Uniform,
    "loguniform": LogUniform,
    "normal": Normal,
    "choice": Choice,
    "losses": Losses,
    "rates": Rates,
}
RANGE_KEYS: Final = frozenset(
    field.alias or name for kind in AXES.values() for name, field in kind.model_fields.items()
)


def axis_form(value: Any) -> str:
    """The form of an axis that a value has, or seems intended to have."""
    for name, kind in AXES.items():
        if isinstance(value, kind):
            return name
    if isinstance(value, dict):
        return str(value.get("sequence", value.get("distribution", "range")))
    return "list"


Axis = Annotated[
    Annotated[Values, Tag("list")]
    | Annotated[Range, Tag("range")]
    | Annotated[Uniform, Tag("uniform")]
    | Annotated[LogUniform, Tag("loguniform")]
    | Annotated[Normal, Tag("normal")]
    | Annotated[Choice, Tag("choice")]
    | Annotated[Losses, Tag("losses")]
    | Annotated[Rates, Tag("rates")],
    Discriminator(axis_form),
]


class Family(Strict):
    """Parameters that are covered with a strength of their own."""

    of: Annotated[list[Path], Field(min_length=2)] = Field(
        description="Parameters or groups that the plan varies"
    )
    strength: Strength = Field(
        description="Number of these parameters of which all combinations are covered; their full product if it is "
        "not below their number"
    )


class Full(Strict):
    """Every combination that the constraints allow."""

    kind: Literal["full"]


class TWay(Strict):
    """A covering array: few cases that together contain all combinations of any `strength` parameters."""

    kind: Literal["t-way"]
    strength: Strength = Field(
        default=2, description="Number of parameters of which all combinations are covered"
    )
    seed: Seed = Field(
        default=1, description="Seed of the generator; another seed gives other cases with the same coverage"
    )
    family: list[Family] = Field(default=[], description="Families of parameters, each with its own strength")


class Random(Strict):
    """Different combinations, drawn with equal probability from those that the constraints allow."""

    kind: Literal["random"]
    count: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = Field(
        description="Number of cases; fewer if the constraints allow fewer"
    )
    seed: Seed = Field(
        default=1, description="Seed of the draw; with a larger `count` the cases of a smaller one come first"
    )


class Boundary(Strict):
    """All parameters at their default, then each alone at its lowest and highest value, then all of them at these."""

    kind: Literal["boundary"]


class OneAtATime(Strict):
    """All parameters at their default, then each other value of each parameter alone."""

    kind: Literal["one-at-a-time"]


class Budget(Strict):
    """The budget of a search, which ends when the first limit is reached."""

    runs: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Maximum number of runs"
    )
    cpu_time: Time | None = Field(
        default=None,
        description="CPU time of all runs; no generation begins after it is used up. The number of cases then depends "
        "on the machine; the cases of a slower machine are the first cases of a faster one",
    )


class Search(Strict):
    """Cases that an evolutionary search with a seed derives, by generation, from the worst cases so far."""

    kind: Literal["search"]
    metric: str | None = Field(
        default=None, description="The metric whose worst value is searched (`tcpassay metrics`)"
    )
    worst: Literal["least", "greatest"] | None = Field(
        default=None,
        description="Whether the smallest or the largest value of the metric is searched; by default the worse one "
        "if the metric "
        "has a preferred direction",
    )
    finding: str | None = Field(
        default=None,
        description="The search ends with the first finding of this oracle (`tcpassay oracles`), or with the first "
        "error of any oracle (`any`); until then cases are rated by the metric, or by the rarity of the behaviours "
        "that "
        "their runs reach",
    )
    budget: Budget = Field(description="Limits of the cost of the search")
    method: Literal["evolution", "random"] = Field(
        default="evolution",
        description="`random` draws every case independently of the results, as a baseline for comparison",
    )
    population: Annotated[StrictInt, Field(ge=2, le=1000)] = Field(
        default=16,
        description="Number of cases of a generation, and of the best cases that are kept as parents",
    )
    seed: Seed = Field(default=1, description="Seed of the search; another seed gives other cases")
    best: Annotated[StrictInt, Field(ge=1, le=100)] = Field(
        default=3, description="Number of best cases that are printed and written as plans"
    )


STRATEGIES: Final[dict[str, type[Strict]]] = {
    "full": Full,
    "t-way": TWay,
    "random": Random,
    "boundary": Boundary,
    "one-at-a-time": OneAtATime,
    "search": Search,
}
Strategy = Annotated[Full | TWay | Random | Boundary | OneAtATime | Search, Field(discriminator="kind")]


class Limits(Strict):
    """Limits of the cost of a plan."""

    case_time: Time = Field(
        default="10min", description="Limit of the real time of a run; the run is stopped if it exceeds it"
    )
    case_memory: Size = Field(
        default="4GiB", description="Limit of the memory of a run; the run is stopped if it exceeds it"
    )
    time: Time | None = Field(
        default=None,
        description="Limit of the real time of the plan; it then stops and can be resumed; no limit by default",
    )
    cases: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = Field(
        default=100_000,
        description="Maximum number of cases; a plan with more is refused before cases are generated",
    )


class Keep(Strict):
    """The recordings that are kept in the result folder, besides those that figures need."""

    recordings: Literal["all", "findings", "none"] = Field(
        default="findings",
        description="All recordings, those with a finding or a failed check, or none. Without [keep] a small plan "
        "keeps all",
    )
    sample: Share = Field(
        default="5%", description="Share of the other recordings that is also kept, selected by case and seed"
    )


class Collect(Strict):
    """The data that each run records in addition to metrics and counters."""

    series: Time | Literal["off"] = Field(default="10ms", description="Interval of the time series")
    warmup: Time = Field(
        default="0s",
        description="Time from the start of the first flow that the metrics over a window exclude",
    )
    events: StrictBool = Field(default=False, description="The event log of all stacks")
    packets: StrictBool = Field(default=False, description="Captured packets, as pcapng")
    deliveries: StrictBool = Field(
        default=False, description="The delivery of every packet, for series with any interval"
    )
    taps: StrictBool = Field(
        default=True,
        description="Whether every packet is processed at the hosts of `kernel` and `host`; otherwise values about "
        "packets are absent",
    )


class Check(Strict):
    """A condition on a metric that must hold in the selected cases."""

    metric: str = Field(description="Name of a metric (`tcpassay metrics`)")
    where: Selector = Field(
        default={}, description="The selected cases: parameter = value or list; all by default"
    )
    op: Literal["<", "<=", "==", "!=", ">=", ">"] = Field(
        description="Comparison of the metric with the value"
    )
    value: StrictInt | StrictFloat | Amount = Field(
        description="The threshold: a number in the metric's own unit, or with a unit (`1ms`, `10Mbit`, `30KB`, `5%`)"
    )
    times: Selector | None = Field(
        default=None,
        description="Multiplies the value by the same metric of the case that differs from the selected one "
        "in these parameters only",
    )
    over: Literal["each", "mean", "median", "min", "max"] = Field(
        default="each",
        description="Whether the check applies to each selected run, or to a statistic over all of them",
    )
    why: str = Field(min_length=1, description="Why the condition must hold; shown if it fails")

    @property
    def limit(self) -> float:
        """The value as a number in the unit of the metric: s, B, bit/s, packets or 1."""
        if not isinstance(self.value, str):
            return self.value
        meaning = quantity(self.value)
        assert isinstance(meaning.amount, Fraction)  # noqa: S101 - for the type checker; the pattern accepts no other text
        return float(meaning.amount / (10**9 if meaning.kind == TIME else 1))


class Reach(Strict):
    """A behaviour that a minimum number of runs must reach; otherwise the plan does not test it."""

    behaviour: str = Field(
        min_length=1,
        description="The name of the behaviour in `reached` of the runs, as in `closed window`, `timer_fire "
        "Persist`",
    )
    runs: Annotated[StrictInt, Field(ge=1)] = Field(
        default=1, description="Minimum number of runs that must reach it"
    )
    why: str = Field(default="", description="Why the behaviour is needed; shown if it is not reached")


class Panel(Strict):
    """The settings common to all figures."""

    file: FileName = Field(description="File name without extension, in the folder `figures`")
    title: str = Field(default="", description="Title of the figure")
    where: Selector = Field(
        default={}, description="The cases in the figure: parameter = value or list; all by default"
    )
    labels: dict[str, str] = Field(
        default={}, description="Names of the cases, by the value of the varied parameter"
    )


class Timeline(Panel):
    """Series over time, with one row per series and one column per case."""

    kind: Literal["timeline"]
    series: list[Literal["throughput", "flows", "rtt", "cwnd", "queue", "marks"]] = Field(
        default=["throughput", "rtt"], min_length=1, description="The rows, from the top"
    )
    flow: FlowNumber | None = Field(
        default=None,
        description="The flow of the row `cwnd`: its number among the flows with data, from 1; by default up to four "
        "flows, or of more the one with most timeouts",
    )
    start: Time | None = Field(default=None, description="Start of the displayed time")
    end: Time | None = Field(default=None, description="End of the displayed time")


class Sequence(Panel):
    """Sequence number over time, with annotated stalls."""

    kind: Literal["sequence"]
    flow: FlowNumber | None = Field(
        default=None,
        description="Number of the flow among those with data, from 1; by default the flow with most timeouts",
    )
    stall: Time = Field(default="100ms", description="Minimum pause of the sender that counts as a stall")
    start: Time | None = Field(default=None, description="Start of the displayed time")
    end: Time | None = Field(default=None, description="End of the displayed time")


class Distribution(Panel):
    """Cumulative distribution of the round-trip time or of completion times, one line per case (and size)."""

    kind: Literal["distribution"]
    of: Literal["rtt", "completion"] = Field(
        default="rtt",
        description="The distribution: of round-trip times, or of completion times of flows and requests by their size",
    )


class Diagram(Panel):
    """Sequence diagram of a flow around its longest stall: segments sent and received, and pending ACKs."""

    kind: Literal["diagram"]
    flow: FlowNumber | None = Field(
        default=None,
        description="Number of the flow among those with data, from 1; by default the flow with most timeouts",
    )
    segments: Annotated[StrictInt, Field(ge=1, le=40)] = Field(
        default=8, description="Number of displayed segments before the stall"
    )


class OfMetric(Panel):
    """A metric by the values of one or two parameters, over the runs of all seeds, with intervals."""

    kind: Literal["line", "bar", "box", "cdf", "heat"]
    metric: str = Field(description="The metric")
    by: str = Field(description="Parameter or group of the horizontal axis; of the rows of a heat map")
    group: str | None = Field(
        default=None,
        description="Parameter or group of the lines, bars or boxes beside each other; of the columns of a heat map",
    )
    columns: Literal[1, 2] = Field(
        default=1, description="Width: one column of a page (3.35 in) or both (7 in)"
    )
    scale: Literal["linear", "log"] | None = Field(
        default=None,
        description="Of the metric; by default `log` if the shown values differ by more than a factor of 50",
    )


OfRuns = Timeline | Sequence | Distribution | Diagram
"""Figures that are drawn from recordings."""
Figure = Annotated[OfRuns | OfMetric, Field(discriminator="kind")]


class Scripts(Strict):
    """packetdrill scripts that are cases of the plan."""

    files: Annotated[list[Path], Field(min_length=1)] = Field(
        description="Scripts, folders of scripts, or patterns as `dctcp/*.pkt`, relative to this file"
    )
    profile: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="The profile of the stack, or several; by default that of the first line of a script (`// "
        "profile: NAME`), or "
        "`linux`, the only one that also runs on real kernels",
    )
    compare: Literal["exact", "loose"] = Field(
        default="exact",
        description="`exact`, or `loose`: differences of window, PSH and SYN options are ignored",
    )
    options: dict[Path, StrictStr | StrictInt | list[StrictStr]] = Field(
        default={}, description="Command-line options of packetdrill, as in `tolerance_usecs = 4000`"
    )


class PlanFile(Strict):
    """A plan: parameters with their values, recorded data, checks and figures."""

    name: FileName = Field(description="Short name; the default name of the result folder")
    doc: str = Field(default="", description="What the plan shows")
    extends: str | None = Field(
        default=None, min_length=1, description="The plan that this plan extends, relative to this file"
    )
    drop_figures: list[FileName] = Field(
        default=[], description="Figures of the extended plan that are not drawn, by `file`"
    )
    substrates: list[Substrate] = Field(
        default=["model"],
        min_length=1,
        description="The substrates of every case: `model`, `model:STACK` (another TCP, `tcpassay stack list`), "
        "`kernel`, `kernel:NAME` (`tcpassay kernel list`); several substrates vary as `substrate`",
    )
    seeds: list[Seed] = Field(default=[1], min_length=1, description="Every case runs once with each seed")
    repetitions: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=1,
        description="Number of runs per case and seed; on a deterministic substrate they must be identical",
    )
    fixed: dict[Path, Scalar] = Field(default={}, description="Parameters with one value in all cases")
    axes: dict[Path, Axis] = Field(
        default={}, description="Parameters that vary; a list of values, a range or a distribution"
    )
    groups: dict[Word, Annotated[dict[Word, dict[Path, Scalar]], Field(min_length=1)]] = Field(
        default={},
        description="Parameters that vary together: for each group, named sets of parameter = value",
    )
    negative: dict[Path, Values] = Field(
        default={}, description="Values that must be refused; each is tested in its own cases"
    )
    case: list[Annotated[dict[Path, Scalar], Field(min_length=1)]] = Field(
        default=[],
        description="Further cases, each with these settings beside those of `fixed`; axes and groups have no effect "
        "on them",
    )
    scripts: list[Scripts] = Field(default=[], description="packetdrill scripts that are further cases")
    constraints: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Conditions on the parameters that hold in every case (docs/constraints.md)"
    )
    strategy: Strategy = Field(
        default=Full(kind="full"), description="How combinations of values are selected as cases"
    )
    metrics: list[str] = Field(
        default=[], description="The metrics in the summary; by default those of the checks"
    )
    oracles: StrictBool | list[str] = Field(
        default=True,
        description="Whether oracles evaluate each run, or the names of these oracles (`tcpassay oracles`)",
    )
    limits: Limits = Field(default=Limits(), description="Limits of the cost of the plan")
    keep: Keep = Field(default=Keep(), description="The recordings that are kept in the result folder")
    collect: Collect = Field(default=Collect(), description="The data that each run records")
    check: list[Check] = Field(default=[], description="Conditions on metrics")
    reach: list[Reach] = Field(default=[], description="Behaviours that the runs must reach")
    figure: list[Figure] = Field(default=[], description="Figures of the result")
    experiment: Experiment | None = Field(
        default=None,
        description="The claims of a paper that `tcpassay experiments` compares with the results",
    )
