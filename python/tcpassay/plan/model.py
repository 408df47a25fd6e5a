"""The plan file's format: one model for reading, for the JSON schema and for the documentation.

A field's description is its documentation. Which parameters and metrics exist is not said here: the data plane's
tables say it (`table.py`), and `read.py` asks them.
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

    Without `steps` every value between the ends: for the strategies `search` and `guided`.
    """

    start: Scalar = Field(alias="from", description="The first value, with its unit")
    end: Scalar = Field(alias="to", description="The last value, with its unit")
    steps: Annotated[StrictInt, Field(ge=2, le=1000)] | None = Field(
        default=None, description="How many values; without it, every value, for `search` and `guided`"
    )
    scale: Literal["linear", "log"] = Field(default="linear", description="Equal steps or equal ratios")


class Drawn(Strict):
    """Different values drawn at random, rounded to four significant digits.

    A longer draw begins with a shorter one of the same seed.
    """

    count: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(description="How many values")
    seed: Seed = Field(default=1, description="Of the draw; parameters draw independently of each other")


class Uniform(Drawn):
    """Each value between the ends is equally likely."""

    distribution: Literal["uniform"] = Field(description="Which distribution")
    start: Scalar = Field(alias="from", description="No value is less")
    end: Scalar = Field(alias="to", description="No value is greater")


class LogUniform(Drawn):
    """Each order of magnitude between the ends is equally likely."""

    distribution: Literal["loguniform"] = Field(description="Which distribution")
    start: Scalar = Field(alias="from", description="No value is less; above 0")
    end: Scalar = Field(alias="to", description="No value is greater")


class Normal(Drawn):
    """The normal distribution, cut off at the ends."""

    distribution: Literal["normal"] = Field(description="Which distribution")
    mean: Scalar = Field(description="Its mean, before it is cut off")
    deviation: Scalar = Field(description="Its standard deviation, before it is cut off")
    start: Scalar | None = Field(default=None, alias="from", description="No value is less; by default 0")
    end: Scalar | None = Field(default=None, alias="to", description="No value is greater")


class Choice(Drawn):
    """Some of a list, each drawn at most once."""

    distribution: Literal["choice"] = Field(description="Which distribution")
    values: Values = Field(description="What is drawn from")
    weights: list[Annotated[Number, Field(gt=0)]] | None = Field(
        default=None, description="How likely each is to be drawn first, relative to the others"
    )


class Losses(Strict):
    """Lists of lost packets as values of `link.loss_model`, for the strategies `search` and `guided`."""

    sequence: Literal["losses"] = Field(description="What the values are")
    most: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        description="At most so many packets are lost; a list may be empty (`bernoulli`)"
    )
    among: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = Field(
        description="Only among the first so many packets with data that arrive at the link"
    )


class Rates(Strict):
    """Rates that change at equal steps as values of `link.rate`, for the strategies `search` and `guided`."""

    sequence: Literal["rates"] = Field(description="What the values are")
    start: Scalar = Field(alias="from", description="No rate is less")
    end: Scalar = Field(alias="to", description="No rate is greater")
    interval: Time = Field(description="How long each rate holds")
    count: Annotated[StrictInt, Field(ge=2, le=1000)] = Field(
        description="How many rates; after the last one the first follows"
    )
    scale: Literal["linear", "log"] = Field(default="log", description="How rates are drawn between the ends")


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
    """Which form of an axis a value is, or is meant to be."""
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
    """Parameters that interact more closely than the rest."""

    of: Annotated[list[Path], Field(min_length=2)] = Field(
        description="Parameters or groups that the plan varies"
    )
    strength: Strength = Field(
        description="All combinations of so many of them; with as many or more, their full product"
    )


class Full(Strict):
    """Every combination that the constraints allow."""

    kind: Literal["full"]


class TWay(Strict):
    """All combinations of any `strength` parameters: few cases that together hold them all."""

    kind: Literal["t-way"]
    strength: Strength = Field(default=2, description="All combinations of any so many parameters")
    seed: Seed = Field(default=1, description="Another seed gives other cases with the same coverage")
    family: list[Family] = Field(default=[], description="Families with a strength of their own")


class Random(Strict):
    """Different combinations, each that the constraints allow equally likely."""

    kind: Literal["random"]
    count: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = Field(
        description="How many cases, as far as there are so many"
    )
    seed: Seed = Field(default=1, description="Of the draw; more cases of a seed begin with fewer of it")


class Boundary(Strict):
    """All at their simplest, then each at its least and its greatest, then all at their least and greatest."""

    kind: Literal["boundary"]


class OneAtATime(Strict):
    """All at their simplest, then each other value of each alone."""

    kind: Literal["one-at-a-time"]


class Budget(Strict):
    """What a search may cost. It ends with the first that is used up."""

    runs: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="How many runs at most"
    )
    cpu_time: Time | None = Field(
        default=None,
        description="CPU time of all runs together; no generation begins beyond it. The number of cases then depends "
        "on the machine, and a faster one begins with the same cases",
    )


