"""The verdicts of a comparison: small literal data, and properties that hold for any two folders."""

import json
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compared import ALL, TEN, cubic, delays, effect, of, printed, results, seeds
from folders import run
from tcpassay.compare import Effect, Options, Verdict, compare, describe, junit
from tcpassay.compare.direction import direction
from tcpassay.interface import METRICS, Direction
from tcpassay.results import Results

VALUES = st.one_of(st.just(0.0), st.floats(1e-6, 1e9))


def test_equal_folders_are_reported_as_identical(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, TEN)
    assert comparison.same
    assert effect(comparison).verdict is Verdict.IDENTICAL
    assert effect(comparison).estimate is None
    assert comparison.regressions == []


def test_a_tenth_less_goodput_everywhere_is_worse_by_a_tenth(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [0.9 * x for x in TEN])
    found = effect(comparison)
    assert found.verdict is Verdict.WORSE
    assert found.scale == "ratio"
    assert found.estimate == pytest.approx(0.9)
    assert (found.low, found.high) == (pytest.approx(0.9), pytest.approx(0.9))
    assert (found.pairs, found.up, found.down) == (10, 0, 10)
    assert found.p == pytest.approx(2 / 1024)
    assert comparison.regressions == ["goodput: -10.00 % (-10.00 % to -10.00 %)"]


def test_more_goodput_is_better_and_no_regression(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [1.5 * x for x in TEN])
    assert effect(comparison).verdict is Verdict.BETTER
    assert comparison.regressions == []
    assert not comparison.same


def test_more_latency_is_worse(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [1.5 * x for x in TEN], "rtt_p99")
    assert effect(comparison, "rtt_p99").verdict is Verdict.WORSE
    assert comparison.regressions


def test_what_is_neither_good_nor_bad_may_move_without_a_regression(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [1.5 * x for x in TEN], "cwnd_mean")
    assert effect(comparison, "cwnd_mean").verdict is Verdict.HIGHER
    assert comparison.regressions == []


def test_worse_by_less_than_the_threshold_is_worse_but_no_regression(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [0.97 * x for x in TEN])
    assert effect(comparison).verdict is Verdict.WORSE
    assert comparison.regressions == []
    assert of(tmp_path / "2", TEN, [0.97 * x for x in TEN], threshold=0.02).regressions


def test_some_up_and_some_down_is_undecided_with_an_interval(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [x * (1.05 if i % 2 else 0.95) for i, x in enumerate(TEN)])
    found = effect(comparison)
    assert found.verdict is Verdict.UNDECIDED
    assert not comparison.same
    assert found.low == pytest.approx(0.95)
    assert found.high == pytest.approx(1.05)


def test_changes_below_the_threshold_of_relevance_are_no_relevant_difference(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [x * (1.005 if i % 2 else 0.995) for i, x in enumerate(TEN)])
    assert effect(comparison).verdict is Verdict.ALIKE
    assert comparison.same
    # All pairs in one direction are significant, and not relevant either.
    assert effect(of(tmp_path / "2", TEN, [0.995 * x for x in TEN])).verdict is Verdict.ALIKE
    small = of(tmp_path / "3", TEN, [0.995 * x for x in TEN], relevant=0.001)
    assert effect(small).verdict is Verdict.WORSE


def test_few_pairs_without_a_relevant_change_are_no_relevant_difference(tmp_path: Path) -> None:
    assert effect(of(tmp_path, TEN[:3], [1.004 * x for x in TEN[:3]])).verdict is Verdict.ALIKE


def test_two_different_pairs_of_ten_are_undecided(tmp_path: Path) -> None:
    found = effect(of(tmp_path, TEN, [50.0, 50.0, *TEN[2:]]))
    assert found.verdict is Verdict.UNDECIDED
    assert (found.pairs, found.down) == (10, 2)


def test_five_pairs_that_all_halve_are_undecided_and_six_would_decide(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN[:5], [0.5 * x for x in TEN[:5]])
    found = effect(comparison)
    assert found.verdict is Verdict.UNDECIDED
    assert (found.estimate, found.p, found.needed) == (pytest.approx(0.5), pytest.approx(2 / 32), 6)
    assert comparison.regressions == []
    assert comparison.undecided == ["goodput: 5 seeds differ, about 6 are needed"]
    assert not comparison.same
    assert "these runs cannot decide about:" in printed(comparison)
    assert "goodput none, whatever its size" in printed(comparison)


