"""Figures of a plan, drawn from the recordings in its result folder and from nothing else."""

from tcpassay.plan.read import Plan
from tcpassay.run.folder import Folder


def draw(plan: Plan, folder: Folder, done: set[tuple[str, int]]) -> list[str]:
    """Draws every figure of the plan as SVG and PNG; returns their names in the folder.

    A figure shows the runs of one seed, the plan's first. Runs without a recording are left out.
    """
    if not plan.spec.figure:
        return []
    # Importing matplotlib and polars takes longer than reading a plan.
    from tcpassay.figures import kinds  # noqa: PLC0415

    names = []
    for figure in plan.spec.figure:
        seed = plan.spec.seeds[0]
        cases = [case for case in plan.select(figure.where) if (case.id, seed) in done]
        if not cases:
            continue
        shown = [(kinds.name(case, figure, plan), folder.recording(case.id, seed)) for case in cases]
        for suffix, content in kinds.draw(figure, shown).items():
            name = f"figures/{figure.file}.{suffix}"
            folder.write(name, content)
            names.append(name)
    return names
