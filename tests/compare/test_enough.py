"""`tcpassay plan` says that seeds are too few for a statement at 95 %."""

from pathlib import Path

import pytest

from tcpassay.plan import read
from tcpassay.plan.enough import too_few

PLAN = """
name = "p"
seeds = {seeds}
metrics = {metrics}
[axes]
"stack.cc" = ["reno", "cubic"]
"""


@pytest.mark.parametrize(
    ("seeds", "metrics", "said"),
    [
        (
            [1, 2, 3, 4, 5],
            ["goodput"],
            "at most 5 pairs of runs, and 95 % for 1 metric and 1 pair of values takes 6",
        ),
        ([1, 2, 3, 4, 5, 6], ["goodput"], ""),
        # 0.05 / 3: 2 / 2^7 is below it, 2 / 2^6 is not.
        (
            [1, 2, 3, 4, 5, 6],
            ["goodput", "rtt_p99", "loss_rate"],
            "at most 6 pairs of runs, and 95 % for 3 metrics",
        ),
        ([1], ["goodput"], ""),
    ],
)
def test_a_plan_whose_seeds_cannot_reach_the_level_says_so(
    tmp_path: Path, seeds: list[int], metrics: list[str], said: str
) -> None:
    notes = too_few(
        read.read(PLAN.format(seeds=seeds, metrics=str(metrics).replace("'", '"')), tmp_path / "p.toml")
    )
    if said:
        (note,) = notes
        assert "`tcpassay compare --between stack.cc` cannot decide between two values" in note
        assert said in note
    else:
        assert notes == []


def test_cases_that_differ_in_other_parameters_are_further_pairs(tmp_path: Path) -> None:
    text = PLAN.format(seeds=[1, 2, 3], metrics='["goodput"]') + '"link.delay" = ["1ms", "2ms"]\n'
    # Six pairs for each of the two factors.
    assert too_few(read.read(text, tmp_path / "p.toml")) == []
