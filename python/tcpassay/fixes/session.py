"""The runs of a verification: the plan, the isolation and explanation of its findings, and the cases of each fix.

OUT/plan     results of the plan
OUT/<fix>    results of the cases that a fix changes
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.explain import Explanation, explain
from tcpassay.fixes.variant import Fix, Variant, variant
from tcpassay.isolate import Isolation, Options, isolate
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.symptoms import effect_of
from tcpassay.plan.read import Plan
from tcpassay.run.execute import Local, Watch, execute
from tcpassay.run.result import Result, Run
from tcpassay.run.session import Beginning, Session

PLAN: Final = "plan"
NO_EFFECT_WITHOUT: Final = {"stack.dctcp_receiver": "marks"}
"""For a setting the metric without which it has no effect in a run: receivers of DCTCP differ in what they do when the
CE mark of arriving packets changes."""


@dataclass(frozen=True, slots=True)
class Work:
    """How the runs are made."""

    out: Path
    jobs: int
    replace: bool
    """Whether earlier results are replaced; otherwise they are continued."""
    watch: Callable[[str], AbstractContextManager[Watch | None]]
    """Makes the progress of a result folder."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The cases that a fix changes, with the fix."""

    variant: Variant
    result: Result
    remaining: list[tuple[Run, Effect]]
    """Findings of runs with the fix that the same case has without it."""
    new: list[tuple[Run, Effect]]
    """Findings of runs with the fix that the same case does not have without it."""

    @property
    def fix(self) -> Fix:
        """The fix."""
        return self.variant.fix

    @property
    def ended(self) -> bool:
        """Whether every run has the outcome that its case expects."""
        return all(run.as_expected for run in self.result.runs)

    @property
    def works(self) -> bool:
        """Whether all runs ended as expected and none has a finding."""
        return self.ended and not self.remaining and not self.new


@dataclass(slots=True)
class History:
    """What a plan finds, why, and what remains with each fix."""

    found: Result
    isolation: Isolation | None = None
    """`None` if the plan finds nothing."""
    explanations: list[Explanation] = field(default_factory=list)
    """One for each cause."""
    fixes: list[Fixed] = field(default_factory=list)

    @property
    def faulty(self) -> list[Run]:
        """The runs of the plan with findings."""
        return [run for run in self.found.runs if run.findings]

    @property
    def untouched(self) -> list[Run]:
        """Those of them that no fix changes."""
        changed = {case.id for one in self.fixes for case in one.variant.before.values()}
        return [run for run in self.faulty if run.case.id not in changed]

    @property
    def verified(self) -> bool:
        """Whether the plan finds something, each finding has a proven cause, and every fix works."""
        made = self.isolation
        if made is None or made.left or made.unreproduced or made.everywhere:
            return False
        return all(cause.proven for cause in made.causes) and all(one.works for one in self.fixes)


def effects(run: Run) -> list[Effect]:
    """What the oracles found in a run, each once."""
    return list(dict.fromkeys(map(effect_of, run.findings)))


def verify(plan: Plan, chosen: frozenset[str] | None, fixes: Sequence[Fix], work: Work) -> History:
    """Runs a plan, isolates and explains what it finds, and runs it with each fix. Raises `UserError`.

    `chosen` are the ids of the cases; `None` runs all. All fixes are checked before the first run.
    """
    variants = [variant(plan, fix, chosen) for fix in fixes]
    made = History(_run(plan, chosen, PLAN, work))
    if made.faulty:
        folder = made.found.folder.path
        # The page shows the runs of the causes, not the smallest ones.
        made.isolation = isolate(folder, None, Options(jobs=work.jobs, reduce=False))
        if made.isolation.stopped:
            raise KeyboardInterrupt
        made.explanations = [
            explain(folder, f"{cause.case}-{cause.seed}/{cause.effect.oracle}")
            for cause in made.isolation.causes
            if cause.complete
        ]
    before = {(run.case.id, run.seed): set(effects(run)) for run in made.found.runs}
    for one in (acting(one, made.found.runs) for one in variants):
        result = _run(one.plan, one.ids, one.fix.folder, work)
        remaining: list[tuple[Run, Effect]] = []
        new: list[tuple[Run, Effect]] = []
        for run in result.runs:
            there = before[one.before[one.key(run.case)].id, run.seed]
            for effect in effects(run):
                (remaining if effect in there else new).append((run, effect))
        made.fixes.append(Fixed(one, result, remaining, new))
    return made


def acting(one: Variant, runs: Sequence[Run]) -> Variant:
    """The fix without the cases in whose runs the setting had no effect; unchanged if it had none in any run."""
    metric = NO_EFFECT_WITHOUT.get(one.fix.path)
    if metric is None:
        return one
    effective = {run.case.id for run in runs if run.metrics.get(metric) != 0}
    before = {key: case for key, case in one.before.items() if case.id in effective}
    return replace(one, before=before) if before else one


def with_fix(run: Run, one: Fixed) -> Run | None:
    """The same run with a fix; `None` if the fix does not change it."""
    key = one.variant.key(run.case)
    if one.variant.before.get(key, run.case).id != run.case.id or key not in one.variant.before:
        return None
    return next(
        other for other in one.result.runs if (one.variant.key(other.case), other.seed) == (key, run.seed)
    )


def _run(plan: Plan, chosen: frozenset[str] | None, name: str, work: Work) -> Result:
    folder = work.out / name
    how = Beginning(chosen)
    work.out.mkdir(parents=True, exist_ok=True)
    if folder.exists() and not work.replace:
        session = Session.extend(plan, folder, how, force=False)
    else:
        session = Session.begin(plan, folder, how, replace_=work.replace)
    with session, work.watch(name) as watch:
        result = execute(session, Local(work.jobs), watch)
    if result.status == "interrupted":
        raise KeyboardInterrupt
    if result.status != "complete":
        raise UserError(f"the runs in {folder} are not complete: {result.status}")
    return result
