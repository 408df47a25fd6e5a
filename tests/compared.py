"""Comparisons of small result folders with literal data."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from folders import folder, run
from tcpassay.compare import Comparison, Effect, Options, compare, show
from tcpassay.results import Results


def results(
    path: Path, runs: list[dict[str, Any]], found: list[tuple[str, str, int]] | None = None
) -> Results:
    return Results(folder(path, runs, found or ()))


def cubic(
    rates: list[float], metric: str = "goodput", cc: str = "cubic", **more: float
) -> list[dict[str, Any]]:
    """The runs of a case with a seed for each rate."""
    return [
        run(f"{cc}0", seed, {metric: rate, **more}, stack__cc=cc) for seed, rate in enumerate(rates, start=1)
    ]


def delays(cc: str, rates: list[float]) -> list[dict[str, Any]]:
    """A case for each rate, all with one seed."""
    return [
        run(f"{cc}{i}", 1, {"goodput": rate}, stack__cc=cc, link__delay=f"{i}ms")
        for i, rate in enumerate(rates)
    ]


def effect(comparison: Comparison, metric: str = "goodput") -> Effect:
    return next(e for e in comparison.effects if e.metric == metric)


def of(tmp_path: Path, a: list[float], b: list[float], metric: str = "goodput", **options: Any) -> Comparison:
    left = results(tmp_path / "a", cubic(a, metric))
    right = results(tmp_path / "b", cubic(b, metric, "reno"))
    return compare(left, right, Options(**({"metrics": (metric,)} | options)))


ALL = Options(everything=True)


TEN = [100.0 + i for i in range(10)]


def seeds(cc: str, effects: list[list[float]]) -> list[dict[str, Any]]:
    return [
        run(f"{cc}{i}", seed, {"goodput": value}, stack__cc=cc, link__delay=f"{i}ms")
        for i, values in enumerate(effects)
        for seed, value in enumerate(values)
    ]


def printed(comparison: Comparison, *, width: int = 160) -> str:
    out = io.StringIO()
    show(comparison, Console(file=out, width=width), {"goodput": "bit/s"})
    return out.getvalue()


def collecting(path: Path, collect: str, **metrics: float) -> Results:
    made = results(path, [run(f"c{i}", 1, metrics, link__delay=f"{i}ms") for i in range(3)])
    (path / "plan.toml").write_text(f'name = "made"\n[collect]\n{collect}\n', encoding="utf-8")
    return made


def kernels(path: Path, name: str, rates: list[float], trace: str = "t") -> Results:
    runs = [
        run(f"{name}{i}", 1, {"goodput": rate}, link__delay=f"{i}ms", stack__cc="dctcp" if i < 3 else "reno")
        | {"substrate": f"kernel:{name}", "trace": f"{trace if i < 3 else ''}{i}"}
        for i, rate in enumerate(rates)
    ]
    return results(path, runs)