def test_one_run_on_each_side_differs_without_a_test(tmp_path: Path) -> None:
    comparison = of(tmp_path, [100.0], [80.0])
    found = effect(comparison)
    assert (found.verdict, found.p) == (Verdict.DIFFERS, None)
    assert found.estimate == pytest.approx(0.8)
    assert comparison.regressions == ["goodput: -20.00 %"]
    faster = of(tmp_path / "2", [100.0], [150.0])
    assert (faster.regressions, faster.undecided) == ([], [])


def test_eleven_pairs_that_all_double_are_found_although_the_results_have_many_metrics(
    tmp_path: Path,
) -> None:
    names = [name for name in METRICS if direction(name) is Direction.LOWER][:70]
    rows = [dict.fromkeys(names, 1.0 + i / 100) | {"goodput": 100.0 + i} for i in range(11)]
    a = [run("c", i, row, cc="x") for i, row in enumerate(rows)]
    b = [
        run("d", i, {name: (2 if name == "goodput" else 1.1 + i / 50) * value for name, value in row.items()},
            cc="y")
        for i, row in enumerate(rows)
    ]  # fmt: skip
    left, right = results(tmp_path / "a", a), results(tmp_path / "b", b)
    assert effect(compare(left, right)).verdict is Verdict.BETTER
    # Of all 71 metrics eleven pairs cannot decide: 2 / 2^11 is above 0.05 / 71. Twelve can.
    found = effect(compare(left, right, ALL))
    assert (found.verdict, found.needed) == (Verdict.UNDECIDED, 12)


def test_the_metrics_are_those_of_the_plan_its_checks_those_asked_for_or_the_usual_ones(
    tmp_path: Path,
) -> None:
    sides = [results(tmp_path / name, cubic(TEN, rtt_p50=1.0, timeouts=0.0, loss_rate=0.1)) for name in "ab"]
    assert [e.metric for e in compare(*sides).effects] == ["goodput", "loss_rate"]
    text = 'metrics = ["timeouts"]\n[[check]]\nmetric = "rtt_p50"\nop = "<"\nvalue = 2\nwhy = "x"\n'
    for name in "ab":
        (tmp_path / name / "plan.toml").write_text(text, encoding="utf-8")
    named = [Results(tmp_path / name) for name in "ab"]
    assert {e.metric for e in compare(*named).effects} == {"timeouts", "rtt_p50"}
    assert compare(*named).family == "named by the plan"
    assert [e.metric for e in compare(*named, Options(metrics=("goodput",))).effects] == ["goodput"]
    assert {e.metric for e in compare(*named, ALL).effects} == {"goodput", "timeouts", "rtt_p50", "loss_rate"}


def test_the_junit_file_has_a_test_for_each_metric_and_skips_what_is_undecided(tmp_path: Path) -> None:
    few = ET.fromstring(junit(of(tmp_path, TEN[:5], [0.5 * x for x in TEN[:5]])))  # noqa: S314 - our own output
    (skipped,) = few.findall("testsuite/testcase[@name='goodput']/skipped")
    assert skipped.get("message") == "goodput: 5 seeds differ, about 6 are needed"
    worse = ET.fromstring(junit(of(tmp_path / "2", TEN, [0.5 * x for x in TEN])))  # noqa: S314 - our own output
    (failure,) = worse.findall("testsuite/testcase[@name='goodput']/failure")
    assert failure.get("message") == "worse: x 0.5 (x 0.5 to x 0.5)"
    assert worse.find("testsuite[@name='metrics']").attrib == {  # type: ignore[union-attr]
        "name": "metrics", "tests": "1", "failures": "1", "errors": "0", "skipped": "0",
    }  # fmt: skip


def test_one_run_may_be_a_regression_by_itself_when_asked(tmp_path: Path) -> None:
    halved = [TEN[0] / 2, *TEN[1:]]
    assert of(tmp_path, TEN, halved).regressions == []
    comparison = of(tmp_path / "2", TEN, halved, each=0.2)
    assert len(comparison.regressions) == 1
    worst = effect(comparison).largest[0]
    assert (worst.case, worst.a, worst.b, worst.change) == ("reno0", 100.0, 50.0, pytest.approx(0.5))


def test_a_single_run_counts_also_where_all_are_worse_by_less_than_the_threshold(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [0.97 * x for x in TEN], each=0.02)
    assert comparison.regressions == ["goodput: -3.00 % (-3.00 % to -3.00 %)"]