class Search(Strict):
    """Cases that a seeded evolutionary search makes, generation by generation, from the worst so far."""

    kind: Literal["search"]
    metric: str | None = Field(
        default=None, description="The metric whose worst value is searched (`tcpassay metrics`)"
    )
    worst: Literal["least", "greatest"] | None = Field(
        default=None,
        description="Which end of the metric is searched; by default the one that is worse, where the table of metrics "
        "knows it",
    )
    finding: str | None = Field(
        default=None,
        description="The search ends with the first finding of this oracle (`tcpassay oracles`), or with the first "
        "error of any (`any`); until then the metric guides it, or how rare is what the runs reach",
    )
    budget: Budget = Field(description="What the search may cost")
    method: Literal["evolution", "random"] = Field(
        default="evolution",
        description="`random` draws every case independently of the results: what a search is compared with",
    )
    population: Annotated[StrictInt, Field(ge=2, le=1000)] = Field(
        default=16, description="Cases of a generation; as many of the best stay as parents"
    )
    seed: Seed = Field(default=1, description="Of the search; another seed makes other cases")
    best: Annotated[StrictInt, Field(ge=1, le=100)] = Field(
        default=3, description="Number of best cases that are printed and written as plans"
    )


class Guided(Strict):
    """A covering array, then cases that are made from those that reached new behaviour."""

    kind: Literal["guided"]
    strength: Strength = Field(default=2, description="Of the covering array that it begins with")
    seed: Seed = Field(default=1, description="Of the array and of the cases that follow")
    family: list[Family] = Field(default=[], description="Families with a strength of their own")
    budget: Budget = Field(description="What all cases may cost, those of the array included")
    generation: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=16, description="Cases that are made at once from the results so far"
    )


STRATEGIES: Final[dict[str, type[Strict]]] = {
    "full": Full,
    "t-way": TWay,
    "random": Random,
    "boundary": Boundary,
    "one-at-a-time": OneAtATime,
    "search": Search,
    "guided": Guided,
}
Strategy = Annotated[
    Full | TWay | Random | Boundary | OneAtATime | Search | Guided, Field(discriminator="kind")
]


class Limits(Strict):
    """What a plan may cost."""

    case_time: Time = Field(default="10min", description="Real time of one run; beyond it the run is stopped")
    case_memory: Size = Field(default="4GiB", description="Memory of one run; beyond it the run is stopped")
    time: Time | None = Field(
        default=None, description="Real time of the whole; then it stops, to be resumed; no limit by default"
    )
    cases: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = Field(
        default=100_000, description="A plan with more cases is refused before anything is made"
    )


class Keep(Strict):
    """Which recordings stay in the result folder. What figures are drawn from stays, too."""

    recordings: Literal["all", "findings", "none"] = Field(
        default="findings",
        description="All, those with a finding or a failed check, or none. Without [keep] a small plan keeps all",
    )
    sample: Share = Field(
        default="5%", description="Share of the other runs that is kept, too, chosen by case and seed"
    )


class Collect(Strict):
    """What each run leaves behind beside its metrics and counters."""

    series: Time | Literal["off"] = Field(default="10ms", description="Interval of the time series")
    warmup: Time = Field(
        default="0s", description="Left out at the start of the first flow by metrics that can"
    )
    events: StrictBool = Field(default=False, description="The event log of all stacks")
    packets: StrictBool = Field(default=False, description="Packets, as pcapng")
    deliveries: StrictBool = Field(
        default=False, description="Every packet's delivery, for series at any interval"
    )
    taps: StrictBool = Field(
        default=True,
        description="Process every packet at the hosts of `kernel` and `host`; without it packet values are absent",
    )


class Check(Strict):
    """A statement about a metric that must hold in the cases it selects."""

    metric: str = Field(description="Name of a metric (`tcpassay metrics`)")
    where: Selector = Field(
        default={}, description="The cases meant: parameter = value or list; all by default"
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
        default="each", description="Each selected run by itself, or a statistic over all of them"
    )
    why: str = Field(min_length=1, description="Why it must hold; shown when it does not")

    @property
    def limit(self) -> float:
        """The value as a number of the unit in which metrics are counted: s, B, bit/s, packets or 1."""
        if not isinstance(self.value, str):
            return self.value
        meaning = quantity(self.value)
        assert isinstance(meaning.amount, Fraction)  # noqa: S101 - for the type checker; the pattern lets no text pass
        return float(meaning.amount / (10**9 if meaning.kind == TIME else 1))


class Reach(Strict):
    """A behaviour that the runs must reach, or the plan tests less than it says."""

    behaviour: str = Field(
        min_length=1,
        description="Its name, as `reached` of `result.json` has it: `closed window`, `timer_fire Persist`",
    )
    runs: Annotated[StrictInt, Field(ge=1)] = Field(default=1, description="In how many runs at least")
    why: str = Field(default="", description="What it is needed for; shown when it is not reached")


