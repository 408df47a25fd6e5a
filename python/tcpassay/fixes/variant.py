"""A plan with a fix: another value of a setting, or another substrate."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tcpassay.errors import Place, UserError
from tcpassay.plan import model, read
from tcpassay.plan.expand import SUBSTRATE, Case, show
from tcpassay.plan.fields import Scalar
from tcpassay.plan.read import Plan

_ONLY_RUNS: Final[dict[str, list[object]]] = {"check": [], "figure": [], "reach": []}
"""Checks and figures are those of the plan without a fix."""
Key = tuple[str, ...]
"""Identifies a case in a plan and in the same plan with a fix."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A setting with a new value, or a substrate (`substrate`), such as a kernel with a patch."""

    path: str
    value: Scalar

    @classmethod
    def of(cls, path: str, text: str) -> Self:
        """The fix of the option `--fix PATH=VALUE`. Numbers and `true` and `false` are written as in plans."""
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        return cls(path, value if isinstance(value, bool | int | float | str) else text)

    def __str__(self) -> str:
        return f"{self.path}={show(self.value)}"

    @property
    def folder(self) -> str:
        """The name of its result folder."""
        return "".join(sign if sign.isalnum() or sign in "._-+" else "-" for sign in str(self))


@dataclass(frozen=True, slots=True)
class Variant:
    """The cases of a plan that a fix changes."""

    fix: Fix
    plan: Plan
    before: Mapping[Key, Case]
    """The changed cases as they are in the plan without the fix."""

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the changed cases with the fix."""
        return frozenset(case.id for case in self.plan.cases if self.key(case) in self.before)

    def key(self, case: Case) -> Key:
        """What identifies a case with and without the fix."""
        return _key(case, self.fix)


def variant(plan: Plan, fix: Fix, chosen: frozenset[str] | None) -> Variant:
    """The plan with a fix. `chosen` are the ids of the cases of the plan that run. Raises `UserError`."""
    spec = _changed(plan.spec, fix, plan.file)
    try:
        changed = read.read(plan.resolved(spec), plan.file)
    except UserError as error:
        first = error.problems[0].message
        raise UserError(f"`--fix {fix}`: the plan is not valid with it: {first}", Place(plan.file)) from None
    after = {_key(case, fix): case for case in changed.cases}
    before = {_key(case, fix): case for case in plan.cases}
    if set(after) != set(before) or len(before) != len(plan.cases):
        raise UserError(
            f"`--fix {fix}`: with it the plan has other cases, which cannot be compared", Place(plan.file)
        )
    differing = {
        key: case
        for key, case in before.items()
        if after[key].id != case.id and (chosen is None or case.id in chosen)
    }
    if not differing:
        raise UserError(f"`--fix {fix}`: it changes none of the cases that run", Place(plan.file))
    return Variant(fix, changed, differing)


def _key(case: Case, fix: Fix) -> Key:
    where = () if fix.path == SUBSTRATE else (case.substrate,)
    return (*where, *(f"{name}={show(value)}" for name, value in case.varied.items() if name != SUBSTRATE))


def _changed(spec: model.PlanFile, fix: Fix, file: Path) -> model.PlanFile:
    """The specification with the fix; its other cases keep their values."""
    if fix.path == SUBSTRATE:
        if not isinstance(fix.value, str):
            raise UserError(f"`--fix {fix}`: a substrate is a name, as in `substrate=kernel:NAME`")
        if len(spec.substrates) != 1:
            said = ", ".join(f"`{one}`" for one in spec.substrates)
            raise UserError(f"`--fix {fix}`: the plan has several substrates, {said}; give one", Place(file))
        return spec.model_copy(update={"substrates": [fix.value], **_ONLY_RUNS})
    if fix.path in spec.axes:
        raise UserError(
            f"`--fix {fix}`: the plan varies it; a fix is another value of a fixed setting", Place(file)
        )
    there = [table for levels in spec.groups.values() for table in levels.values() if fix.path in table]
    stated = [case for case in spec.case if fix.path in case]
    if stated:
        raise UserError(f"`--fix {fix}`: a `[[case]]` of the plan sets it", Place(file))
    if there:
        groups = {
            name: {level: _with(table, fix) for level, table in levels.items()}
            for name, levels in spec.groups.items()
        }
        return spec.model_copy(update={"groups": groups, **_ONLY_RUNS})
    return spec.model_copy(update={"fixed": spec.fixed | {fix.path: fix.value}, **_ONLY_RUNS})


def _with(table: Mapping[str, Scalar], fix: Fix) -> dict[str, Scalar]:
    return {path: fix.value if path == fix.path else value for path, value in table.items()}
