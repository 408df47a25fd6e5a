"""Which value of a parameter is better for which metric: literal small data."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from folders import folder, run
from tcpassay.compare import Options, Rankings, Verdict, between, show_between
from tcpassay.errors import UserError
from tcpassay.results import Results

SEEDS = range(1, 9)


def results(path: Path, values: dict[tuple[str, str], tuple[list[float], list[float]]]) -> Results:
    """By controller and path: goodput and queueing delay for each of eight seeds."""
    runs: list[dict[str, Any]] = [
        run(
            f"{cc}-{delay}",
            seed,
            {"goodput": rates[seed - 1], "queue_delay_mean": delays[seed - 1]},
            stack__cc=cc,
            link__delay=delay,
        )
        for (cc, delay), (rates, delays) in values.items()
        for seed in SEEDS
    ]
    return Results(folder(path, runs, ()))


def about(middle: float) -> list[float]:
    """Eight values near `middle`."""
    return [middle * (1 + 0.001 * seed) for seed in SEEDS]


def sample(tmp_path: Path) -> Results:
    noise = [1.0, 2.0, 1.5, 2.5, 2.2, 1.2, 1.7, 1.9]
    return results(
        tmp_path / "r",
        {
            ("reno", "1ms"): (about(90), about(0.05)),
            ("cubic", "1ms"): (about(100), about(0.05)),
            ("bbr", "1ms"): (about(99), about(0.01)),
            ("reno", "99ms"): (noise, about(0.05)),
            ("cubic", "99ms"): (noise[::-1], about(0.05)),
            ("bbr", "99ms"): (about(200), about(0.02)),
        },
    )


def test_for_each_level_and_metric_it_names_the_values_to_which_none_is_better(tmp_path: Path) -> None:
    options = Options(metrics=("goodput", "queue_delay_mean"))
    rankings = between(sample(tmp_path), "stack.cc", "link.delay", options, simultaneous=False)
    best = {(one.level, one.metric): one.best for one in rankings.rankings}
    assert best == {
        ("1ms", "goodput"): ("cubic",),
        ("1ms", "queue_delay_mean"): ("bbr",),
        ("99ms", "goodput"): ("bbr",),
        ("99ms", "queue_delay_mean"): ("bbr",),
    }
    goodput = rankings.rankings[0]
    assert {(one.value, one.than) for one in goodput.better} == {
        ("cubic", "reno"),
        ("cubic", "bbr"),
        ("bbr", "reno"),
    }
    # Eight differences of one sign: 2 / 2^8, and twice that for two metrics.
    assert all(one.p <= 2 * 2 / 2**8 for one in goodput.better)


def test_values_that_differ_both_ways_are_not_ranked(tmp_path: Path) -> None:
    options = Options(metrics=("goodput",))
    far = between(sample(tmp_path), "stack.cc", "link.delay", options, simultaneous=False).rankings[1]
    assert {(one.value, one.than) for one in far.better} == {("bbr", "reno"), ("bbr", "cubic")}


def test_of_values_with_different_seeds_the_medians_are_those_of_the_most_pairs_and_none_is_first_that_is_beaten(
    tmp_path: Path,
) -> None:
    # Only the two seeds in which cubic is a little better than bbr have runs of reno, too.
    values = {"reno": [50.0, 50.1], "cubic": [100.2, 100.3, *[90.0] * 6], "bbr": [100.0, 100.0, *[100.0] * 6]}
    runs: list[dict[str, Any]] = [
        run(cc, seed, {"goodput": rate}, stack__cc=cc)
        for cc, rates in values.items()
        for seed, rate in enumerate(rates, 1)
    ]
    options = Options(metrics=("goodput",))
    (one,) = between(
        Results(folder(tmp_path / "r", runs, ())), "stack.cc", None, options, simultaneous=False
    ).rankings
    assert [(better.value, better.than) for better in one.better] == [("bbr", "cubic")]
    assert one.medians["bbr"] == 100.0
    assert one.medians["cubic"] == 90.0
    assert next(iter(one.medians)) == "bbr"


def test_the_text_says_which_is_better_at_which_confidence(tmp_path: Path) -> None:
    options = Options(metrics=("goodput",))
    rankings = between(sample(tmp_path), "stack.cc", "link.delay", options, simultaneous=False)
    text = printed(rankings)
    assert "tests at 95 %, corrected for 1 metric (holm)" in " ".join(text.split())
    assert "link.delay = 99ms" in text
    assert "goodput: best: bbr" in text
    assert "against bbr" in text
    assert json.dumps(rankings.as_json())


def printed(rankings: Rankings) -> str:
    out = io.StringIO()
    show_between(rankings, Console(file=out, width=120), {"goodput": "bit/s"})
    return out.getvalue()


def test_together_the_statements_about_all_pairs_and_levels_need_more_seeds_than_one(tmp_path: Path) -> None:
    rankings = between(sample(tmp_path), "stack.cc", "link.delay", Options(metrics=("goodput",)))
    assert (rankings.tests, rankings.undecided) == (6, True)
    near = rankings.rankings[0]
    # Three pairs of values at two levels: 2 / 2^8 is below 0.05 / 6. Reno is worse than cubic by a tenth in all pairs.
    assert [(one.value, one.verdict) for one in near.against] == [
        ("bbr", Verdict.WORSE),
        ("reno", Verdict.WORSE),
    ]
    assert near.against[1].effect == "-10.00 % (-10.00 % to -10.00 %)"
    far = rankings.rankings[1]
    # The last two differ both ways.
    assert [one.partition(":")[0] for one in far.undecided] == ["reno and cubic"]
    # The best value is known, and the table has only differences from it.
    assert far.best == ("bbr",)
    assert "undecided: reno and cubic: 8 seeds differ" in " ".join(printed(rankings).split())


def test_combinations_of_parameters_are_ranked_with_what_is_needed_to_decide(tmp_path: Path) -> None:
    few = results(
        tmp_path / "r",
        {(cc, delay): (about(rate), about(0.05)) for (cc, delay), rate in {
            ("reno", "1ms"): 90, ("cubic", "1ms"): 100, ("reno", "9ms"): 50, ("cubic", "9ms"): 60,
        }.items()},
    )  # fmt: skip
    rankings = between(few, ["stack.cc", "link.delay"], None, Options(metrics=("goodput",)))
    (one,) = rankings.rankings
    assert list(one.medians) == ["cubic, 1ms", "reno, 1ms", "cubic, 9ms", "reno, 9ms"]
    assert one.best == ("cubic, 1ms",)
    assert [beside.verdict for beside in one.against] == [Verdict.WORSE] * 3
    with pytest.raises(UserError, match="a parameter is named twice"):
        between(few, ["stack.cc", "stack.cc"])


def test_values_are_compared_at_each_combination_of_several_parameters_or_at_one_of_them(
    tmp_path: Path,
) -> None:
    runs = [
        run(
            f"{cc}{loss[0]}{delay}",
            seed,
            {"goodput": rate + seed},
            stack__cc=cc,
            link__loss=loss,
            link__delay=delay,
        )
        for cc, rate in (("reno", 100.0), ("cubic", 200.0))
        for loss in ("0", "1%")
        for delay in ("1ms", "9ms")
        for seed in range(1, 9)
    ]
    few = Results(folder(tmp_path / "r", runs, ()))
    options = Options(metrics=("goodput",))
    both = between(few, "cc", ["loss", "link.delay"], options)
    assert (both.between, both.by, both.over) == ("stack.cc", "link.loss, link.delay", ())
    assert [one.level for one in both.rankings] == [
        "link.loss = 0, link.delay = 1ms",
        "link.loss = 0, link.delay = 9ms",
        "link.loss = 1%, link.delay = 1ms",
        "link.loss = 1%, link.delay = 9ms",
    ]
    one = between(few, "cc", "loss", options, where=[("delay", "9ms")])
    assert ([ranking.level for ranking in one.rankings], one.over) == (["0", "1%"], ())
    # What a statement does not distinguish is said.
    mixed = between(few, "cc", "loss", options)
    assert mixed.over == ("link.delay",)
    note = (
        "note: a seed counts once, with the mean (of positive values the geometric one, because the effects "
    )
    note += "are ratios) over all values of link.delay; `--by` or `--where` separates them"
    assert note in " ".join(printed(mixed).split())
    # Two levels, one pair of values: 2 * 2 / 2^8 of the eight seeds, although 16 pairs of runs differ.
    assert mixed.rankings[0].against[0].p == pytest.approx(4 / 2**8)
    for wrong, message in (
        ({"by": "cc"}, "`--by stack.cc`: it is in `--between`, too"),
        ({"by": "los"}, "`--by los`: no run has this parameter or group"),
        ({"where": [("delay", "5ms")]}, "`--where link.delay=5ms`: the values are 1ms, 9ms"),
        ({"where": [("delay", "1ms"), ("delay", "9ms")]}, "`--where link.delay=...`: give one value, or the"),
    ):
        with pytest.raises(UserError, match=message):
            between(few, "cc", options=options, **wrong)


def test_a_ranking_that_the_runs_cannot_decide_says_how_many_seeds_would(tmp_path: Path) -> None:
    runs = [
        run(f"{cc}", seed, {"goodput": rate + seed}, stack__cc=cc)
        for cc, rate in (("reno", 100.0), ("cubic", 200.0))
        for seed in range(1, 6)
    ]
    rankings = between(
        Results(folder(tmp_path / "r", runs, ())), "stack.cc", None, Options(metrics=("goodput",))
    )
    (one,) = rankings.rankings
    assert one.against[0].needed == 6
    assert one.undecided == ("reno and cubic: 5 seeds differ, about 6 are needed",)
    text = " ".join(printed(rankings).split())
    assert "goodput: the runs cannot decide which is best" in text
    assert "undecided, about 6 seeds are needed" in text


def test_a_parameter_with_one_value_and_an_unknown_one_are_refused(tmp_path: Path) -> None:
    one = results(tmp_path / "one", {("reno", "1ms"): (about(90), about(0.05))})
    with pytest.raises(UserError, match=r"`stack\.cc` has one value"):
        between(one, "stack.cc")
    with pytest.raises(UserError, match=r"`--between nosuch`: no run has this parameter or group"):
        between(one, "nosuch")


def test_the_correction_of_holm_is_one_of_all_levels_together(tmp_path: Path) -> None:
    runs = [
        run(f"{cc}{loss[0]}", seed, {"goodput": rate + seed}, stack__cc=cc, link__loss=loss)
        for cc in ("reno", "cubic")
        for loss in ("0", "1%")
        for seed in range(1, 9)
        # With losses one seed of eight has the smallest difference, in the other direction.
        for rate in ([100.0] if cc == "reno" else [99.0 if (loss, seed) == ("1%", 8) else 200.0])
    ]
    found = between(Results(folder(tmp_path / "r", runs, ())), "cc", "loss", Options(metrics=("goodput",)))
    assert (found.pairs, found.tests) == (2, 2)
    # Two-sided signed ranks of eight seeds: 2 of 2^8 signs, 4 with losses. Holm doubles the smaller one only.
    assert [one.against[0].p for one in found.rankings] == pytest.approx([2 * 2 / 2**8, 4 / 2**8])
    assert "corrected for 1 metric and 2 pairs of values: 2 tests (holm)" in " ".join(printed(found).split())


def test_a_compared_parameter_may_be_restricted_to_several_values(tmp_path: Path) -> None:
    runs = [
        run(cc, seed, {"goodput": rate + seed}, stack__cc=cc)
        for cc, rate in (("reno", 100.0), ("cubic", 200.0), ("bbr", 300.0))
        for seed in range(1, 9)
    ]
    only = [("cc", "reno"), ("cc", "cubic")]
    found = between(
        Results(folder(tmp_path / "r", runs, ())), "cc", None, Options(metrics=("goodput",)), where=only
    )
    assert list(found.rankings[0].medians) == ["cubic", "reno"]
    assert (found.pairs, found.rankings[0].against[0].p) == (1, pytest.approx(2 / 2**8))
