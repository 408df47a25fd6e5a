"""The tables of parameters and metrics, as the data plane declares them."""

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypedDict

from tcpassay import _native
from tcpassay.interface import METRICS
from tcpassay.plan.quantity import quantity

SEED: Final = "seed"
"""The name with which tables and figures have the seeds as levels."""
# Types of values by kind of parameter.
UNITS: Final = {
    "a length of time": "s",
    "a number of bytes": "B",
    "a rate": "bit/s",
    "a number of packets": "packets",
    "a number": "1",
}


class Tunable(TypedDict):
    """A parameter of a congestion controller."""

    default: float
    min: float
    max: float
    doc: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entity."""

    path: str
    kind: str
    allowed: str
    default: str
    levels: list[str]
    substrates: list[str]
    constraints: str
    doc: str
    choices: list[str] = field(default_factory=list)
    controllers: dict[str, Tunable] = field(default_factory=dict)
    """For a parameter of controllers, its meaning in each of them."""
    unit: str = field(init=False)
    """The unit of its numbers: `s`, `B`, `bit/s`, `packets` or 1; empty for words."""

    def __post_init__(self) -> None:
        kinds = (quantity(level).kind for level in (*self.levels, self.default))
        known = {"time": "s", "bytes": "B", "rate": "bit/s", "real": "1"}
        unit = known.get(self.kind) or next((UNITS[kind] for kind in kinds if kind in UNITS), "")
        object.__setattr__(self, "unit", unit)

    @property
    def entity(self) -> str:
        """The part of the path that names the entity."""
        return self.path.split(".")[0]


@cache
def parameters() -> dict[str, Parameter]:
    """All parameters by path, in the order of the table."""
    rows = (Parameter(**row) for row in json.loads(_native.params_json()))
    return {row.path: row for row in rows}


_DEFINITIONS: Final = """\
*Flows of the test*: of each connection that is not background traffic, the direction that carried more payload. If no
connection of a run carried any, because each SYN was lost, each counts with its first direction: rates are 0.
*Window*: from the end of the warm-up, counted from the opening of the first of these flows, to the end of the last
one, or of the run. A metric of which a run has nothing is absent, never 0."""
"""The terms of the table of metrics."""


def markdown() -> str:
    """`docs/parameters.md`."""
    lines = [
        "# Parameters",
        "",
        "Generated from the data plane's table by `tcpassay params --markdown`; a test compares the two.",
        "",
        "A path may be addressed to one side or instance, `sender/stack.ecn`; the most specific one applies.",
        "The default is the simplest value.",
    ]
    entity = ""
    for row in parameters().values():
        if row.entity != entity:
            entity = row.entity
            lines += [
                "",
                f"## {entity}",
                "",
                "| path | unit | allowed | default | levels | substrates | meaning |",
                "| --- | --- | --- | --- | --- | --- | --- |",
            ]
        levels = ", ".join(f"`{level}`" for level in row.levels)
        meaning = f"{row.doc} ({row.constraints})" if row.constraints else row.doc
        cells = [
            f"`{row.path}`",
            row.unit,
            row.allowed,
            f"`{row.default}`",
            levels,
            ", ".join(row.substrates),
            meaning,
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "# Metrics", "", _DEFINITIONS, "", "| name | unit | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{row.name}` | {row.unit} | {row.doc} |" for row in METRICS.values()]
    return "\n".join(lines) + "\n"
