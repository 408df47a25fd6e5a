"""Plans written at the end of a search: one for each of its best cases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tcpassay.plan import fields, model, write
from tcpassay.plan.expand import Case
from tcpassay.result_format import SearchRow

FOLDER: Final = "search"


def name_of_best(rank: int, case: str) -> str:
    """The file of a best case in the result folder; rank 1 is the best."""
    return f"{FOLDER}/best-{rank}-{case}.toml"


def plans(search: SearchRow, spec: model.PlanFile, cases: Mapping[str, Case], base: Path) -> dict[str, str]:
    """The plans by file name; `search` is its part of `result.json`, `base` the folder of relative file names."""
    return {
        name_of_best(rank, one["case"]): _best(cases[one["case"]], rank, spec, base)
        for rank, one in enumerate(search["best"], 1)
    }


def _best(case: Case, rank: int, spec: model.PlanFile, base: Path) -> str:
    """A plan of one case, which keeps its recording with events and packets."""
    said = {
        "name": f"{spec.name[:80]}-best-{rank}",
        "doc": f"Case {case.id} of {spec.name}: number {rank} of the best cases of its search.",
        "substrates": [case.substrate],
        "seeds": spec.seeds,
        "fixed": _absolute(case.triples, base),
        "metrics": _metrics(spec),
        "collect": spec.collect.model_dump(exclude_unset=True) | {"events": True, "packets": True},
        "keep": {"recordings": "all"},
    }
    return write.toml(model.PlanFile.model_validate(said), f"Found by the search of {spec.name}.")


def _metrics(spec: model.PlanFile) -> list[str]:
    searched = spec.strategy.metric if isinstance(spec.strategy, model.Search) else None
    return list(dict.fromkeys([*([searched] if searched else []), *spec.metrics]))


def _absolute(triples: Mapping[str, fields.Scalar], base: Path) -> dict[str, fields.Scalar]:
    return {path: write.absolute(value, base) for path, value in triples.items()}
