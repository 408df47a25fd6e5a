"""The table `[experiment]` of a plan: the claims of a paper, and the measurements that are compared with them."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, model_validator

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
QUOTED: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
"""A quoted number in an explanation."""
QuoteName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["cubic_p99"])]
Quantity = StrictInt | StrictFloat | Amount


class Measured(Strict):
    """A number that is taken from the runs of an experiment."""

    metric: str = Field(
        description="A metric (`tcpassay metrics`) or a reading (`tcpassay experiments readings`)"
    )
    where: Selector = Field(default={}, description="The selected cases: parameter = value or list")
    flow: FlowNumber | None = Field(
        default=None,
        description="The flow of a reading about one flow: its number among those with data, from 1",
    )
    relative_to: Selector | None = Field(
        default=None,
        description="Divides the number by that of the case that differs in these parameters only",
    )
    over: Literal["mean", "median", "min", "max"] = Field(
        default="median", description="The statistic over all selected runs"
    )


class Claim(Measured):
    """A statement of a paper, its place in the paper, and the criterion for its reproduction."""

    name: str = Field(min_length=1, description="The measured quantity")
    place: str = Field(min_length=1, description="The place in the paper")
    paper: Quantity | None = Field(default=None, description="The paper's number, in the unit of the metric")
    says: str = Field(default="", description="The paper's statement if it gives no number")
    within: Annotated[Number, Field(gt=1)] | None = Field(
        default=None,
        description="The claim is reproduced if the number is at most this factor above or below the "
        "paper's number",
    )
    reproduced: list[Condition] = Field(
        default=[],
        description="The claim is reproduced if all of these conditions hold; they have precedence over "
        "`within`",
    )
    direction: list[Condition] = Field(
        default=[],
        description="If the claim is not reproduced but these conditions hold, its direction is reproduced",
    )


class Quote(Measured):
    """A measured number that the explanation quotes as `{name}`."""

    name: QuoteName = Field(description="Its name in the explanation")
    on: Literal["model", "kernel"] = Field(default="model", description="The substrate of the runs")
    count: list[Condition] = Field(
        default=[], description="Quotes the number of the runs for which these conditions hold"
    )
    percent: StrictBool = Field(default=False, description="Quotes a share as a percentage")


class Column(Measured):
    """A column of a table of an experiment; a row of the table restricts its cases further."""

    heading: str = Field(min_length=1, description="Heading of the column")
    paper: dict[str, Quantity | Literal["-"]] = Field(
        default={}, description="The paper's numbers, by the value of the row"
    )
    within: Annotated[Number, Field(gt=1)] | None = Field(
        default=None,
        description="Numbers that differ from the paper's by at most this factor are printed bold",
    )


class Exhibit(Strict):
    """A table of an experiment, in the form of the paper, or with the results of a sweep of an unknown setting."""

    title: str = Field(min_length=1, description="Title of the table")
    rows: str = Field(
        default="",
        description="The axis or group whose values are the rows; without it the table has one row",
    )
    runs: StrictBool = Field(
        default=False,
        description="The rows are the runs in ascending order, then their mean and standard deviation",
    )
    column: list[Column] = Field(min_length=1, description="The columns")


class Excerpt(Strict):
    """Lines of a recording, from a log or an analysis."""

    title: str = Field(min_length=1, description="Title of the excerpt")
    kind: Literal["rounds", "siftr", "events", "ss", "arrivals"] = Field(
        description="Round trips of a flow (`tcpassay rtt`), lines of siftr or of the event log (`tcpassay log`), the "
        "summary of `ss -ti`, or the order in which segments arrive"
    )
    where: Selector = Field(default={}, description="The case, the first one that is selected")
    flow: FlowNumber = Field(default=1, description="Number of the flow among those with data, from 1")
    after: str = Field(default="", description="Text of the first line of interest (`events`, `siftr`)")
    before: Annotated[StrictInt, Field(ge=0, le=100)] = Field(
        default=3, description="Number of displayed lines before that line"
    )
    lines: Annotated[StrictInt, Field(ge=1, le=200)] = Field(default=12, description="Number of lines")


class Changes(Strict):
    """The changes of a plan for the substrate `kernel`."""

    modules: list[Word] = Field(
        default=[],
        description="Modules of this package in the kernel: it is the default kernel with `kernel build --module`",
    )
    leave_out: list[Path] = Field(
        default=[], description="Parameters that `kernel` does not support; they are removed"
    )
    fixed: dict[Path, Scalar] = Field(default={}, description="Values instead of those of the plan")
    axes: dict[Path, Values] = Field(default={}, description="Axes instead of those of the plan")
    groups: dict[Word, dict[Word, dict[Path, Scalar]]] = Field(
        default={}, description="Groups instead of those of the plan"
    )
    seeds: list[Seed] | None = Field(
        default=None, min_length=1, description="Seeds instead of those of the plan"
    )
    without_scripts: StrictBool = Field(default=False, description="Omit the scripts")
    planted: StrictBool = Field(
        default=False,
        description="The fault is planted there: if all claims are reproduced, the verdict is `mechanism shown`",
    )
    slower_by: Annotated[Number, Field(gt=1)] | None = Field(
        default=None,
        description="Rates are divided and delays multiplied by this factor: measured times are divided and measured "
        "rates multiplied by it before they are compared with the paper's",
    )


class Experiment(Strict):
    """An experiment of a paper: its claims, and how they are compared with the runs of the plan."""

    title: str = Field(min_length=1, description="Title in the list of experiments")
    paper: str = Field(min_length=1, description="Author, title, year")
    figure: str = Field(min_length=1, description="The figure, table or section of the paper")
    setting: str = Field(
        min_length=1, description="The settings that the paper states, and those that were chosen"
    )
    explanation: str = Field(
        min_length=1, description="Why the numbers differ, according to event logs and source code"
    )
    claim: list[Claim] = Field(min_length=1, description="The claims of the paper")
    quote: list[Quote] = Field(
        default=[], description="The measured numbers of the explanation, where they are written as `{name}`"
    )
    apart: str = Field(
        default="",
        description="What was measured with other plans, with the version of tcpassay; its numbers are not renewed",
    )
    table: list[Exhibit] = Field(default=[], description="Tables of the experiment's page")
    excerpt: list[Excerpt] = Field(default=[], description="Excerpts of recordings in the page")
    kernel: Changes = Field(default=Changes(), description="Changes of the plan for the substrate `kernel`")
    not_on_kernel: str = Field(default="", description="Why the experiment cannot run on `kernel`")

    @model_validator(mode="after")
    def _quotes(self) -> "Experiment":
        used = set(QUOTED.findall(self.explanation))
        known = {quote.name for quote in self.quote}
        if used != known:
            odd = ", ".join(f"`{name}`" for name in sorted(used ^ known))
            raise ValueError(f"in `explanation` but not in `quote`, or the reverse: {odd}")
        return self
