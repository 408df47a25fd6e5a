"""The table `[experiment]` of a plan: what a paper says, and what is compared with it."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from tcpassay.plan.fields import (
    Amount,
    FlowNumber,
    Number,
    Path,
    Scalar,
    Seed,
    Selector,
    Strict,
    Values,
    Word,
)

Condition = Annotated[
    str,
    Field(
        pattern=r"^(<=|>=|==|!=|<|>) -?\d{1,15}(\.\d{1,15})?(%|p|ns|us|ms|s|min|h|B|KB|MB|GB|bit|Kbit|Mbit|Gbit)?$",
        examples=[">= 10", "< 5ms"],
    ),
]
Quantity = StrictInt | StrictFloat | Amount


class Measured(Strict):
    """A number that is taken from the runs of an experiment."""

    metric: str = Field(
        description="A metric (`tcpassay metrics`) or a reading (`tcpassay experiments readings`)"
    )
    where: Selector = Field(default={}, description="The cases meant: parameter = value or list")
    flow: FlowNumber | None = Field(
        default=None, description="Of a reading of one flow: which of those with data, from 1"
    )
    relative_to: Selector | None = Field(
        default=None,
        description="Divides by the same number of the case that differs in these parameters only",
    )
    over: Literal["mean", "median", "min", "max"] = Field(
        default="median", description="The statistic over all selected runs"
    )


class Claim(Measured):
    """A statement of a paper, where it stands, and what decides whether it is reproduced."""

    name: str = Field(min_length=1, description="What is measured")
    place: str = Field(min_length=1, description="Where the paper says it")
    paper: Quantity | None = Field(default=None, description="The paper's number, in the unit of the metric")
    says: str = Field(default="", description="What the paper says, where it gives no number")
    within: Annotated[Number, Field(gt=1)] | None = Field(
        default=None, description="Reproduced: at most this factor above or below the paper's number"
    )
    reproduced: list[Condition] = Field(
        default=[], description="Or these conditions; all must hold. They have precedence over `within`"
    )
    direction: list[Condition] = Field(
        default=[], description="Otherwise, if these hold, only the direction is reproduced"
    )


class Column(Measured):
    """A column of a table of an experiment; a row of the table restricts its cases further."""

    heading: str = Field(min_length=1, description="Above the column")
    paper: dict[str, Quantity | Literal["-"]] = Field(
        default={}, description="The paper's numbers, by the value of the row"
    )
    within: Annotated[Number, Field(gt=1)] | None = Field(
        default=None, description="Numbers at most this factor from the paper's are printed bold"
    )


class Exhibit(Strict):
    """A table of an experiment, in the form of the paper, or of what a sweep of an unknown setting gives."""

    title: str = Field(min_length=1, description="Above the table")
    rows: str = Field(
        default="", description="The axis or group whose values are the rows; without it one row"
    )
    runs: StrictBool = Field(
        default=False,
        description="The rows are the runs in ascending order, then their mean and standard deviation",
    )
    column: list[Column] = Field(min_length=1, description="The columns")


class Excerpt(Strict):
    """Lines of a recording: what happened, as a log or an analysis shows it."""

    title: str = Field(min_length=1, description="Above the lines")
    kind: Literal["rounds", "siftr", "events", "ss", "arrivals"] = Field(
        description="Round trips of a flow (`tcpassay rtt`), lines of siftr or of the event log (`tcpassay log`), the "
        "summary of `ss -ti`, or the order in which segments arrive"
    )
    where: Selector = Field(default={}, description="The case, the first one that is selected")
    flow: FlowNumber = Field(default=1, description="Which of the flows with data, from 1")
    after: str = Field(
        default="", description="The lines begin near the first one with this text (`events`, `siftr`)"
    )
    before: Annotated[StrictInt, Field(ge=0, le=100)] = Field(
        default=3, description="How many lines before that one are shown"
    )
    lines: Annotated[StrictInt, Field(ge=1, le=200)] = Field(default=12, description="How many lines")


class Changes(Strict):
    """What a plan has instead on the substrate `kernel`."""

    leave_out: list[Path] = Field(default=[], description="Parameters that it cannot honour")
    fixed: dict[Path, Scalar] = Field(default={}, description="Values instead of those of the plan")
    axes: dict[Path, Values] = Field(default={}, description="Axes instead of those of the plan")
    groups: dict[Word, dict[Word, dict[Path, Scalar]]] = Field(
        default={}, description="Groups instead of those of the plan"
    )
    seeds: list[Seed] | None = Field(
        default=None, min_length=1, description="Seeds instead of those of the plan"
    )
    without_scripts: StrictBool = Field(default=False, description="Leave out the scripts")


class Experiment(Strict):
    """An experiment of a paper: what the paper says, and how it is compared with the runs of the plan."""

    title: str = Field(min_length=1, description="In the list of experiments")
    paper: str = Field(min_length=1, description="Author, title, year")
    figure: str = Field(min_length=1, description="The figure, table or section")
    setting: str = Field(min_length=1, description="What the paper says of its setting, and what was chosen")
    explanation: str = Field(min_length=1, description="Why the numbers differ, from event logs and sources")
    claim: list[Claim] = Field(min_length=1, description="What the paper claims")
    table: list[Exhibit] = Field(default=[], description="Tables of the page")
    excerpt: list[Excerpt] = Field(default=[], description="Lines of recordings in the page")
    kernel: Changes = Field(
        default=Changes(), description="What the plan has instead on the substrate `kernel`"
    )
    not_on_kernel: str = Field(default="", description="Why it cannot run on `kernel`")
