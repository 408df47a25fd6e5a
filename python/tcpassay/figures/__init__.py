"""Figures of a plan, drawn from the recordings in its result folder, or from the metrics of its runs.

An error in a figure becomes a message and does not affect other figures or results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tcpassay import levels
from tcpassay.errors import UserError
from tcpassay.plan import model
from tcpassay.plan.expand import Case
from tcpassay.plan.read import Plan
from tcpassay.run.folder import Folder


@dataclass(slots=True)
class Drawn:
    """The result of drawing the figures of a plan."""

    files: list[str] = field(default_factory=list)
    """File names in the result folder."""
    problems: list[str] = field(default_factory=list)
    """Messages about figures that were not drawn, or not completely."""


def draw(plan: Plan, folder: Folder, done: set[tuple[str, int]], runs: Sequence[levels.Measured]) -> Drawn:
    """Draws every figure of the plan as SVG and PNG, those of a metric also as PDF and with a caption (`.txt`).

    A figure of a metric has the `runs` of all seeds, and a distribution their recordings; the other kinds show one run
    of each case, that of the first seed with a recording, and say so. `done` contains the runs (case and seed) with a
    recording; cases without one are omitted.
    """
    drawn = Drawn()
    for figure in plan.spec.figure:
        name = f"figures/{figure.file}"
        try:
            if isinstance(figure, model.OfMetric):
                _draw_metric(figure, plan, folder, runs, drawn)
            else:
                _draw(figure, plan, folder, done, drawn)
        except UserError as error:
            drawn.problems += [f"{name} was not drawn: {problem}" for problem in error.problems]
        except Exception as error:  # noqa: BLE001 - an error of drawing must not lose the results of the runs
            said = " ".join(str(error).split())
            why = f"{type(error).__name__}{f': {said}' if said else ''}"
            drawn.problems.append(f"{name} was not drawn because of an internal error ({why[:300]})")
    return drawn


def _draw_metric(
    figure: model.OfMetric, plan: Plan, folder: Folder, runs: Sequence[levels.Measured], drawn: Drawn
) -> None:
    meant = {case.id for case in plan.select(figure.where)}
    chosen = [run for run in runs if run.case in meant]
    if not chosen:
        drawn.problems.append(f"figures/{figure.file} was not drawn: none of its cases has metrics")
        return
    # Importing matplotlib takes longer than reading a plan.
    from tcpassay.figures import measured, style  # noqa: PLC0415 - start-up time

    wanted = measured.Wanted(
        figure.metric,
        levels.parameter("by =", figure.by, chosen),
        None if figure.group is None else levels.parameter("group =", figure.group, chosen),
        figure.kind,
        figure.columns,
        figure.scale,
        figure.title,
        figure.labels,
    )
    with style.styled():
        made = measured.draw(chosen, wanted)
        files: dict[str, bytes] = style.save(made.figure, style.FORMATS)
    for suffix, content in {**files, "txt": f"{made.caption}\n".encode()}.items():
        folder.write(f"figures/{figure.file}.{suffix}", content)
        drawn.files.append(f"figures/{figure.file}.{suffix}")


def _draw(figure: model.OfRuns, plan: Plan, folder: Folder, done: set[tuple[str, int]], drawn: Drawn) -> None:
    meant = plan.select(figure.where)
    seeds = {case.id: [seed for seed in plan.spec.seeds if (case.id, seed) in done] for case in meant}
    cases = [case for case in meant if seeds[case.id]]
    name = f"figures/{figure.file}"
    missing = _missing(len(meant) - len(cases), len(meant))
    if not cases:
        if meant:
            drawn.problems.append(f"{name} was not drawn: {missing}")
        return
    # Importing matplotlib and polars takes longer than reading a plan.
    from tcpassay.figures import kinds  # noqa: PLC0415 - start-up time

    if kinds.pools(figure) and not missing:
        absent = sum(len(plan.spec.seeds) - len(of) for of in seeds.values())
        missing = _missing(absent, len(cases) * len(plan.spec.seeds), "runs")
    if missing:
        drawn.problems.append(f"{name} is not complete: {missing}")
    shown = [
        (_label(case, figure), [folder.recording(case.id, seed) for seed in seeds[case.id]]) for case in cases
    ]
    for suffix, content in kinds.draw(figure, shown).items():
        folder.write(f"{name}.{suffix}", content)
        drawn.files.append(f"{name}.{suffix}")
    if said := kinds.left_out(figure, len(shown)):
        drawn.problems.append(f"{name} is not complete: {said}")


def _missing(absent: int, of: int, what: str = "cases") -> str:
    """The reasons why cases or runs are not in a figure; empty if all are."""
    if not absent:
        return ""
    which = f"none of its {of} {what} has" if absent == of else f"{absent} of its {of} {what} do not have"
    return (
        f"{which} a recording; a run keeps its recording if the plan has the figure when it is made, or "
        'with `recordings = "all"` in [keep]: run the plan again into another folder (--out) or with --force'
    )


def _label(case: Case, figure: model.Panel) -> str:
    from tcpassay.figures import kinds  # noqa: PLC0415 - start-up time

    return kinds.name(case, figure)
