"""The report's table of levels in a browser: what counts as one value, and which parameters are crossed."""

from collections.abc import Callable
from pathlib import Path

from views import View

import folders
from tcpassay.report import write_report


def test_a_seed_counts_once_with_the_mean_over_its_cases_and_no_table_is_a_diagonal(
    view: Callable[[Path], View], tmp_path: Path
) -> None:
    rates = {("reno", "50KB"): 10, ("reno", "1MB"): 20, ("cubic", "50KB"): 50, ("cubic", "1MB"): 90}
    runs = [
        folders.run(
            f"{cc}{limit}",
            seed,
            {"goodput": (rate + 2 * seed) * 1e6},
            stack__cc=cc,
            controller=cc,
            queue__limit=limit,
        )
        for (cc, limit), rate in rates.items()
        for seed in (1, 2, 3)
    ]
    file = write_report(folders.folder(tmp_path / "made", runs)).file
    page = view(file).open("#metric=goodput&down=stack.cc&across=-")
    rows = [row.split("\t") for row in page.page.locator("#levels tbody tr").all_inner_texts()]
    # Seeds have 17, 19 and 21, and 72, 74 and 76: a standard deviation of 2, times t of two degrees of freedom (4.303)
    # over the root of 3.
    assert rows == [["reno", "19 \u00b1 5 Mbit/s"], ["cubic", "74 \u00b1 5 Mbit/s"]]
    page = view(file).open("#metric=goodput")
    heads = page.page.locator("#levels thead th").all_inner_texts()
    assert [head.split()[0] for head in heads] == ["queue.limit", "reno", "cubic"]


def test_cases_over_their_seeds_have_a_row_each(view: Callable[[Path], View], tmp_path: Path) -> None:
    runs = [
        folders.run(case, seed, {"goodput": rate * 1e6}, stack__cc=case)
        for case, rates in (("reno", (10, 12)), ("cubic", (50, 50)))
        for seed, rate in enumerate(rates, 1)
    ]
    page = view(write_report(folders.folder(tmp_path / "made", runs)).file).open("#rows=cases")
    rows = [row.split("\t")[:3] for row in page.page.locator("#levels tbody tr").all_inner_texts()]
    # Two seeds that measured the same in everything are one run.
    assert rows == [["reno", "2", "11 \u00b1 13 Mbit/s"], ["cubic", "2", "50 Mbit/s"]]
