"""Compares searches with random search at equal CPU.

    python tools/search_compare.py plans/search-*.toml --seeds 10 --runs 240 --out out/search

It prints the table of docs/searching.md and draws its figure. Every run is made by one process, so that CPU
times are comparable.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from tcpassay.interface import METRICS
from tcpassay.plan import read
from tcpassay.results import load
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session
from tcpassay.terminal import number

Curve = list[tuple[float, float]]
"""CPU seconds, and the best value after this time."""


def ran(text: str, near: Path) -> dict:
    """`result.json` and the runs of a plan with this text."""
    with tempfile.TemporaryDirectory() as folder:
        plan = read.read(text, near)
        with Session.begin(plan, Path(folder) / "out", Beginning(), replace_=True) as session:
            execute(session, Local(1))
        results = load(Path(folder) / "out")
        return {**results.index, "runs": results.runs}


def strategy(text: str, said: str) -> str:
    """The plan with another strategy, or with further keys of its own strategy if `said` contains no `kind`."""
    start = text.index("[strategy]\n")
    end = text.find("\n[", start + 1)
    kept = [
        line
        for line in text[start:end].splitlines()
        if line.split(" ")[0] in {"kind", "metric", "worst", "finding"}
    ]
    header = "\n".join(kept) if not said.startswith("kind") else ""
    return f"{text[:start]}[strategy]\n{header}\n{said}\n{text[end:]}"


def curve(made: dict, metric: str, *, greatest: bool) -> Curve:
    """The best value after each run, by the CPU time of all runs up to it."""
    best, spent, points = None, 0.0, []
    for run in made["runs"]:
        spent += run["cpu_s"]
        value = run["metrics"].get(metric)
        if value is not None and (best is None or (value > best) == greatest):
            best = value
        if best is not None:
            points.append((spent, best))
    return points


def at(points: Curve, cpu_s: float) -> float:
    """The best value after this CPU time."""
    return [value for spent, value in points if spent <= cpu_s][-1]


def search(files: list[Path], seeds: range, runs: int, out: Path) -> None:
    """The table and the figure of searches against random search."""
    curves = {}
    print("| plan | objective | CPU s | evolution | random | evolution worse in |")
    print("| --- | --- | --- | --- | --- | --- |")
    for file in files:
        by_method: dict[str, list[Curve]] = {"evolution": [], "random": []}
        for seed in seeds:
            for method, among in by_method.items():
                # Oracles would cost most of the time and have no effect on the search.
                text = "oracles = false\n" + file.read_text(encoding="utf-8")
                said = f'seed = {seed}\nmethod = "{method}"\nbudget = {{ runs = {runs} }}'
                made = ran(strategy(text, said), file)
                metric, greatest = made["search"]["metric"], made["search"]["worst"] == "greatest"
                among.append(curve(made, metric, greatest=greatest))
        cpu = min(points[-1][0] for among in by_method.values() for points in among)
        pairs = [(at(a, cpu), at(b, cpu)) for a, b in zip(*by_method.values(), strict=True)]
        unit = METRICS[metric].unit
        medians = [number(statistics.median(side), unit) for side in zip(*pairs, strict=True)]
        wins = sum(a != b and (a > b) == greatest for a, b in pairs)
        ties = sum(a == b for a, b in pairs)
        told = f"{wins} of {len(seeds)} seeds" + (f", equal in {ties}" if ties else "")
        end = "greatest" if greatest else "least"
        print(
            f"| {file.stem} | {end} `{metric}` | {cpu:.1f} | {medians[0]} | {medians[1]} | {told} |",
            flush=True,
        )
        curves[file.stem] = (metric, cpu, by_method)
    draw(curves, out)


def draw(curves: dict, out: Path) -> None:
    """Medians over the seeds of the best value by CPU time, with the range from the least to the greatest."""
    import matplotlib as mpl  # noqa: PLC0415 - only for the figure

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(
        1, len(curves), figsize=(3.6 * len(curves), 2.8), layout="constrained", squeeze=False
    )
    for panel, (name, (metric, cpu, by_method)) in zip(panels[0], curves.items(), strict=True):
        for (method, among), colour in zip(by_method.items(), ("tab:blue", "tab:orange"), strict=True):
            start = max(points[0][0] for points in among)
            times = [start + n * (cpu - start) / 200 for n in range(201)]
            values = [[at(points, time) for points in among] for time in times]
            panel.plot(times, [statistics.median(some) for some in values], color=colour, label=method)
            panel.fill_between(
                times, [*map(min, values)], [*map(max, values)], color=colour, alpha=0.15, linewidth=0
            )
        panel.set(title=name, xlabel="CPU time of the runs (s)", ylabel=f"{metric} ({METRICS[metric].unit})")
    panels[0][0].legend()
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "search.svg", metadata={"Date": None})
    figure.savefig(out / "search.png", dpi=130)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plans", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=240)
    parser.add_argument("--out", type=Path, default=Path("out/search"))
    said = parser.parse_args()
    search(said.plans, range(said.first, said.first + said.seeds), said.runs, said.out)


if __name__ == "__main__":
    main()
