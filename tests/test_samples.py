"""Of how many samples a percentile must be, and what is said if they are few."""

import pytest

from tcpassay import samples
from tcpassay.levels import Measured


def run(seed: int, **metrics: float | None) -> Measured:
    return Measured("a", seed, {}, metrics)


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("rtt_p50", ("rtt_samples", 20)),
        ("one_way_p90", ("one_way_samples", 100)),
        ("queue_delay_p99", ("queue_delay_samples", 1000)),
        ("completion_p999", ("completions", 10_000)),
        ("rtt_mean", None),
        ("goodput", None),
    ],
)
def test_ten_samples_must_lie_beyond_a_percentile(metric: str, wanted: tuple[str, int] | None) -> None:
    assert samples.enough(metric) == wanted


def test_runs_with_few_samples_are_counted_and_those_without_a_number_are_not() -> None:
    runs = [
        run(1, rtt_p99=0.1, rtt_samples=999),
        run(2, rtt_p99=0.1, rtt_samples=34),
        run(3, rtt_p99=0.1, rtt_samples=1000),
        run(4, rtt_p99=0.1),
        run(5, rtt_p99=None, rtt_samples=0),
    ]
    few = samples.few(runs, "rtt_p99")
    assert few == samples.Few("rtt_p99", 1000, 2, 3, 34)
    assert str(few) == (
        "rtt_p99: 2 of 3 runs have fewer than 1,000 samples (the fewest: 34), "
        "so that fewer than ten lie beyond it and single ones decide it"
    )
    assert samples.few(runs[2:], "rtt_p99") is None
    assert samples.few(runs, "goodput") is None
