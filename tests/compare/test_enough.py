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
            "there are 5 seeds, and 95 % for 1 metric and 1 pair of values takes 6; `--by` takes more",
        ),
        ([1, 2, 3, 4, 5, 6], ["goodput"], ""),
        # 0.05 / 3: 2 / 2^7 is below it, 2 / 2^6 is not.
        (
            [1, 2, 3, 4, 5, 6],
            ["goodput", "rtt_p99", "loss_rate"],
            "there are 6 seeds, and 95 % for 3 metrics",
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


def test_a_controller_is_also_to_be_compared_at_each_combination_of_the_other_factors(tmp_path: Path) -> None:
    text = PLAN.format(seeds=list(range(1, 8)), metrics='["goodput"]')
    text += '"link.delay" = ["1ms", "2ms"]\n"link.rate" = ["1Mbit", "2Mbit"]\n'
    # One pair of values at four combinations: 0.05 / 4 takes eight seeds; each factor alone six.
    (note,) = too_few(read.read(text, tmp_path / "p.toml"))
    assert note == (
        "`tcpassay compare --between stack.cc --by link.delay,link.rate` cannot decide between two values: there are "
        "7 seeds, and 95 % for 1 metric and 4 pairs of values takes 8"
    )


def test_cases_that_differ_in_other_parameters_are_further_evidence_only_if_they_are_a_sample(
    tmp_path: Path,
) -> None:
    text = PLAN.format(seeds=[1, 2, 3], metrics='["goodput"]')
    text += '"link.delay" = ["1ms", "2ms"]\n"link.rate" = ["1Mbit", "2Mbit", "3Mbit"]\n'
    assert len(too_few(read.read(text, tmp_path / "p.toml"))) == 3
    # All twelve combinations: six pairs of cases for each of two factors, and four for three rates.
    sampled = f'{text}[strategy]\nkind = "t-way"\nstrength = 3\n'
    (note,) = too_few(read.read(sampled, tmp_path / "p.toml"))
    assert "--between link.rate" in note
