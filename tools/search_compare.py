"""Compares searches with random search at equal CPU, and guided plans with other strategies at equal numbers of cases.

    python tools/search_compare.py search plans/search-*.toml --seeds 10 --runs 240 --out out/search
    python tools/search_compare.py guided plans/guided.toml --seeds 5 --out out/search

It prints the tables of docs/search.md; `search` also draws the figure. Every run is made by one process, so that CPU
times are comparable.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from tcpassay.interface import METRICS
from tcpassay.plan import axis, model, read
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session
from tcpassay.terminal import number

Curve = list[tuple[float, float]]
"""CPU seconds, and the best value after this time."""


def ran(text: str, near: Path) -> dict:
    """`result.json` of a plan with this text."""
    with tempfile.TemporaryDirectory() as folder:
        plan = read.read(text, near)
        with Session.begin(plan, Path(folder) / "out", Beginning(), replace_=True) as session:
            execute(session, Local(1))
        return json.loads((Path(folder) / "out" / "result.json").read_text(encoding="utf-8"))


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


def reached(made: dict, most: int) -> tuple[int, int, float]:
    """Behaviours, pairs of behaviours of one run, and CPU time of the first runs."""
    runs = made["runs"][:most]
    names = {name for run in runs for name in run["reached"]}
    pairs = {pair for run in runs for pair in combinations(sorted(run["reached"]), 2)}
    return len(names), len(pairs), sum(run["cpu_s"] for run in runs)


def listed(text: str, near: Path) -> str:
    """The plan with lists of levels instead of sequences, for strategies that support only lists."""
    spec = read.read(text, near).spec
    lines = text.splitlines()
    for path, one in spec.axes.items():
        if isinstance(one, model.Losses | model.Rates):
            place = next(n for n, line in enumerate(lines) if line.startswith(f'"{path}" ='))
            lines[place] = f'"{path}" = {json.dumps(axis.values(path, one))}'
    return "\n".join(lines) + "\n"


def strategies(file: Path, seed: int, cases: int) -> Iterator[tuple[str, dict]]:
    """The runs of each strategy; the number of cases of the covering arrays is the minimum of the other strategies."""

    def other(said: str) -> dict:
        text = listed(file.read_text(encoding="utf-8"), file)
        return ran(strategy(text, said), file)

    three = other(f'kind = "t-way"\nstrength = 3\nseed = {seed}')
    most = max(cases, len(three["runs"]))
    yield "t-way, strength 2", other(f'kind = "t-way"\nstrength = 2\nseed = {seed}')
    yield "t-way, strength 3", three
    yield "random", other(f'kind = "random"\ncount = {most}\nseed = {seed}')
    drawn = f'kind = "search"\nmetric = "throughput"\nmethod = "random"\nbudget = {{ runs = {most} }}\nseed = {seed}'
    yield "random, with random losses", ran(strategy(file.read_text(encoding="utf-8"), drawn), file)
    yield (
        "guided",
        ran(
            strategy(
                file.read_text(encoding="utf-8"),
                f'kind = "guided"\nbudget = {{ runs = {most} }}\nseed = {seed}',
            ),
            file,
        ),
    )


def guided(file: Path, seeds: range, cases: int) -> None:
    """The table of guided plans against other strategies: means over the seeds."""
    rows: dict[tuple[str, int], list[tuple[int, int, float]]] = {}
    for seed in seeds:
        for name, made in strategies(file, seed, cases):
            whole = len(made["runs"])
            for most in sorted({one for one in (15, 30, 60, 120, 240) if one < whole}):
                rows.setdefault((name, most), []).append(reached(made, most))
            rows.setdefault((name, 0), []).append(reached(made, whole))
    print("| strategy | cases | behaviours | pairs of behaviours | CPU s |")
    print("| --- | --- | --- | --- | --- |")
    for (name, most), among in sorted(rows.items(), key=lambda one: (one[0][1] or 10**9, one[0][0])):
        behaviours, pairs, cpu = (statistics.fmean(side) for side in zip(*among, strict=True))
        print(f"| {name} | {most or 'all'} | {behaviours:.1f} | {pairs:.0f} | {cpu:.1f} |")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["search", "guided"])
    parser.add_argument("plans", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=240)
    parser.add_argument("--out", type=Path, default=Path("out/search"))
    said = parser.parse_args()
    seeds = range(said.first, said.first + said.seeds)
    if said.what == "search":
        search(said.plans, seeds, said.runs, said.out)
    else:
        for file in said.plans:
            guided(file, seeds, said.runs)


if __name__ == "__main__":
    main()
