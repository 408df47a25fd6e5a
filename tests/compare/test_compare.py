"""Comparison of two result folders: small literal data, and properties that hold for any two folders."""

import hashlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from folders import folder, run
from tcpassay.compare import Comparison, Effect, Options, Sides, Verdict, compare, describe, junit, show
from tcpassay.compare.direction import direction
from tcpassay.errors import UserError
from tcpassay.interface import METRICS, Direction
from tcpassay.results import Results


def results(
    path: Path, runs: list[dict[str, Any]], found: list[tuple[str, str, int]] | None = None
) -> Results:
    return Results(folder(path, runs, found or ()))


def cubic(
    rates: list[float], metric: str = "goodput", cc: str = "cubic", **more: float
) -> list[dict[str, Any]]:
    """A run for each delay."""
    return [
        run(f"{cc}{i}", 1, {metric: rate, **more}, stack__cc=cc, link__delay=f"{i}ms")
        for i, rate in enumerate(rates)
    ]


def effect(comparison: Comparison, metric: str = "goodput") -> Effect:
    return next(e for e in comparison.effects if e.metric == metric)


def of(tmp_path: Path, a: list[float], b: list[float], metric: str = "goodput", **options: Any) -> Comparison:
    left = results(tmp_path / "a", cubic(a, metric))
    right = results(tmp_path / "b", cubic(b, metric, "reno"))
    return compare(left, right, Options(**({"metrics": (metric,)} | options)))


ALL = Options(everything=True)


TEN = [100.0 + i for i in range(10)]


def test_runs_are_paired_by_what_does_not_differ_throughout(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, TEN[::-1])
    assert comparison.pairing.compared == {"stack.cc": ("cubic", "reno")}
    assert [(p.a["case"], p.b["case"]) for p in comparison.pairing.pairs[:2]] == [
        ("cubic0", "reno0"),
        ("cubic1", "reno1"),
    ]