def test_counts_from_zero_are_compared_by_difference(tmp_path: Path) -> None:
    comparison = of(tmp_path, [0.0] * 10, [float(i) for i in range(10)], "timeouts")
    found = effect(comparison, "timeouts")
    assert (found.scale, found.verdict) == ("difference", Verdict.WORSE)
    assert found.estimate == 5.0
    assert (found.up, found.pairs) == (9, 10)
    assert comparison.regressions == ["timeouts: +5 (+2.5 to +7.5)"]


def test_rounding_is_no_difference(tmp_path: Path) -> None:
    assert effect(of(tmp_path, [0.1 + 0.2] * 10, [0.3] * 10)).verdict is Verdict.IDENTICAL


def test_a_run_at_a_megabit_counts_as_much_as_one_at_ten_gigabits(tmp_path: Path) -> None:
    a = [1e6] * 6 + [1e10] * 6
    b = [1.2e6] * 6 + [1.2e10] * 6
    assert effect(of(tmp_path, a, b)).estimate == pytest.approx(1.2)


def test_many_metrics_are_corrected_for_their_number(tmp_path: Path) -> None:
    names = [name for name in METRICS if direction(name) is Direction.LOWER][:40]
    assert len(names) == 40
    a = [run("c", i, dict.fromkeys(names, 1.0), cc="x") for i in range(8)]
    b = [run("d", i, dict.fromkeys(names, 1.0 + 0.1 * (i + 1)), cc="y") for i in range(8)]
    left, right = results(tmp_path / "a", a), results(tmp_path / "b", b)
    verdicts = {
        method: {e.verdict for e in compare(left, right, Options(correction=method, everything=True)).effects}  # type: ignore[arg-type]
        for method in ("none", "holm", "bh")
    }
    assert verdicts == {"none": {Verdict.WORSE}, "holm": {Verdict.UNDECIDED}, "bh": {Verdict.WORSE}}


def both(
    tmp_path: Path, a: list[list[float]], b: list[list[float]], strategy: str = "full", **options: Any
) -> Effect:
    """The effect on goodput between two results, each with the rates of the seeds of each case."""
    sides = []
    for name, cc, rates in (("a", "cubic", a), ("b", "reno", b)):
        sides.append(results(tmp_path / name, seeds(cc, rates)))
        plan = f'name = "made"\n[strategy]\nkind = "{strategy}"\n'
        (tmp_path / name / "plan.toml").write_text(plan, encoding="utf-8")
    return effect(compare(*sides, Options(**options)))


def test_several_cases_of_one_seed_are_one_unit_of_which_the_mean_counts(tmp_path: Path) -> None:
    # The runs of three queues that never fill are the same: their copies are no evidence.
    before, after = [100.0 + i for i in range(6)], [98.0 + i for i in range(5)] + [106.0]
    one = both(tmp_path / "1", [before], [after])
    three = both(tmp_path / "3", [before] * 3, [after] * 3)
    assert (one.unit, one.pairs, one.cases) == ("seed", 6, 1)
    assert (three.unit, three.pairs, three.cases) == ("seed", 6, 3)
    assert (three.p, three.verdict) == (one.p, Verdict.UNDECIDED)
    # Of the ranks 1 to 6 only the smallest one or two are in the other direction, in 2 + 2 of 64 signs.
    assert one.p == pytest.approx(4 / 64)
    # Opposite effects of two cases that cancel each other in every seed are none on the mean.
    mixed = both(tmp_path / "2", [[100.0] * 9] * 2, [[80.0] * 9, [125.0] * 9])
    assert (mixed.up, mixed.down, mixed.estimate) == (0, 0, None)


def test_cases_that_are_equal_in_every_seed_have_no_part_in_the_effect(tmp_path: Path) -> None:
    found = both(tmp_path, [[100.0] * 6, [50.0] * 6], [[100.0] * 6, [40.0] * 6])
    assert (found.cases, found.same_cases, found.pairs) == (1, 1, 6)
    assert (found.median_a, found.median_b, found.estimate) == (50.0, 40.0, pytest.approx(0.8))
    assert found.verdict is Verdict.WORSE


def test_the_value_of_a_seed_is_the_geometric_mean_over_its_cases(tmp_path: Path) -> None:
    found = both(tmp_path, [[100.0] * 6, [1e10] * 6], [[121.0] * 6, [1e10 + 1] * 6])
    assert (found.median_a, found.estimate) == (pytest.approx(1e6), pytest.approx(1.1))