class Panel(Strict):
    """What all figures have."""

    file: FileName = Field(description="File name without extension, in the folder `figures`")
    title: str = Field(default="", description="Above the figure")
    where: Selector = Field(
        default={}, description="The cases shown: parameter = value or list; all by default"
    )
    labels: dict[str, str] = Field(
        default={}, description="What to call a case, by its value of the parameter that varies"
    )


class Timeline(Panel):
    """Series over time, one row a series, one column a case."""

    kind: Literal["timeline"]
    series: list[Literal["throughput", "flows", "rtt", "cwnd", "queue", "marks"]] = Field(
        default=["throughput", "rtt"], min_length=1, description="Rows, from the top"
    )
    flow: FlowNumber | None = Field(
        default=None,
        description="Of `cwnd`: which of the flows with data, from 1; by default that with most timeouts",
    )
    start: Time | None = Field(default=None, description="Start of the time shown")
    end: Time | None = Field(default=None, description="End of the time shown")


class Sequence(Panel):
    """Sequence number against time, the stalls annotated."""

    kind: Literal["sequence"]
    flow: FlowNumber | None = Field(
        default=None,
        description="Which of the flows with data, from 1; by default the one with most timeouts",
    )
    stall: Time = Field(default="100ms", description="A pause of the sender at least so long is a stall")
    start: Time | None = Field(default=None, description="Start of the time shown")
    end: Time | None = Field(default=None, description="End of the time shown")


class Distribution(Panel):
    """Cumulative distribution of the round-trip time or of completion times, one line a case (and size)."""

    kind: Literal["distribution"]
    of: Literal["rtt", "completion"] = Field(
        default="rtt", description="What: round-trip times, or times of flows and requests by their size"
    )


class Diagram(Panel):
    """Sequence diagram of a flow around its longest stall: segments that leave and arrive, ACKs that are owed."""

    kind: Literal["diagram"]
    flow: FlowNumber | None = Field(
        default=None,
        description="Which of the flows with data, from 1; by default the one with most timeouts",
    )
    segments: Annotated[StrictInt, Field(ge=1, le=40)] = Field(
        default=8, description="How many segments before the stall are shown"
    )


Figure = Annotated[Timeline | Sequence | Distribution | Diagram, Field(discriminator="kind")]


class Scripts(Strict):
    """packetdrill scripts that are cases of the plan."""

    files: Annotated[list[Path], Field(min_length=1)] = Field(
        description="Scripts, folders of them, or patterns as `dctcp/*.pkt`, relative to this file"
    )
    profile: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="The stack, or several; by default what the first line of a script says (`// profile: NAME`), or "
        "`linux`, the only one that also runs on real kernels",
    )
    compare: Literal["exact", "loose"] = Field(
        default="exact", description="`loose`: window, PSH and SYN options do not count"
    )
    options: dict[Path, StrictStr | StrictInt | list[StrictStr]] = Field(
        default={}, description="Of packetdrill's command line, as `tolerance_usecs = 4000`"
    )


class PlanFile(Strict):
    """A plan: which parameters take which values, what is observed, what must hold, what is drawn."""

    name: FileName = Field(description="Short name; the default name of the result folder")
    doc: str = Field(default="", description="What the plan shows")
    extends: str | None = Field(
        default=None, min_length=1, description="A plan that this one starts from, relative to this file"
    )
    drop_figures: list[FileName] = Field(
        default=[], description="Figures of the plan that this one extends, by `file`, that are not drawn"
    )
    substrates: list[Substrate] = Field(
        default=["model"],
        min_length=1,
        description="Where every case runs: `model`, `kernel`, `kernel:NAME` (`tcpassay kernel list`); several "
        "vary as `substrate`",
    )
    seeds: list[Seed] = Field(default=[1], min_length=1, description="Every case runs once with each")
    repetitions: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=1,
        description="Every case runs so often with each seed; on a substrate that is deterministic they must agree",
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
        default={}, description="Values that must be refused; cases with one are tested for that"
    )
    scripts: list[Scripts] = Field(
        default=[], description="packetdrill scripts that are cases, beside those of the parameters"
    )
    constraints: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="What must hold in every case (docs/constraints.md)"
    )
    strategy: Strategy = Field(default=Full(kind="full"), description="Which combinations become cases")
    metrics: list[str] = Field(
        default=[], description="Those that the summary shows; by default those of the checks"
    )
    oracles: StrictBool | list[str] = Field(
        default=True, description="Whether oracles judge each run, or which of them (`tcpassay oracles`)"
    )
    limits: Limits = Field(default=Limits(), description="What the plan may cost")
    keep: Keep = Field(default=Keep(), description="Which recordings stay in the result folder")
    collect: Collect = Field(default=Collect(), description="What each run leaves behind")
    check: list[Check] = Field(default=[], description="What must hold")
    reach: list[Reach] = Field(default=[], description="Behaviours that the runs must reach")
    figure: list[Figure] = Field(default=[], description="What is drawn")
    experiment: Experiment | None = Field(
        default=None, description="What a paper says about this, for `tcpassay experiments`"
    )
