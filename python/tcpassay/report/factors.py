"""The factors of the runs: parameters, their levels, and the corresponding data of the plan."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from tcpassay.cover import generate
from tcpassay.cover.space import Parameter, Space
from tcpassay.errors import UserError
from tcpassay.plan import combine, extends
from tcpassay.plan.model import PlanFile
from tcpassay.plan.quantity import quantity
from tcpassay.result_format import RunRow
from tcpassay.results import Results, as_text

Codes = npt.NDArray[np.int64]

ABSENT: Final = "(default)"
"""The level of a parameter that a run does not set."""
NONE: Final = "\N{EN DASH}"
"""The level of a parameter that does not apply to a run."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A parameter or a group, and its level in each run."""

    name: str
    levels: tuple[str, ...]
    """The levels of the plan, and further levels of the runs."""
    codes: Codes
    ordered: bool
    """Whether the levels are amounts of one kind; they are then in ascending order."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The space of the plan in the folder."""

    space: Space
    strategy: generate.Strategy
    metrics: tuple[str, ...]
    """The metrics named in the plan."""

    @classmethod
    def of(cls, results: Results) -> "Planned | None":
        """Reads `plan.toml`; `None` if it cannot be read or is not the plan of these runs."""
        try:
            doc = extends.load(results.plan, results.folder / "plan.toml")
            spec = PlanFile.model_validate(doc.data)
            space = combine.space_of(spec, doc)
        except (UserError, ValidationError):
            return None
        # A parameter in constraints may have one level in the plan; then no run contains it. A parameter with one
        # level and negative values is contained only in runs that must be refused.
        names = {parameter.name for parameter in space.parameters}
        varying = {parameter.name for parameter in space.parameters if len(parameter.levels) > 1}
        # Scripts do not belong to the space.
        cases = [run for run in results.runs if not run.get("script")]
        said = {name for run in cases for name in run.get("varied") or {}}
        return (
            cls(space, combine.strategy_of(spec), tuple(spec.metrics)) if varying <= said <= names else None
        )


def constant(parameter: Parameter, runs: int) -> Factor:
    """The factor of a parameter with one level in the plan."""
    return Factor(
        parameter.name, (text_of(parameter.levels[0]),), np.zeros(runs, dtype=np.int64), ordered=False
    )


def varied(results: Results, planned: Planned | None) -> list[Factor]:
    """The factors in the order of the plan, with its levels even if no run has them."""
    known = {one.name: one for one in planned.space.parameters} if planned else {}
    made = []
    for name in dict.fromkeys(name for run in results.runs for name in run.get("varied") or {}):
        levels = [text_of(level) for level in known[name].levels] if name in known else []
        unsaid = levels[known[name].default] if levels else ABSENT
        # A script does not belong to the space, and other cases have no script.
        without = [bool(run.get("script")) or name == "script" for run in results.runs]
        said = [as_text((run.get("varied") or {}).get(name)) for run in results.runs]
        values: list[str | None] = [
            (NONE if scripted else unsaid) if value is None else value
            for value, scripted in zip(said, without, strict=True)
        ]
        made.append(_factor(name, values, levels))
    return made


def text_of(value: object) -> str:
    """The text of a level on the page."""
    return as_text(value) or ""


def _factor(name: str, values: list[str | None], known: list[str]) -> Factor:
    texts = [ABSENT if value is None else value for value in values]
    levels = list(dict.fromkeys([*known, *texts]))
    meanings = [quantity(level) for level in levels]
    ordered = len({meaning.kind for meaning in meanings}) == 1 and all(one.ordered for one in meanings)
    if ordered:
        levels = [level for _, level in sorted(zip([one.amount for one in meanings], levels, strict=True))]
    elif set(levels) == {"on", "off"}:
        levels = ["off", "on"]
    place = {level: n for n, level in enumerate(levels)}
    return Factor(name, tuple(levels), np.array([place[text] for text in texts], dtype=np.int64), ordered)


def settings(runs: list[RunRow], taken: set[str]) -> tuple[list[Factor], dict[str, str]]:
    """The settings of the cases besides the factors: members of groups, and settings that all cases have in common."""
    names = dict.fromkeys(name for run in runs for name in run.get("triples") or {} if name not in taken)
    members, fixed = [], {}
    for name in names:
        factor = _factor(name, [as_text((run.get("triples") or {}).get(name)) for run in runs], [])
        if len(factor.levels) == 1:
            fixed[name] = factor.levels[0]
        else:
            members.append(factor)
    return members, fixed
