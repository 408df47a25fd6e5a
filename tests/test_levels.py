"""Metrics by the levels of parameters: literal means and intervals."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from folders import folder, run
from tcpassay import levels, levels_show, terminal
from tcpassay.levels import Measured


def measured(case: str, cc: str, limit: str, value: float, seed: int = 1) -> Measured:
    return Measured(case, seed, {"stack.cc": cc, "queue.limit": limit}, {"rtt_p99": value})


RUNS = [
    measured("a", "reno", "10KB", 0.010, 1),
    measured("a", "reno", "10KB", 0.014, 2),
    measured("b", "reno", "1MB", 0.100),
    measured("c", "cubic", "10KB", 0.020),
    measured("d", "cubic", "1MB", 0.200),
]


def test_a_cell_of_one_seed_has_no_interval() -> None:
    runs = [
        Measured(f"{limit}", seed, {"limit": limit}, {"goodput": float(seed)})
        for limit in ("1MB", "50KB")
        for seed in (1, 2)
    ]
    grid = levels.grid(runs, "goodput", "seed")
    assert [(one.mean, one.half) for one in grid.cells.values()] == [(1.0, None), (2.0, None)]
    assert levels.grid(runs, "goodput", "limit").cells["1MB", ""].half is not None


def test_the_combinations_of_parameters_are_rows_in_the_order_of_their_levels() -> None:
    runs = [
        Measured(f"{loss}{limit}{cc}", 1, {"loss": loss, "limit": limit, "cc": cc}, {"goodput": value})
        for value, (loss, limit, cc) in enumerate(
            (loss, limit, cc) for loss in ("1%", "0") for limit in ("1MB", "50KB") for cc in ("reno", "cubic")
        )
    ]
    name, joined = levels.combined(runs, ["loss", "limit"])
    grid = levels.grid(joined, "goodput", name, "cc")
    assert grid.rows == ("0, 50KB", "0, 1MB", "1%, 50KB", "1%, 1MB")
    assert grid.columns == ("reno", "cubic")
    assert grid.cells["0, 50KB", "cubic"].mean == 7
    assert grid.over == ()


def test_a_confidence_interval_is_that_of_students_distribution() -> None:
    # Of 1, 2 and 3 the standard deviation is 1, and t with two degrees of freedom 4.303: 4.303 / sqrt(3).
    one = levels.mean([1.0, 2.0, 3.0])
    assert (one.mean, one.count) == (2.0, 3)
    assert one.half == pytest.approx(2.4843, abs=1e-4)
    assert levels.mean([5.0]).half is None


def test_a_metric_by_two_parameters_has_a_cell_for_each_pair_of_levels() -> None:
    grid = levels.grid(RUNS, "rtt_p99", "queue.limit", "stack.cc")
    assert (grid.rows, grid.columns) == (("10KB", "1MB"), ("reno", "cubic"))
    assert grid.cells["10KB", "reno"].mean == pytest.approx(0.012)
    assert grid.cells["10KB", "reno"].half == pytest.approx(12.706 * 0.002, rel=1e-4)
    assert grid.cells["1MB", "cubic"].half is None


def test_values_that_the_plan_chose_for_another_parameter_are_no_spread() -> None:
    # The means of the seeds are 51, 52 and 54: standard deviation 1.5275; t of two degrees of freedom: 4.303.
    runs = [
        measured(cc + limit, cc, limit, base + seed * step, seed)
        for cc, limit, base, step in (
            ("reno", "10KB", 0.0, 1),
            ("reno", "1MB", 100.0, 1),
            ("cubic", "10KB", 5.0, 1),
        )
        for seed in (1, 2, 4)
    ]
    grid = levels.grid(runs, "rtt_p99", "stack.cc")
    assert grid.over == ("queue.limit",)
    one = grid.cells["reno", ""]
    assert (one.mean, one.count) == (pytest.approx(52.333, abs=1e-3), 3)
    assert one.half == pytest.approx(4.303 * 1.5275 / 3**0.5, rel=1e-4)
    assert levels_show.of_grid(grid).title == (
        "rtt_p99 by stack.cc: mean and 95 % confidence interval, over all values of queue.limit"
    )
    # One run for each value tells nothing about the spread of runs.
    single = levels.grid([run for run in runs if run.seed == 1], "rtt_p99", "stack.cc")
    assert single.cells["reno", ""].half == pytest.approx(12.706 * 50, rel=1e-4)


def test_cases_that_take_the_same_steps_have_the_interval_of_one_of_them() -> None:
    # A queue that never fills: its limit changes nothing.
    runs = [
        replace(measured(limit, "reno", limit, value, seed), trace=f"t{seed}")
        for limit in ("10KB", "1MB")
        for seed, value in enumerate((1.0, 2.0, 3.0), 1)
    ]
    pooled = levels.grid(runs, "rtt_p99", "stack.cc").cells["reno", ""]
    alone = levels.grid(runs, "rtt_p99", "queue.limit").cells["1MB", ""]
    assert pooled == alone
    assert (pooled.count, pooled.half) == (3, pytest.approx(2.4843, abs=1e-4))


def test_hosts_of_one_run_are_no_independent_runs() -> None:
    # The shares of two hosts on each side sum to 1, so that both sides have the same interval.
    shares = {1: (0.1, 0.2, 0.3, 0.4), 2: (0.2, 0.2, 0.3, 0.3), 3: (0.15, 0.15, 0.2, 0.5)}
    hosts = [
        Measured(
            f"a sender{place}",
            seed,
            {"host": f"sender{place}", "cc": "mine" if place < len(of) // 2 else "cubic"},
            {"share": share},
            f"t{seed}",
            "a",
        )
        for seed, of in shares.items()
        for place, share in enumerate(of)
    ]
    mine, cubic = (levels.grid(hosts, "share", "cc").cells[cc, ""] for cc in ("mine", "cubic"))
    assert mine.count == cubic.count == 3
    assert mine.half == pytest.approx(cubic.half)
    one = levels.grid(hosts, "share", "seed", "cc").cells["1", "mine"]
    assert (one.mean, one.half, one.count) == (pytest.approx(0.15), None, 1)


def test_seeds_that_took_the_same_steps_are_no_more_evidence() -> None:
    same = [replace(RUNS[0], seed=seed, trace="t") for seed in range(8)]
    assert levels.grid(same, "rtt_p99", "queue.limit").cells["10KB", ""].count == 1


def test_the_parameter_that_explains_most_goes_down_and_the_controller_across() -> None:
    (first, share), (second, _) = levels.telling(RUNS, "rtt_p99")
    assert (first, second) == ("queue.limit", "stack.cc")
    assert 0.6 < share < 0.9
    assert levels_show.choose(RUNS, "rtt_p99") == ("queue.limit", "stack.cc")


def test_an_interval_is_printed_in_the_unit_of_its_mean() -> None:
    assert terminal.interval(96.5e6, 1.2e6, "bit/s") == "96.5 ± 1.2 Mbit/s"
    assert terminal.interval(0.012, 0.0254, "s") == "12 ± 25 ms"
    assert terminal.interval(80.8e6, 103e6, "bit/s") == "80.8 ± 103 Mbit/s"
    assert terminal.number(30_000, "B") == "30 KB"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    runs = [
        run(one.case, one.seed, one.metrics, **{n.replace(".", "__"): v for n, v in one.varied.items()})
        for one in RUNS
    ]
    return folder(tmp_path / "results", runs)


def table(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", "table", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)


def test_the_command_prints_a_grid_and_takes_the_last_part_of_a_name(results: Path) -> None:
    done = table(results, "--metric", "rtt_p99", "--by", "limit,cc")
    assert done.stdout == table(results, "--metric", "rtt_p99", "--by", "limit", "--by", "cc").stdout
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["limit", "reno", "cubic"]
    assert lines[2] == ["10KB", "12", "±", "25", "ms", "20", "ms"]


def test_the_command_prints_a_row_for_each_case(results: Path) -> None:
    rows = json.loads(table(results, "--cases", "--json", "--metric", "rtt_p99").stdout)
    assert [(row["case"], row["seeds"]) for row in rows] == [
        ("a", [1, 2]),
        ("b", [1]),
        ("c", [1]),
        ("d", [1]),
    ]


def test_a_parameter_that_does_not_vary_cannot_be_a_row(results: Path) -> None:
    done = table(results, "--by", "stack.mtu")
    assert done.returncode == 2
    assert "`--by stack.mtu`: the plan varies `stack.cc`, `queue.limit`" in done.stderr


def test_there_are_no_parts_of_a_bit_or_a_byte() -> None:
    assert terminal.number(0.53333, "bit/s") == "0.5333 bit/s"
    assert terminal.number(0.02, "B") == "0.02 B"
    assert terminal.interval(0.5, 0.1, "bit/s") == "0.5 ± 0.1 bit/s"
    assert terminal.number(0.02, "s") == "20 ms"
    assert terminal.number(7200.0, "s") == "7200 s"
