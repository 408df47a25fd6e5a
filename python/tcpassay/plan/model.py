"""The plan file's format: one model for reading, for the JSON schema and for the documentation.

A field's description is its documentation. Which parameters and metrics exist is not said here: the data plane's
tables say it (`table.py`), and `read.py` asks them.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
Path = Annotated[str, Field(min_length=1)]
Selector = dict[Path, Scalar | Annotated[list[Scalar], Field(min_length=1)]]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
Time = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(ns|us|ms|s|min|h)$", examples=["10ms"])]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)]


class Strict(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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


class Check(Strict):
    """A statement about a metric that must hold in the cases it selects."""

    metric: str = Field(description="Name of a metric (`tcpassay metrics`)")
    where: Selector = Field(
        default={}, description="The cases meant: parameter = value or list; all by default"
    )
    op: Literal["<", "<=", "==", "!=", ">=", ">"] = Field(
        description="Comparison of the metric with the value"
    )
    value: StrictInt | StrictFloat = Field(description="The literal threshold")
    times: Selector | None = Field(
        default=None,
        description="Multiplies the value by the same metric of the case that differs from the selected one "
        "in these parameters only",
    )
    over: Literal["each", "mean", "median", "min", "max"] = Field(
        default="each", description="Each selected run by itself, or a statistic over all of them"
    )
    why: str = Field(min_length=1, description="Why it must hold; shown when it does not")


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
    start: Time | None = Field(default=None, description="Start of the time shown")
    end: Time | None = Field(default=None, description="End of the time shown")


class Sequence(Panel):
    """Sequence number against time, the stalls annotated."""

    kind: Literal["sequence"]
    stall: Time = Field(default="100ms", description="A pause of the sender at least so long is a stall")
    start: Time | None = Field(default=None, description="Start of the time shown")
    end: Time | None = Field(default=None, description="End of the time shown")


class Distribution(Panel):
    """Cumulative distribution of the round-trip time, one line a case."""

    kind: Literal["distribution"]


Figure = Annotated[Timeline | Sequence | Distribution, Field(discriminator="kind")]


class PlanFile(Strict):
    """A plan: which parameters take which values, what is observed, what must hold, what is drawn."""

    name: FileName = Field(description="Short name; the default name of the result folder")
    doc: str = Field(default="", description="What the plan shows")
    seeds: list[Seed] = Field(default=[1], min_length=1, description="Every case runs once with each")
    fixed: dict[Path, Scalar] = Field(default={}, description="Parameters with one value in all cases")
    axes: dict[Path, Annotated[list[Scalar], Field(min_length=1)]] = Field(
        default={}, description="Parameters that vary; the cases are the product of the lists"
    )
    groups: dict[Word, Annotated[dict[Word, dict[Path, Scalar]], Field(min_length=1)]] = Field(
        default={},
        description="Parameters that vary together: for each group, named sets of parameter = value",
    )
    collect: Collect = Field(default=Collect(), description="What each run leaves behind")
    check: list[Check] = Field(default=[], description="What must hold")
    figure: list[Figure] = Field(default=[], description="What is drawn")