def test_a_parameter_that_only_one_side_sets_tells_the_sides_apart(tmp_path: Path) -> None:
    a = results(tmp_path / "a", [run("x", 1, {"goodput": 1.0}, link__delay="1ms")])
    b = results(tmp_path / "b", [run("y", 1, {"goodput": 2.0}, link__delay="1ms", stack__cc="cubic")])
    assert compare(a, b).pairing.compared == {"stack.cc": (None, "cubic")}


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
    assert comparison.undecided == ["goodput: 5 cases differ, about 6 are needed"]
    assert not comparison.same
    assert "these pairs cannot decide about:" in printed(comparison)
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
    a = [run(f"c{i}", 1, row, cc="x", i=i) for i, row in enumerate(rows)]
    b = [
        run(f"d{i}", 1, {name: (2 if name == "goodput" else 1.1 + i / 50) * value for name, value in row.items()},
            cc="y", i=i)
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
    assert skipped.get("message") == "goodput: 5 cases differ, about 6 are needed"
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


def test_a_case_at_a_megabit_counts_as_much_as_one_at_ten_gigabits(tmp_path: Path) -> None:
    a = [1e6] * 6 + [1e10] * 6
    b = [1.2e6] * 6 + [1.2e10] * 6
    assert effect(of(tmp_path, a, b)).estimate == pytest.approx(1.2)


def test_many_metrics_are_corrected_for_their_number(tmp_path: Path) -> None:
    names = [name for name in METRICS if direction(name) is Direction.LOWER][:40]
    assert len(names) == 40
    a = [run(f"c{i}", 1, dict.fromkeys(names, 1.0), cc="x", i=i) for i in range(8)]
    b = [run(f"d{i}", 1, dict.fromkeys(names, 1.0 + 0.1 * (i + 1)), cc="y", i=i) for i in range(8)]
    left, right = results(tmp_path / "a", a), results(tmp_path / "b", b)
    verdicts = {
        method: {e.verdict for e in compare(left, right, Options(correction=method, everything=True)).effects}  # type: ignore[arg-type]
        for method in ("none", "holm", "bh")
    }
    assert verdicts == {"none": {Verdict.WORSE}, "holm": {Verdict.UNDECIDED}, "bh": {Verdict.WORSE}}


def seeds(cc: str, effects: list[list[float]]) -> list[dict[str, Any]]:
    return [
        run(f"{cc}{i}", seed, {"goodput": value}, stack__cc=cc, link__delay=f"{i}ms")
        for i, values in enumerate(effects)
        for seed, value in enumerate(values)
    ]


def test_with_enough_cases_the_seeds_of_a_case_count_as_one_pair(tmp_path: Path) -> None:
    a = results(tmp_path / "a", seeds("cubic", [[100.0] * 20] * 6))
    b = results(tmp_path / "b", seeds("reno", [[90.0] * 20] * 3 + [[110.0] * 20] * 3))
    found = effect(compare(a, b))
    assert (found.unit, found.pairs, found.verdict) == ("case", 6, Verdict.UNDECIDED)


def test_the_seeds_of_a_case_are_averaged(tmp_path: Path) -> None:
    a = results(tmp_path / "a", seeds("cubic", [[100.0, 100.0]] * 6))
    b = results(tmp_path / "b", seeds("reno", [[100.0, 121.0]] * 6))
    assert effect(compare(a, b)).estimate == pytest.approx(1.1)


def test_with_one_case_its_seeds_are_counted(tmp_path: Path) -> None:
    a = results(tmp_path / "a", seeds("cubic", [[100.0 + i for i in range(20)]]))
    b = results(tmp_path / "b", seeds("reno", [[90.0 + i for i in range(20)]]))
    found = effect(compare(a, b))
    assert (found.unit, found.pairs, found.verdict) == ("run", 20, Verdict.WORSE)


def test_a_metric_that_one_side_has_not_is_counted_as_missing(tmp_path: Path) -> None:
    a = results(tmp_path / "a", cubic(TEN))
    b = results(tmp_path / "b", [run(f"r{i}", 1, {"goodput": None if i < 3 else 100.0 + i}, stack__cc="reno",
                                     link__delay=f"{i}ms") for i in range(10)])  # fmt: skip
    found = effect(compare(a, b))
    assert (found.missing, found.pairs, found.verdict) == (3, 7, Verdict.IDENTICAL)


def test_a_new_finding_is_a_regression_and_a_finding_that_is_gone_is_not(tmp_path: Path) -> None:
    a = results(tmp_path / "a", cubic(TEN), [("late-ack", "cubic1", 1), ("late-ack", "cubic2", 1)])
    b = results(tmp_path / "b", cubic(TEN, cc="reno"), [("late-ack", "reno2", 1), ("delivery", "reno3", 1)])
    comparison = compare(a, b)
    changes = {change.oracle: (change.new, change.gone) for change in comparison.findings}
    assert changes == {"late-ack": ((), (("cubic1", 1),)), "delivery": ((("reno3", 1),), ())}
    assert comparison.regressions == ["delivery: new in 1 run"]
    assert not comparison.same


def test_a_run_that_no_longer_ends_is_a_regression(tmp_path: Path) -> None:
    broken = cubic(TEN, cc="reno")
    broken[4] = run("reno4", 1, {}, outcome="crashed", stack__cc="reno", link__delay="4ms")
    comparison = compare(results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", broken))
    assert comparison.broken == (("reno4", 1, "crashed"),)
    assert comparison.regressions == ["case reno4, seed 1: crashed"]
    assert effect(comparison).pairs == 9


def test_runs_without_a_partner_are_listed(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", cubic(TEN[:8], cc="reno"))
    assert [r["case"] for r in compare(a, b).pairing.only_a] == ["cubic8", "cubic9"]


def test_results_without_a_common_run_are_refused_and_say_what_to_do(tmp_path: Path) -> None:
    a = results(tmp_path / "a", [run(f"a{i}", 1, {"goodput": 1.0}, queue__kind=f"{i}") for i in range(3)])
    b = results(tmp_path / "b", [run(f"b{i}", 1, {"goodput": 1.0}, queue__kind=f"{i + 5}") for i in range(3)])
    with pytest.raises(UserError, match="name parameters that do not count with --ignore"):
        compare(a, b)


def test_ignoring_a_parameter_that_varies_within_a_side_is_refused(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", cubic(TEN, cc="reno"))
    with pytest.raises(UserError, match=r"`cubic0` and `cubic1` differ only in link.delay, stack.cc"):
        compare(a, b, sides=Sides(ignore=frozenset({"link.delay"})))


def test_two_parts_of_one_folder_can_be_compared(tmp_path: Path) -> None:
    both = results(tmp_path / "a", cubic(TEN) + cubic([0.5 * x for x in TEN], cc="reno"))
    comparison = compare(both, both, sides=Sides({"stack.cc": "cubic"}, {"stack.cc": "reno"}))
    assert effect(comparison).estimate == pytest.approx(0.5)
    with pytest.raises(UserError, match=r"no run with stack.cc=bbr"):
        compare(both, both, sides=Sides({"stack.cc": "bbr"}))


def test_only_the_metrics_asked_for_are_compared(tmp_path: Path) -> None:
    a, b = (
        results(tmp_path / "a", cubic(TEN, rtt_p50=1.0)),
        results(tmp_path / "b", cubic(TEN, cc="reno", rtt_p50=2.0)),
    )
    assert [e.metric for e in compare(a, b, Options(metrics=("rtt_p50",))).effects] == ["rtt_p50"]


def test_a_damaged_file_is_named_and_the_rest_is_compared(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", cubic(TEN, cc="reno"))
    (tmp_path / "b" / "metrics.parquet").write_bytes(b"PAR1 not a table")
    comparison = compare(a, b)
    assert len(comparison.problems) == 1
    assert "b/metrics.parquet" in comparison.problems[0]
    assert effect(comparison).verdict is Verdict.IDENTICAL


def printed(comparison: Comparison, *, width: int = 160) -> str:
    out = io.StringIO()
    show(comparison, Console(file=out, width=width), {"goodput": "bit/s"})
    return out.getvalue()


def test_the_text_lists_the_regressions_last(tmp_path: Path) -> None:
    text = printed(of(tmp_path, TEN, [0.9 * x for x in TEN]))
    assert "stack.cc: a cubic, b reno" in text
    assert "10 pairs of runs" in text
    assert text.endswith("REGRESSION\n  goodput: -10.00 % (-10.00 % to -10.00 %)\n")


def test_in_80_columns_no_name_of_a_metric_is_folded(tmp_path: Path) -> None:
    lines = printed(of(tmp_path, TEN, [0.9 * x for x in TEN]), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("goodput: worse, -10.00 % (-10.00 % to -10.00 %)")
    assert lines[at + 1] == "  a 104 bit/s; b 93.6 bit/s; up 0, down 10 of 10 cases; p 0.002"


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
        "limited_cwnd", "limited_rwnd", "limited_app", "marks", "mark_share", "thinned", "utilisation_access",
        "utilisation_uplink",
    }  # fmt: skip


VALUES = st.one_of(st.just(0.0), st.floats(1e-6, 1e9))


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


def test_seeds_that_gave_the_same_run_are_one_pair_and_no_more_evidence(tmp_path: Path) -> None:
    def seeds(cc: str, rate: float, *, drawn: bool) -> list[dict[str, Any]]:
        return [
            run(f"{cc}0", seed, {"goodput": rate}, stack__cc=cc) | {"trace": f"{cc}{seed if drawn else 0}"}
            for seed in range(1, 9)
        ]

    alike, drawn = (
        compare(
            results(tmp_path / f"a{drawn}", seeds("cubic", 100.0, drawn=drawn)),
            results(tmp_path / f"b{drawn}", seeds("reno", 80.0, drawn=drawn)),
        )
        for drawn in (False, True)
    )
    assert (alike.repeated, effect(alike).verdict) == (7, Verdict.DIFFERS)
    assert (drawn.repeated, effect(drawn).verdict) == (0, Verdict.WORSE)


def test_an_unknown_metric_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", cubic(TEN, cc="reno"))
    with pytest.raises(UserError, match=r"`--metric goodputt`: no such metric; did you mean `goodput`\?"):
        compare(a, b, Options(metrics=("goodputt",)))
    with pytest.raises(UserError, match="`--metric rtt_p50`: the results do not both have it"):
        compare(a, b, Options(metrics=("rtt_p50", "goodput")))


def test_comparing_nothing_is_an_error(tmp_path: Path) -> None:
    crashed = [run("x", 1, {}, outcome="crashed", stack__cc="cubic")]
    a, b = results(tmp_path / "a", crashed), results(tmp_path / "b", crashed)
    with pytest.raises(UserError, match="nothing can be compared: no run was done on both sides"):
        compare(a, b)


@pytest.mark.parametrize("content", ["{}", "[]", "", '{"runs": 3}', "{"])
def test_a_result_without_a_list_of_runs_cannot_be_compared(tmp_path: Path, content: str) -> None:
    a, b = results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", cubic(TEN))
    (tmp_path / "b" / "result.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"b/result.json"):
        compare(a, b)


def test_runs_that_have_no_row_of_metrics_are_damage(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", cubic(TEN)), results(tmp_path / "b", cubic(TEN, cc="reno"))
    pl.read_parquet(tmp_path / "b/metrics.parquet").head(7).write_parquet(tmp_path / "b/metrics.parquet")
    comparison = compare(a, b)
    assert comparison.incomplete == [
        f"damaged: {tmp_path}/b/metrics.parquet: 3 runs that were done have no row"
    ]
    assert not comparison.same


def test_runs_and_seeds_of_one_side_alone_make_the_comparison_incomplete(tmp_path: Path) -> None:
    a = results(tmp_path / "a", seeds("cubic", [[100.0, 101.0]] * 3))
    b = results(tmp_path / "b", seeds("cubic", [[100.0]] * 3))
    comparison = compare(a, b)
    assert comparison.incomplete == ["3 runs of a without a partner in b (seeds 1 only in a)"]
    assert not comparison.same
    assert compare(b, a).incomplete == ["3 runs of b without a partner in a (seeds 1 only in b)"]
    assert "incomplete: 3 runs of a without a partner" in printed(comparison)


def collecting(path: Path, collect: str, **metrics: float) -> Results:
    made = results(path, [run(f"c{i}", 1, metrics, link__delay=f"{i}ms") for i in range(3)])
    (path / "plan.toml").write_text(f'name = "made"\n[collect]\n{collect}\n', encoding="utf-8")
    return made


def test_metrics_over_the_series_are_not_compared_where_its_interval_differs(tmp_path: Path) -> None:
    a = collecting(tmp_path / "a", 'series = "1ms"', goodput=1.0, queue_peak_mean=5.0, srtt_mean=2.0)
    b = collecting(tmp_path / "b", "", goodput=1.0, queue_peak_mean=9.0, srtt_mean=3.0)
    comparison = compare(a, b, ALL)
    assert [e.metric for e in comparison.effects] == ["goodput"]
    assert [(one.metrics, one.why) for one in comparison.skipped] == [
        (("queue_peak_mean", "srtt_mean"), "`collect.series` is 1ms in a and 10ms in b")
    ]
    assert comparison.same
    with pytest.raises(UserError, match=r"nothing can be compared: srtt_mean: `collect.series` is 1ms in a"):
        compare(a, b, Options(metrics=("srtt_mean",)))


def test_an_interval_written_in_another_unit_is_the_same(tmp_path: Path) -> None:
    a = collecting(tmp_path / "a", 'series = "10000us"', queue_peak_mean=5.0)
    assert compare(a, collecting(tmp_path / "b", "", queue_peak_mean=5.0), ALL).skipped == ()


def test_only_metrics_of_whole_runs_are_compared_where_the_warm_up_differs(tmp_path: Path) -> None:
    a = collecting(tmp_path / "a", 'warmup = "1s"', goodput=1.0, lost=5.0)
    comparison = compare(a, collecting(tmp_path / "b", "", goodput=2.0, lost=5.0), ALL)
    assert [e.metric for e in comparison.effects] == ["lost"]


def kernels(path: Path, name: str, rates: list[float], trace: str = "t") -> Results:
    runs = [
        run(f"{name}{i}", 1, {"goodput": rate}, link__delay=f"{i}ms", stack__cc="dctcp" if i < 3 else "reno")
        | {"substrate": f"kernel:{name}", "trace": f"{trace if i < 3 else ''}{i}"}
        for i, rate in enumerate(rates)
    ]
    return results(path, runs)


def test_deterministic_runs_that_differ_are_a_result_without_any_statistics(tmp_path: Path) -> None:
    a = kernels(tmp_path / "a", "base", TEN, "old")
    b = kernels(tmp_path / "b", "head", [1.4 * TEN[0], *TEN[1:]], "new")
    comparison = compare(a, b)
    assert comparison.exact is not None
    assert comparison.exact.identical == 7
    assert comparison.exact.different == (("head0", 1), ("head1", 1), ("head2", 1))
    assert comparison.exact.common == "stack.cc=dctcp (3 of 3 runs with that)"
    assert comparison.differs == "3 of 10 pairs of deterministic runs differ"
    # A difference is no regression where nothing is worse, unless identical runs are demanded.
    assert comparison.regressions == []
    assert compare(a, b, Options(identical=True)).regressions == [
        "3 of 10 pairs of deterministic runs differ"
    ]
    assert "7 identical, 3 different" in printed(comparison)


def test_deterministic_runs_that_are_all_identical_are_reported_as_such(tmp_path: Path) -> None:
    comparison = compare(kernels(tmp_path / "a", "base", TEN), kernels(tmp_path / "b", "head", TEN))
    assert comparison.same
    assert printed(comparison).endswith("identical\n")


def test_runs_in_real_time_are_never_called_identical(tmp_path: Path) -> None:
    runs = [one | {"substrate": "host"} for one in cubic(TEN)]
    assert compare(results(tmp_path / "a", runs), results(tmp_path / "b", runs)).exact is None


def test_where_a_parameter_tells_the_sides_apart_a_difference_is_expected(tmp_path: Path) -> None:
    comparison = of(tmp_path, TEN, [1.5 * x for x in TEN])
    assert comparison.exact is not None
    assert len(comparison.exact.different) == 10
    assert comparison.regressions == []


def test_runs_of_two_substrates_of_one_plan_have_partners_of_their_own(tmp_path: Path) -> None:
    runs = [
        one | {"case": f"{one['case']}{where}", "substrate": where}
        for where in ("model", "kernel")
        for one in cubic(TEN)
    ]
    comparison = compare(results(tmp_path / "a", runs), results(tmp_path / "b", runs))
    assert len(comparison.pairing.pairs) == 20


def test_an_effect_and_its_interval_have_the_same_form() -> None:
    base = {"metric": "m", "scale": "ratio", "estimate": 0.214, "low": 0.0547, "high": 0.8335}
    fields = {name: base.get(name) for name in Effect.__dataclass_fields__}
    assert describe(Effect(**fields)) == "x 0.214 (x 0.0547 to x 0.834)"
    assert describe(Effect(**fields | {"estimate": 0.9, "low": 0.8, "high": 1.0})) == (
        "-10.00 % (-20.00 % to +0.00 %)"
    )


def test_other_versions_and_plans_are_reported(tmp_path: Path) -> None:
    sides = []
    for name, version in (("a", "1.0"), ("b", "1.1")):
        made = folder(tmp_path / name, cubic(TEN))
        index = json.loads((made / "result.json").read_text())
        plan = (made / "plan.toml").read_bytes() + f"# {version}\n".encode()
        (made / "plan.toml").write_bytes(plan)
        told = {"name": "p", "sha256": hashlib.sha256(plan).hexdigest()}
        index |= {"environment": {"tcpassay": version}, "plan": told}
        (made / "result.json").write_text(json.dumps(index), encoding="utf-8")
        sides.append(Results(made))
    assert compare(*sides).versions == ("tcpassay: 1.0 in a, 1.1 in b", "plans: p, in two versions")
