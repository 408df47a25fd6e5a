"""The comparison of two kernels over the cases of a plan."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tcpassay.compare.separate import Separation, separate
from tcpassay.errors import UserError
from tcpassay.guard import Stop
from tcpassay.isolate.runner import Budget
from tcpassay.kernel import store
from tcpassay.output import write_whole
from tcpassay.plan.read import Plan, read_file
from tcpassay.results import Results, load
from tcpassay.run.choose import choose
from tcpassay.run.execute import Local, Watch, execute
from tcpassay.run.inputs import base_of
from tcpassay.run.replay import spec_of
from tcpassay.run.result import Result
from tcpassay.run.session import Beginning, Session
from tcpassay.substrate import substrate_of
from tcpassay.trees import executed
from tcpassay.trees.causes import FOLDER, INTERRUPTED, Causes, Search, causes
from tcpassay.trees.drawn import Draw, draws
from tcpassay.trees.examples import Example, commands, examples
from tcpassay.trees.executed import Changes, Executed
from tcpassay.trees.grouping import grouped
from tcpassay.trees.groups import Group
from tcpassay.trees.pairs import By, Shift, TreePair, pairs_of, shifts
from tcpassay.trees.side import Side
from tcpassay.trees.smallest import smallest

DEFAULT: Final = Path(__file__).with_name("default.toml")
"""The plan that is run if none is given."""
_ENDED: Final = frozenset(
    {"done", "refused", "crashed", "timeout", "memory", "stack", "hung", "path", "failed"}
)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a comparison."""

    jobs: int = 1
    seed: int | None = None
    filters: tuple[str, ...] = ()
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    """Budget of the search for causes, and of that for the settings of each group."""
    force: bool = False
    """Replace existing results."""
    resume: bool = False
    """Continue with existing results."""
    reach: Budget | None = None
    """Budget of further cases that are to execute the changed lines; `None` draws none."""
    by: By | None = None
    """What makes a pair different; by default packets if the kernels have the same release, otherwise metrics."""