def test_seeds_that_lack_a_case_do_not_count_if_others_have_all(tmp_path: Path) -> None:
    found = both(tmp_path / "1", [[100.0] * 8, [10.0] * 6], [[90.0] * 8, [5.0] * 6])
    assert (found.cases, found.pairs) == (2, 6)
    # A case that is equal everywhere may have further seeds.
    more = both(tmp_path / "3", [[100.0] * 6, [10.0] * 9], [[90.0] * 6, [10.0] * 9])
    assert (more.cases, more.same_cases, more.pairs) == (1, 1, 6)
    apart = both(tmp_path / "2", [[100.0] * 8, [10.0]], [[90.0] * 8, [5.0]])
    assert (apart.cases, apart.pairs) == (2, 8)


def test_one_seed_of_several_cases_is_a_fact_without_a_test(tmp_path: Path) -> None:
    found = both(tmp_path, [[100.0]] * 12, [[80.0]] * 12)
    assert (found.unit, found.pairs, found.verdict, found.p) == ("seed", 1, Verdict.DIFFERS, None)
    assert found.regressed


@pytest.mark.parametrize("strategy", ["t-way", "random"])
def test_of_cases_that_are_a_sample_each_is_a_unit_with_the_mean_over_its_seeds(
    tmp_path: Path, strategy: str
) -> None:
    found = both(tmp_path / "1", [[100.0, 100.0]] * 6, [[100.0, 121.0]] * 6, strategy)
    assert (found.unit, found.pairs, found.verdict) == ("case", 6, Verdict.BETTER)
    assert found.estimate == pytest.approx(1.1)
    # Five cannot decide at 95 %, so that the seeds count.
    few = both(tmp_path / "2", [[100.0] * 6] * 5, [[110.0] * 6] * 5, strategy)
    assert (few.unit, few.pairs, few.verdict) == ("seed", 6, Verdict.BETTER)


def test_sampled_cases_with_identical_runs_count_once(tmp_path: Path) -> None:
    def runs(cc: str, rate: float) -> list[dict[str, Any]]:
        made = seeds(cc, [[rate + i] for i in range(9)])
        # Cases 6 to 8 take the same steps.
        return [one | {"trace": f"{cc}{min(i, 6)}"} for i, one in enumerate(made)]

    sides = [results(tmp_path / name, runs(cc, rate)) for name, cc, rate in (("a", "x", 100), ("b", "y", 90))]
    for name in "ab":
        (tmp_path / name / "plan.toml").write_text('[strategy]\nkind = "random"\n', encoding="utf-8")
    found = effect(compare(*sides))
    assert (found.unit, found.pairs) == ("case", 7)


def test_a_metric_that_one_side_has_not_is_counted_as_missing(tmp_path: Path) -> None:
    a = results(tmp_path / "a", cubic(TEN))
    rates = [None if i < 3 else 100.0 + i for i in range(10)]
    b = results(
        tmp_path / "b", [run("r", i, {"goodput": rate}, stack__cc="reno") for i, rate in enumerate(rates, 1)]
    )
    found = effect(compare(a, b))
    assert (found.missing, found.pairs, found.verdict) == (3, 7, Verdict.IDENTICAL)


def test_a_new_finding_is_a_regression_and_a_finding_that_is_gone_is_not(tmp_path: Path) -> None:
    a = results(tmp_path / "a", delays("cubic", TEN), [("late-ack", "cubic1", 1), ("late-ack", "cubic2", 1)])
    b = results(tmp_path / "b", delays("reno", TEN), [("late-ack", "reno2", 1), ("delivery", "reno3", 1)])
    comparison = compare(a, b)
    changes = {change.oracle: (change.new, change.gone) for change in comparison.findings}
    assert changes == {"late-ack": ((), (("cubic1", 1),)), "delivery": ((("reno3", 1),), ())}
    assert comparison.regressions == ["delivery: new in 1 run"]
    assert not comparison.same


