"""Which runs and metrics of two folders are compared: partners, seeds, damage, deterministic runs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from compared import ALL, TEN, collecting, cubic, delays, effect, kernels, of, printed, results, seeds
from folders import folder, run
from tcpassay.compare import Options, Sides, Verdict, compare
from tcpassay.errors import UserError
from tcpassay.results import Results


def test_runs_are_paired_by_what_does_not_differ_throughout(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", delays("cubic", TEN)), results(tmp_path / "b", delays("reno", TEN))
    comparison = compare(a, b)
    assert comparison.pairing.compared == {"stack.cc": ("cubic", "reno")}
    assert [(p.a["case"], p.b["case"]) for p in comparison.pairing.pairs[:2]] == [
        ("cubic0", "reno0"),
        ("cubic1", "reno1"),
    ]


def test_a_parameter_that_only_one_side_sets_tells_the_sides_apart(tmp_path: Path) -> None:
    a = results(tmp_path / "a", [run("x", 1, {"goodput": 1.0}, link__delay="1ms")])
    b = results(tmp_path / "b", [run("y", 1, {"goodput": 2.0}, link__delay="1ms", stack__cc="cubic")])
    assert compare(a, b).pairing.compared == {"stack.cc": (None, "cubic")}


def test_runs_without_a_partner_are_listed(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", delays("cubic", TEN)), results(tmp_path / "b", delays("reno", TEN[:8]))
    assert [r["case"] for r in compare(a, b).pairing.only_a] == ["cubic8", "cubic9"]


def test_runs_that_differ_in_a_value_of_a_factor_say_how_they_are_paired(tmp_path: Path) -> None:
    both = cubic(TEN)
    a = results(tmp_path / "a", both + cubic(TEN, cc="one"))
    b = results(tmp_path / "b", both + cubic(TEN, cc="two"))
    assert compare(a, b).incomplete[-1] == (
        "`stack.cc` has other values in these runs of a than in those of b: --where-a and --where-b, or --ignore, "
        "pair them"
    )


def test_results_without_a_common_run_are_refused_and_say_what_to_do(tmp_path: Path) -> None:
    a = results(tmp_path / "a", [run(f"a{i}", 1, {"goodput": 1.0}, queue__kind=f"{i}") for i in range(3)])
    b = results(tmp_path / "b", [run(f"b{i}", 1, {"goodput": 1.0}, queue__kind=f"{i + 5}") for i in range(3)])
    with pytest.raises(UserError, match="name parameters that do not count with --ignore"):
        compare(a, b)


def test_ignoring_a_parameter_that_varies_within_a_side_is_refused(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", delays("cubic", TEN)), results(tmp_path / "b", delays("reno", TEN))
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


def test_a_case_without_random_events_beside_one_with_them_has_a_part_in_each_seed(tmp_path: Path) -> None:
    def two(cc: str, rate: float) -> list[dict[str, Any]]:
        return [
            run(f"{cc}{loss[0]}", seed, {"goodput": rate}, stack__cc=cc, link__loss=loss)
            | {"trace": f"{cc}{seed if loss == '1%' else 0}"}
            for loss in ("0", "1%")
            for seed in range(1, 9)
        ]

    found = compare(results(tmp_path / "a", two("cubic", 100.0)), results(tmp_path / "b", two("reno", 80.0)))
    assert (found.repeated, effect(found).pairs, effect(found).cases) == (0, 8, 2)


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