@dataclass(frozen=True)
class TreeComparison:
    """The result of a comparison."""

    base: Side
    head: Side
    folder: Path
    pairs: list[TreePair]
    separation: Separation | None
    """The settings that separate differing pairs from identical ones; `None` if no pair differs."""
    shifts: list[Shift]
    causes: Causes
    groups: list[Group]
    """Pairs that no setting separates, by the kind of the first event that differs."""
    examples: list[Example]
    seeds: int
    """The largest number of seeds of a case."""
    unfinished: int
    """Number of runs that did not take place, or ended for a reason outside of the kernels."""
    notes: tuple[str, ...] = ()
    by: By = "packets"
    executed: Executed | None = None
    """The changed lines that the runs executed; `None` if a kernel has no counters."""
    uncounted: str = ""
    """Why they are not known, and what to do."""

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt ended the comparison."""
        return self.causes.stopped == INTERRUPTED

    @property
    def different(self) -> list[TreePair]:
        """The pairs that differ in what counts (`by`)."""
        return [one for one in self.pairs if one.differs]

    @property
    def cases(self) -> int:
        """The number of cases."""
        return len({one.head["case"] for one in self.pairs})

    def command(self, pair: TreePair) -> tuple[str, str]:
        """The commands that repeat a pair."""
        return commands(self.folder, pair)

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "format": 1,
            "base": self.base.as_json(),
            "head": self.head.as_json(),
            "results": str(self.folder),
            "by": self.by,
            "cases": self.cases,
            "pairs": len(self.pairs),
            "identical": len(self.pairs) - len(self.different),
            "different": [one.as_json() | {"replay": list(self.command(one))} for one in self.different],
            "separation": "" if self.separation is None else self.separation.text,
            "metrics": [one.as_json() for one in self.shifts],
            "causes": [one.as_json() for one in self.causes.found],
            "unexplained": [{"case": one.head["case"], "seed": one.seed} for one in self.causes.left],
            "stopped": self.causes.stopped,
            "groups": [one.as_json() for one in self.groups],
            "examples": [one.as_json() for one in self.examples],
            "unfinished": self.unfinished,
            "notes": list(self.notes),
            "changed": self.executed.as_json() if self.executed else None,
        }


def read_plan(file: Path | None, base: str, head: str) -> Plan:
    """The plan with both kernels as its substrates. Raises `UserError`."""
    if base == head:
        raise UserError(f"`{base}` is given twice; give two kernels of `tcpassay kernel list`")
    return read_file(file or DEFAULT, substrates=[f"kernel:{base}", f"kernel:{head}"])


def compare_trees(  # noqa: PLR0913, PLR0917 - what is compared, where, how, and who is told
    base: str,
    head: str,
    plan: Plan,
    folder: Path,
    options: Options,
    progress: Watch | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> TreeComparison:
    """Runs a plan of `read_plan` on both kernels and compares the runs. Raises `UserError`.

    The results are written to `folder`, an ordinary result folder.
    """
    kernels = store.find(base), store.find(head)
    for name in (base, head):
        substrate_of(f"kernel:{name}").ready()
    changes = executed.changes_of(kernels)
    if options.reach is not None and changes is None:
        raise UserError(f"`--reach` needs counters: {executed.how_to_count(kernels)}")
    result = ran(plan, folder, options, progress)
    counted = None
    if changes is not None:
        result, counted = _reached(kernels, result, changes, folder, options, progress)
    missing = sum(not run.begun for run in result.runs)
    interrupted = result.status == "interrupted"
    told = evaluate(kernels, plan, load(folder), options, missing, watch, interrupted=interrupted)
    return replace(told, executed=counted, uncounted="" if counted else executed.how_to_count(kernels))


def _reached(  # noqa: PLR0913, PLR0917 - what is compared, where, how, and who is told
    kernels: tuple[store.Kernel, store.Kernel],
    result: Result,
    changes: Changes,
    folder: Path,
    options: Options,
    progress: Watch | None,
) -> tuple[Result, Executed]:
    """The changed lines that the runs executed; with the option, further cases are drawn that may execute more."""
    names = f"kernel:{kernels[0].name}", f"kernel:{kernels[1].name}"

    def pairs() -> list[TreePair]:
        return pairs_of(load(folder), *names)

    def more() -> Draw | None:
        nonlocal result
        draw = next(further)
        how = Beginning(draw.chosen, None, frozenset())
        with Session.extend(draw.plan, folder, how, force=False) as session:
            result = execute(session, Local(options.jobs), progress)
        return draw if result.status == "complete" else None

    if options.reach is None or result.status != "complete":
        return result, changes.executed(pairs())
    further = draws(result.plan, options.filters, executed.batch_of(options.jobs), changes.words)
    told = executed.reach(changes, pairs, more, options.reach)
    return result, told


def evaluate(  # noqa: PLR0913, PLR0917 - what is compared, how, and who is told
    sides: tuple[Side, Side],
    plan: Plan,
    results: Results,
    options: Options,
    missing: int,
    watch: Callable[[str], None],
    *,
    interrupted: bool = False,
) -> TreeComparison:
    """Compares the runs of a result folder; `missing` is the number of runs that were not made.

    An interrupt ends the searches for causes, groups and examples, of which the result then has what was found before;
    with `interrupted` there are none.
    """
    folder = results.folder
    substrates = sides[0].substrate, sides[1].substrate
    by: By = options.by or ("packets" if sides[0].release == sides[1].release else "metrics")
    found = pairs_of(results, *substrates, by)
    ended = [one for one in found if {one.base.get("outcome"), one.head.get("outcome")} <= _ENDED]
    different = [one for one in ended if one.differs]
    identical = [one for one in ended if not one.differs]
    spec, _ = spec_of(results)
    spec = spec.model_copy(update={"constraints": plan.spec.constraints, "groups": plan.spec.groups})
    where = Search(folder, str(base_of(folder)), substrates, spec, options.jobs, options.budget, by)
    searched = [one for one in different if (one.packets or by == "metrics") and not one.head.get("script")]
    why, groups, shown = Causes(left=list(searched), stopped=INTERRUPTED if interrupted else ""), [], []
    with Stop() as stop:
        try:
            if not interrupted:
                why = causes(where, searched, [one for one in identical if not one.head.get("script")], watch)
                stop.check()
                groups = grouped(where, why, different, identical, watch)
                groups = smallest(where, groups, identical, watch)
                shown = examples(results, why, groups, different, sides, options.jobs, watch)
        except KeyboardInterrupt:
            why.stopped = INTERRUPTED
        stop.ignore()
    seeds = [one.head["case"] for one in ended]
    return TreeComparison(
        *sides,
        folder,
        ended,
        separate([one.varied for one in different], [one.varied for one in identical]) if different else None,
        shifts(results, ended),
        why,
        groups,
        shown,
        max((seeds.count(case) for case in set(seeds)), default=0),
        len(found) - len(ended) + missing,
        _notes(*sides, by),
        by,
    )


def ran(plan: Plan, folder: Path, options: Options, progress: Watch | None) -> Result:
    """Performs the pending runs."""
    if options.resume:
        session = Session.resume(folder, force=False)
    else:
        wanted = plan if options.seed is None else plan.with_seeds([options.seed])
        how = Beginning(choose(wanted, options.filters), None, frozenset())
        session = Session.begin(wanted, folder, how, replace_=options.force)
    with session:
        return execute(session, Local(options.jobs), progress)


def _notes(base: Side, head: Side, by: By) -> tuple[str, ...]:
    said: list[str] = []
    if not isinstance(base, store.Kernel) or not isinstance(head, store.Kernel):
        return ()
    if by == "metrics" and base.release != head.release:
        said.append(
            "the releases differ, which a kernel mixes into its random numbers (ports, sequence numbers): "
            "pairs are different if metrics, outcomes or findings differ (--by)"
        )
    for name, of_base, of_head in (
        ("patches of tcpassay", base.patches, head.patches),
        ("lacking features", base.absent, head.absent),
    ):
        if apart := sorted(set(of_base) ^ set(of_head)):
            said.append(f"{name} that only one of the kernels has: {', '.join(apart)}")
    return tuple(said)


def write(told: TreeComparison, text: str) -> Path:
    """Stores the comparison as JSON in its folder."""
    file = told.folder / FOLDER / "comparison.json"
    file.parent.mkdir(exist_ok=True)
    write_whole(file, text)
    return file