def test_a_run_that_no_longer_ends_is_a_regression(tmp_path: Path) -> None:
    broken = cubic(TEN, cc="reno")
    broken[4] = run("reno0", 5, {}, outcome="crashed", stack__cc="reno")
    comparison = compare(results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", broken))
    assert comparison.broken == (("reno0", 5, "crashed"),)
    assert comparison.regressions == ["case reno0, seed 5: crashed"]
    assert effect(comparison).pairs == 9


def test_the_text_lists_the_regressions_last(tmp_path: Path) -> None:
    text = printed(of(tmp_path, TEN, [0.9 * x for x in TEN]))
    assert "stack.cc: a cubic, b reno" in text
    assert "10 pairs of runs" in text
    assert text.endswith("REGRESSION\n  goodput: -10.00 % (-10.00 % to -10.00 %)\n")


def test_in_80_columns_no_name_of_a_metric_is_folded(tmp_path: Path) -> None:
    lines = printed(of(tmp_path, TEN, [0.9 * x for x in TEN]), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("goodput: worse, -10.00 % (-10.00 % to -10.00 %)")
    assert lines[at + 1] == "  a 104.5 bit/s; b 94.05 bit/s; up 0, down 10 of 10 seeds; p 0.002"


def test_the_text_states_that_nothing_differs(tmp_path: Path) -> None:
    assert printed(of(tmp_path, TEN, TEN)).endswith("\nidentical\n")


def test_the_json_output_has_the_whole_comparison(tmp_path: Path) -> None:
    value = json.loads(json.dumps(of(tmp_path, TEN, [0.9 * x for x in TEN]).as_json(), allow_nan=False))
    assert value["effects"][0]["verdict"] == "worse"
    assert value["regressions"] == ["goodput: -10.00 % (-10.00 % to -10.00 %)"]
    assert value["compared"] == {"stack.cc": ["cubic", "reno"]}


def test_the_metrics_without_a_preferred_direction_are_these() -> None:
    neither = {name for name in METRICS if direction(name) is Direction.NEITHER}
    assert neither == {
        "oscillation_period", "oscillation_strength", "rtt_min", "recoveries", "undos", "probes", "clamps", "cwnd_mean",
        "ssthresh_mean", "rto_mean", "alpha_mean", "ce_share", "ece_acks", "acks_per_segment", "delayed_ack_timeouts",
        "limited_cwnd", "limited_rwnd", "limited_app", "time_application", "time_nagle",
        "time_send_buffer", "time_receive_window", "time_congestion_window", "time_pacing",
        "time_host_queue", "time_recovery", "time_timers", "marks", "mark_share", "thinned", "utilisation_access",
        "utilisation_uplink", "rtt_samples", "one_way_samples", "queue_delay_samples",
    }  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=15), st.sampled_from(["goodput", "timeouts"]))
def test_swapping_the_sides_inverts_every_effect_and_changes_nothing_else(
    pairs: list[tuple[float, float]], metric: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        a = results(Path(place) / "a", cubic([x for x, _ in pairs], metric))
        b = results(Path(place) / "b", cubic([y for _, y in pairs], metric, "reno"))
        there, back = effect(compare(a, b, ALL), metric), effect(compare(b, a, ALL), metric)
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert back.verdict is turned.get(there.verdict, there.verdict)
    assert (back.p, back.up, back.down, back.scale) == (there.p, there.down, there.up, there.scale)
    if there.estimate is not None and back.estimate is not None:
        inverse = 1 / there.estimate if there.scale == "ratio" else -there.estimate
        assert back.estimate == pytest.approx(inverse, rel=1e-9, abs=1e-12)


@settings(max_examples=40)
@given(st.lists(VALUES, min_size=1, max_size=15))
def test_a_folder_does_not_differ_from_itself(values: list[float]) -> None:
    with tempfile.TemporaryDirectory() as place:
        a = results(Path(place) / "a", cubic(values))
        comparison = compare(a, a)
    assert comparison.same
    assert comparison.regressions == []


@settings(max_examples=40)
@given(st.lists(VALUES, min_size=1, max_size=15), st.lists(VALUES, min_size=1, max_size=15))
def test_a_regression_is_always_a_significant_change_for_the_worse(
    before: list[float], after: list[float]
) -> None:
    count = min(len(before), len(after))
    with tempfile.TemporaryDirectory() as place:
        found = effect(of(Path(place), before[:count], after[:count]))
    if found.regressed and found.verdict is not Verdict.DIFFERS:
        assert found.verdict is Verdict.WORSE
        assert found.p_adjusted is not None
        assert found.p_adjusted <= 0.05


def test_an_effect_and_its_interval_have_the_same_form() -> None:
    base = {"metric": "m", "scale": "ratio", "estimate": 0.214, "low": 0.0547, "high": 0.8335}
    fields = {name: base.get(name) for name in Effect.__dataclass_fields__}
    assert describe(Effect(**fields)) == "x 0.214 (x 0.0547 to x 0.834)"
    assert describe(Effect(**fields | {"estimate": 0.9, "low": 0.8, "high": 1.0})) == (
        "-10.00 % (-20.00 % to +0.00 %)"
    )
