"""The tables of docs/controllers.md, from the results of plans/controllers.toml.

    .venv/bin/tcpassay run plans/controllers.toml
    .venv/bin/python tools/controllers.py results/controllers docs/controllers.md

Each table belongs to a section whose heading ends with the name of its metric in brackets.
"""

import re
import sys
from pathlib import Path

from tcpassay import terminal
from tcpassay.compare import Options
from tcpassay.compare.between import Ranking, Rankings, between, levels
from tcpassay.interface import METRICS
from tcpassay.results import load

TABLE = re.compile(r"(^## [^\n]*\(`(\w+)`\)\n\n)\|.*?(?=\n\n)", re.MULTILINE | re.DOTALL)


def cell(ranking: Ranking, controller: str) -> str:
    """The median; bold if no other controller is better and this one is better than another."""
    median = ranking.medians.get(controller)
    if median is None:
        return "-"
    text = terminal.number(float(f"{median:.4g}"), METRICS[ranking.metric].unit)
    best = controller in ranking.best and any(one.value == controller for one in ranking.better)
    return f"**{text}**" if best else text


def table(rankings: Rankings, metric: str, controllers: list[str]) -> str:
    """The table of a metric."""
    lines = [f"| scenario | {' | '.join(controllers)} |", f"|{' --- |' * (len(controllers) + 1)}"]
    for ranking in rankings.rankings:
        if ranking.metric == metric:
            cells = [cell(ranking, controller) for controller in controllers]
            lines.append(f"| {ranking.level} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Replaces the tables of the document."""
    results, document = load(Path(sys.argv[1])), Path(sys.argv[2])
    text = document.read_text(encoding="utf-8")
    metrics = tuple(found[2] for found in TABLE.finditer(text))
    rankings = between(results, "controller", "scenario", Options(metrics=metrics), simultaneous=False)
    controllers = levels(results, "controller")
    made = TABLE.sub(lambda found: found[1] + table(rankings, found[2], controllers), text)
    document.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
