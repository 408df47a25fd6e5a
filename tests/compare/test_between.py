"""Which value of a parameter is better for which metric: literal small data."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from folders import folder, run
from tcpassay.compare import Options, between, show_between
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
    options = Options(metrics=frozenset({"goodput", "queue_delay_mean"}))
    rankings = between(sample(tmp_path), "stack.cc", "link.delay", options)
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
    options = Options(metrics=frozenset({"goodput"}))
    far = between(sample(tmp_path), "stack.cc", "link.delay", options).rankings[1]
    assert {(one.value, one.than) for one in far.better} == {("bbr", "reno"), ("bbr", "cubic")}


def test_the_text_says_which_is_better_at_which_confidence(tmp_path: Path) -> None:
    rankings = between(sample(tmp_path), "stack.cc", "link.delay", Options(metrics=frozenset({"goodput"})))
    out = io.StringIO()
    show_between(rankings, Console(file=out, width=80), {"goodput": "bit/s"})
    text = out.getvalue()
    assert "confidence of 95 %" in text
    assert "link.delay = 99ms" in text
    assert "best: bbr" in text
    assert "bbr is better than" in text
    assert json.dumps(rankings.as_json())


def test_a_parameter_with_one_value_and_an_unknown_one_are_refused(tmp_path: Path) -> None:
    one = results(tmp_path / "one", {("reno", "1ms"): (about(90), about(0.05))})
    with pytest.raises(UserError, match=r"`stack\.cc` has one value"):
        between(one, "stack.cc")
    with pytest.raises(UserError, match=r"no run has the parameter or group `nosuch`"):
        between(one, "nosuch")
