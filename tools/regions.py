"""The regions of open settings that contain the numbers of "Experiences Evaluating DCTCP" about its tests in a rack.

    tcpassay run plans/rack-regions.toml --out RESULTS
    python tools/regions.py RESULTS

For each setting it counts the claims of the experiments that hold there, by the rules of the experiments' pages, and
prints the settings in which most claims of an experiment, and of all three, hold at once.
"""

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tcpassay import markdown
from tcpassay.experiments.verdict import Verdict, of_claim
from tcpassay.plan import experiment_table, read
from tcpassay.results import load

PLANS: Final = Path(__file__).parents[1] / "plans" / "papers"
EXPERIMENTS: Final = ("intra-rack", "intra-rack-fixed", "intra-rack-tails")
OPEN: Final = ("load", "queue.limit", "queue.ecn_threshold")


class Region(NamedTuple):
    """Values of the open settings."""

    load: str
    limit: str
    threshold: str


def controller(where: Mapping[str, object]) -> str:
    """The level of the plan for the cases of a claim."""
    if "controller" not in where:
        return "old"
    return "cubic" if where["controller"] == "cubic" else "fixed"


class Measured:
    """The metrics of the runs."""

    def __init__(self, folder: Path) -> None:
        self.by_case = {
            tuple(str(run["varied"][name]) for name in ("controller", *OPEN)): run["metrics"] or {}
            for run in load(folder).runs
        }
        levels = zip(*self.by_case, strict=True)
        self.axes = [list(dict.fromkeys(level)) for level in levels][1:]

    def value(self, kind: str, region: Region, metric: str) -> float | None:
        """A metric with this controller. CUBIC meets no threshold, and the others ran with one buffer."""
        limit, threshold = (region.limit, "100KB") if kind == "cubic" else ("3MB", region.threshold)
        row = self.by_case.get((kind, region.load, limit, threshold))
        return None if row is None else row.get(metric)

    def holds(self, claim: experiment_table.Claim, region: Region) -> bool:
        """Whether a claim holds in a region."""
        value = self.value(controller(claim.where), region, claim.metric)
        if claim.relative_to and value is not None:
            base = self.value(controller(claim.relative_to), region, claim.metric)
            value = value / base if base else None
        return of_claim(claim, value) is Verdict.REPRODUCED


def claims(name: str) -> list[experiment_table.Claim]:
    """The claims of an experiment."""
    file = PLANS / f"{name}.toml"
    experiment = read.read(file.read_text(encoding="utf-8"), file).spec.experiment
    return [] if experiment is None else experiment.claim


def main() -> None:
    """Prints the tables."""
    measured = Measured(Path(sys.argv[1]))
    regions = [Region(*values) for values in itertools.product(*measured.axes)]
    every: dict[Region, dict[str, int]] = {region: {} for region in regions}
    sizes = {}
    for name in EXPERIMENTS:
        wanted = claims(name)
        sizes[name] = len(wanted)
        for region in regions:
            every[region][name] = sum(measured.holds(claim, region) for claim in wanted)
        print(f"\n## {name}: claims of {len(wanted)} that hold\n")
        columns = list(dict.fromkeys((region.limit, region.threshold) for region in regions))
        if name == "intra-rack-tails":
            columns = [one for one in columns if one[0] == "3MB"]
        rows = [
            [load_, *(str(every[Region(load_, *column)][name]) for column in columns)]
            for load_ in measured.axes[0]
        ]
        print(markdown.table(["load", *("/".join(column) for column in columns)], rows))
        best = max(counts[name] for counts in every.values())
        print(f"\nAt most {best} of {len(wanted)}:")
        for region in regions:
            if every[region][name] == best:
                missed = [claim.name for claim in wanted if not measured.holds(claim, region)]
                print(f"* {'/'.join(region)}; missed: {', '.join(missed) or 'none'}")
    together = max(sum(counts.values()) for counts in every.values())
    print(f"\n## All three: at most {together} of {sum(sizes.values())} claims at once\n")
    for region, counts in every.items():
        if sum(counts.values()) == together:
            print(f"* {'/'.join(region)}: {', '.join(f'{name} {count}' for name, count in counts.items())}")


if __name__ == "__main__":
    main()
