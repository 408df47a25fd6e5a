"""Figures of a metric by parameters, and tables in the formats of papers, of results with known numbers."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from typer.testing import CliRunner, Result

from folders import folder, run
from tcpassay import figures, levels
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.figures import measured, style
from tcpassay.figures.data import Pooled, Recording
from tcpassay.figures.measured import KINDS, Wanted
from tcpassay.levels import Measured
from tcpassay.plan.read import read_file
from tcpassay.run.folder import Folder


def runs(levels_of_limit: tuple[str, ...] = ("100KB", "1MB"), seeds: int = 3) -> list[Measured]:
    """The RTT of Reno is 10, 20, ... ms by limit, of CUBIC twice that, plus a millisecond for each further seed."""
    return [
        Measured(
            f"{cc}{limit}",
            seed + 1,
            {"stack.cc": cc, "queue.limit": limit},
            {"rtt_p99": factor * (place + 1) * 0.010 + seed * 0.001},
        )
        for factor, cc in ((1, "reno"), (2, "cubic"))
        for place, limit in enumerate(levels_of_limit)
        for seed in range(seeds)
    ]


def drawn(wanted: Wanted, some: list[Measured] | None = None) -> measured.Drawn:
    with style.styled():
        return measured.draw(some or runs(), wanted)


def test_a_line_has_the_mean_of_all_seeds_in_a_common_unit_and_its_interval() -> None:
    shown = drawn(Wanted("rtt_p99", "queue.limit", "stack.cc", "line"))
    (axes,) = shown.figure.axes
    reno, cubic = axes.containers
    assert reno.lines[0].get_ydata().tolist() == pytest.approx([11, 21])
    assert cubic.lines[0].get_ydata().tolist() == pytest.approx([21, 41])
    # Of 10, 11 and 12 the standard deviation is 1, and t with two degrees of freedom 4.303.
    (bars,) = reno.lines[2]
    low, high = bars.get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((11 - 2.4843, 11 + 2.4843), abs=1e-3)
    assert axes.get_ylabel() == "RTT p99 (ms)"
    assert axes.get_xlabel() == "queue.limit (KB)"
    assert [tick.get_text() for tick in shown.figure.legends[0].get_texts()] == ["reno", "cubic"]
    assert shown.caption == (
        "rtt_p99 by queue.limit and stack.cc: mean and Student's 95 % confidence interval; "
        "3 distinct runs a value, seeds 1 to 3."
    )


def test_levels_are_in_the_order_of_their_amounts_and_doubling_ones_have_a_logarithmic_axis() -> None:
    some = runs(("1MB", "50KB", "200KB"))
    assert levels.values(some, "rtt_p99", "queue.limit").rows == ("50KB", "200KB", "1MB")
    (axes,) = drawn(Wanted("rtt_p99", "queue.limit"), some).figure.axes
    assert axes.get_xscale() == "log"
    assert axes.get_xticks().tolist() == [50, 200, 1000]


def test_the_scale_follows_from_what_is_shown_and_an_interval_to_zero_does_not_stretch_it() -> None:
    # The means of reno are 340 and 10 ms: a factor of 34. The boxes show single runs, a factor of 100.
    some = [
        Measured(f"{limit}", seed, {"queue.limit": limit}, {"rtt_p99": value})
        for limit, values in (("50KB", (1.0, 0.01, 0.01)), ("100KB", (0.01, 0.01, 0.01)))
        for seed, value in enumerate(values)
    ]
    (axes,) = drawn(Wanted("rtt_p99", "queue.limit", kind="line"), some).figure.axes
    assert axes.get_yscale() == "linear"
    (axes,) = drawn(Wanted("rtt_p99", "queue.limit", kind="box"), some).figure.axes
    assert axes.get_yscale() == "log"
    (axes,) = drawn(Wanted("rtt_p99", "queue.limit", kind="line", scale="log"), some).figure.axes
    low, high = axes.get_ylim()
    # In milliseconds; half of the smallest mean, and above the end of the largest interval.
    assert low == pytest.approx(5)
    assert high > 1700


def test_identical_runs_count_once_and_a_single_run_has_no_interval() -> None:
    same = [Measured("a", seed, {"stack.cc": "reno"}, {"rtt_p99": 0.01}, "trace") for seed in range(8)]
    shown = drawn(Wanted("rtt_p99", "stack.cc"), same)
    assert shown.caption == (
        "rtt_p99 by stack.cc: single runs, without intervals; 1 distinct run a value, seeds 0 to 7."
    )


def test_the_caption_names_the_parameters_over_which_a_figure_averages() -> None:
    assert "6 distinct runs a value" in drawn(Wanted("rtt_p99", "stack.cc")).caption
    assert drawn(Wanted("rtt_p99", "stack.cc")).caption.endswith(
        "over all values of queue.limit (--where selects some)."
    )


def test_bars_start_at_zero_and_boxes_show_every_run() -> None:
    (bars,) = drawn(Wanted("rtt_p99", "stack.cc", kind="bar")).figure.axes
    assert bars.get_ylim()[0] == 0
    assert [patch.get_height() for patch in bars.patches] == pytest.approx([16, 31])
    (boxes,) = drawn(Wanted("rtt_p99", "stack.cc", kind="box")).figure.axes
    points = [line for line in boxes.lines if line.get_marker() == "."]
    assert points[0].get_ydata().tolist() == pytest.approx([10, 11, 12, 20, 21, 22])
    assert boxes.patches[0].get_path().vertices[:, 1].min() == pytest.approx(11)


def test_a_distribution_of_runs_reaches_all_of_them() -> None:
    (axes,) = drawn(Wanted("rtt_p99", "stack.cc", kind="cdf")).figure.axes
    assert axes.lines[0].get_ydata().tolist() == pytest.approx(
        [0, 100 / 6, 100 / 3, 50, 200 / 3, 250 / 3, 100]
    )


def test_a_heat_map_has_the_means_in_its_cells() -> None:
    figure = drawn(Wanted("rtt_p99", "queue.limit", "stack.cc", "heat")).figure
    assert [text.get_text() for text in figure.axes[0].texts] == ["11", "21", "21", "41"]
    assert figure.axes[1].get_ylabel() == "RTT p99 (ms)"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("columns", "inches"), [(1, 3.35), (2, 7.0)])
def test_a_figure_has_the_width_of_its_columns(kind: measured.Kind, columns: int, inches: float) -> None:
    wanted = Wanted("rtt_p99", "queue.limit", "stack.cc", kind, columns=columns)  # type: ignore[arg-type]
    assert drawn(wanted).figure.get_figwidth() == inches


def test_every_group_of_bars_has_its_own_colour_and_hatch() -> None:
    some = [
        Measured(f"{cc}", 1, {"stack.cc": cc, "queue.limit": "1MB"}, {"rtt_p99": 0.01}) for cc in "abcdef"
    ]
    handles = (
        drawn(Wanted("rtt_p99", "queue.limit", "stack.cc", "bar"), some).figure.legends[0].legend_handles
    )
    looks = {(to_hex(one.get_facecolor()), one.get_hatch()) for one in handles}  # type: ignore[union-attr]
    assert len(looks) == 6
    assert len({hatch for _, hatch in looks}) == 6


def test_equal_runs_make_equal_bytes_of_svg_pdf_and_png() -> None:
    def files() -> dict[str, bytes]:
        with style.styled():
            figure = measured.draw(runs(), Wanted("rtt_p99", "queue.limit", "stack.cc")).figure
            return style.save(figure, style.FORMATS)

    first = files()
    assert first == files()
    assert [first[name][:5] for name in ("pdf", "png")] == [b"%PDF-", b"\x89PNG\r"]
    assert b"CreationDate" not in first["pdf"]
    # Type 3 fonts, which many proceedings refuse.
    assert b"/Type3" not in first["pdf"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = [
        run(one.case, one.seed, one.metrics, **{n.replace(".", "__"): v for n, v in one.varied.items()})
        for one in runs()
    ]
    return folder(tmp_path_factory.mktemp("measured") / "results", made)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_command_writes_a_file_and_prints_its_caption(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.pdf"
    done = invoke("plot", results, "--metric", "rtt_p99", "--by", "cc", "--where", "limit=1MB", "--out", out)
    assert done.exit_code == 0, done.output
    assert "3 distinct runs a value, seeds 1 to 3." in done.output
    assert out.read_bytes().startswith(b"%PDF-")


def test_a_label_of_a_name_that_the_figure_does_not_have_is_refused(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.svg"
    done = invoke("plot", results, "--metric", "rtt_p99", "--by", "cc", "--label", "renno=Reno", "--out", out)
    assert isinstance(done.exception, UserError)
    assert "`--label renno`: this figure has no such name; did you mean `reno`?" in str(done.exception)
    assert not out.exists()


def test_values_without_the_metric_are_named_and_the_metrics_are_those_of_the_plan(tmp_path: Path) -> None:
    made = [
        run(f"c{path}", seed, {"goodput": 1e6 * seed, "saturation": used}, path=path)
        for path, used in (("constant", 0.9), ("varying", None))
        for seed in (1, 2)
    ]
    place = folder(tmp_path / "r", made)
    (place / "plan.toml").write_text('name = "p"\nmetrics = ["saturation"]\n', encoding="utf-8")
    printed = " ".join(invoke("table", place, "--by", "path").stdout.split())
    assert "saturation by path: mean and 95 % confidence interval; no value where path = varying" in printed
    assert "goodput" not in printed
    figure = invoke("plot", place, "--metric", "saturation", "--by", "path", "--out", tmp_path / "s.svg")
    assert "; no value where path = varying." in figure.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "bar"], "a figure of kind bar needs `--metric NAME`"),
        (["--kind", "cdf"], "`--kind distribution` shows round-trip or completion times"),
        (["--metric", "rtt_p99"], "needs `--by PATH`"),
        (["--metric", "rtt_p99", "--by", "delay"], "`--by delay`: the plan varies `stack.cc`, `queue.limit`"),
        (["--metric", "rtt_p99", "--by", "cc", "--group", "cc"], "are both `stack.cc`"),
        (["--metric", "rtt_p99", "--by", "cc", "--kind", "heat"], "needs two parameters"),
        (["--metric", "rtt_p99", "--by", "cc", "--kind", "line"], "the values of `stack.cc` are not ordered"),
        (["--metric", "rtt_p99", "--by", "cc", "--kind", "timeline"], "`timeline` shows runs"),
        (["--metric", "rtt_p99", "--by", "cc", "--series", "rtt"], "`--series` belongs to figures of runs"),
        (["--metric", "rtt_p99", "--by", "cc", "--scale", "lin"], "`--scale lin`: allowed are linear, log"),
        (
            ["--metric", "rtt_p99", "--by", "cc", "--where", "cc=bbr"],
            "`--where cc=bbr`: the values are reno, cubic",
        ),
        (["--metric", "rtt", "--by", "cc"], "a figure shows one metric; which of"),
        (["--metric", "goodput", "--by", "cc"], "no run has a value of `goodput`"),
        (["--by", "cc"], "`--by` belongs to figures of a metric"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_one_message_and_no_file(
    arguments: list[str], message: str, results: Path, tmp_path: Path
) -> None:
    out = tmp_path / "f.svg"
    done = invoke("plot", results, *arguments, "--out", out)
    assert type(done.exception).__name__ == "UserError"
    assert message in str(done.exception)
    assert not out.exists()


def test_a_table_in_latex_has_columns_of_booktabs_and_escaped_names(results: Path) -> None:
    done = invoke("table", results, "--metric", "rtt_p99", "--by", "limit", "--by", "cc", "--format", "latex")
    lines = done.stdout.splitlines()
    assert lines[1:5] == [r"\begin{tabular}{lrr}", r"\toprule", r"limit & reno & cubic \\", r"\midrule"]
    assert lines[5] == r"100KB & 11.0 $\pm$ 2.5 ms & 21.0 $\pm$ 2.5 ms \\"


def test_a_table_in_markdown_aligns_values_to_the_right(results: Path) -> None:
    done = invoke("table", results, "--metric", "rtt_p99", "--by", "limit", "--format", "markdown")
    assert done.stdout.splitlines()[2:5] == [
        "| limit | mean |",
        "| --- | ---: |",
        # Of both controllers the seeds have 15, 16 and 17: t of two degrees of freedom, 4.303, times 1 / sqrt(3).
        "| 100KB | 16.0 ± 2.5 ms |",
    ]


def test_a_table_in_csv_has_one_row_for_each_value_in_the_unit_of_the_metric(results: Path) -> None:
    out = invoke(
        "table", results, "--metric", "rtt_p99", "--by", "limit", "--by", "cc", "--format", "csv"
    ).stdout
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["queue.limit"], row["stack.cc"], row["unit"], row["runs"]) for row in rows] == [
        ("100KB", "reno", "s", "3"),
        ("100KB", "cubic", "s", "3"),
        ("1MB", "reno", "s", "3"),
        ("1MB", "cubic", "s", "3"),
    ]
    assert float(rows[0]["mean"]) == pytest.approx(0.011)


def test_the_seed_can_be_a_parameter_of_a_table(results: Path) -> None:
    done = invoke(
        "table", results, "--metric", "rtt_p99", "--by", "cc", "--by", "seed", "--format", "markdown"
    )
    assert done.stdout.splitlines()[2] == "| cc | 1 | 2 | 3 |"


PLAN = """
name = "two"
keep.recordings = "all"
seeds = [1, 2]
[fixed]
"topology" = "dumbbell:2"
"link.rate" = "10Mbit"
"link.loss" = "0.1%"
"sender1/stack.cc" = "bbr"
"app.duration" = "1s"
[axes]
"queue.limit" = ["20KB", "200KB"]
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared")
    (path / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = invoke("run", path / "plan.toml", "--out", path / "out")
    assert done.exit_code == 0, done.output
    return path / "out"


def test_results_by_host_add_up_to_those_of_the_run(shared: Path) -> None:
    by_host = list(
        csv.DictReader(io.StringIO(invoke("table", shared, "--per", "host", "--format", "csv").stdout))
    )
    whole = list(csv.DictReader(io.StringIO(invoke("table", shared, "--cases", "--format", "csv").stdout)))
    assert [(row["host"], row["cc"]) for row in by_host[:2]] == [("sender0", "reno"), ("sender1", "bbr")]
    assert sum(float(row["share"]) for row in by_host[:2]) == pytest.approx(1)
    goodput = sum(float(row["goodput (bit/s)"]) for row in by_host[:2])
    assert goodput == pytest.approx(float(whole[0]["goodput (bit/s)"]), rel=1e-6)


def test_results_by_controller_are_those_of_its_hosts(shared: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(invoke("table", shared, "--per", "cc", "--format", "csv").stdout)))
    hosts = list(
        csv.DictReader(io.StringIO(invoke("table", shared, "--per", "host", "--format", "csv").stdout))
    )
    assert [row["cc"] for row in rows[:2]] == ["reno", "bbr"]
    assert [row["share"] for row in rows] == [row["share"] for row in hosts]


def test_the_hosts_of_a_run_are_compared_with_each_other(shared: Path) -> None:
    arguments = ["--per", "host", "--between", "host", "--by", "limit", "--metric", "share", "--json"]
    rankings = json.loads(invoke("compare", shared, *arguments).stdout)["rankings"]
    assert [one["level"] for one in rankings] == ["20KB", "200KB"]
    for one in rankings:
        assert sum(one["medians"].values()) == pytest.approx(1, rel=0.02)
        assert {**one["medians"]}.keys() == {"sender0", "sender1"}


def test_the_hosts_of_two_results_are_compared(shared: Path) -> None:
    done = invoke("compare", shared, shared, "--per", "host", "--json")
    made = json.loads(done.stdout)
    assert (made["pairs"], made["same"], [one["metric"] for one in made["effects"]]) == (8, True, ["goodput"])


def test_only_metrics_of_hosts_can_be_compared_by_host(shared: Path) -> None:
    done = invoke("compare", shared, "--per", "host", "--between", "host", "--metric", "rtt_p99")
    assert "`--metric rtt_p99`: with `--per` the metrics are goodput, share, " in str(done.exception)


def test_flows_are_rows_or_columns_of_a_table(shared: Path) -> None:
    done = invoke("table", shared, "--per", "flow", "--metric", "share", "--by", "limit", "--by", "from")
    assert done.stdout.splitlines()[1].split() == ["limit", "sender0", "sender1"]


def test_damaged_metrics_are_reported(shared: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(shared, tmp_path / "copy"))
    (copy / "metrics.parquet").write_bytes(b"PAR1")
    assert "damaged: " in invoke("table", copy, "--cases").stderr


def test_a_figure_can_be_of_each_host(shared: Path, tmp_path: Path) -> None:
    out = tmp_path / "f.svg"
    arguments = ["--per", "host", "--metric", "share", "--by", "limit", "--group", "cc", "--kind", "bar"]
    done = invoke("plot", shared, *arguments, "--out", out)
    assert done.exit_code == 0, done.output
    assert "share by queue.limit and cc" in done.output
    assert out.read_bytes().startswith(b"<?xml")


def test_a_time_range_after_the_end_of_the_runs_is_refused(shared: Path, tmp_path: Path) -> None:
    done = invoke("plot", shared, "--start", "10s", "--out", tmp_path / "f.svg")
    assert str(done.exception) == "`--start 10s`: the runs end at 1 s"


def test_a_distribution_pools_the_samples_of_all_seeds(shared: Path, tmp_path: Path) -> None:
    recordings = [Recording(folder) for folder in sorted((shared / "recordings").iterdir())[:2]]
    counts = [one.rtt_counts()["count"].sum() for one in recordings]
    values, share = Pooled(recordings).rtt()
    assert len(values) > 10
    first = recordings[0].rtt_counts().filter(value_ns=round(values[0] * 1e9))["count"].sum()
    second = recordings[1].rtt_counts().filter(value_ns=round(values[0] * 1e9))["count"].sum()
    assert share[0] == pytest.approx((first + second) / sum(counts))
    done = invoke("plot", shared, "--kind", "distribution", "--out", tmp_path / "f.svg")
    assert done.output.endswith(": 4 runs\n")
    assert "one run of each case, of seed 1" in invoke("plot", shared, "--out", tmp_path / "f.svg").output


OF_METRIC = """
name = "p"
seeds = [1, 2, 3]
[axes]
"stack.cc" = ["reno", "cubic"]
"queue.limit" = ["100KB", "1MB"]
[collect]
taps = false
[[figure]]
kind = "line"
file = "rtt"
metric = "METRIC"
by = "BY"
group = "stack.cc"
where = { "queue.limit" = "1MB" }
"""


def test_a_plan_draws_a_metric_from_the_runs_of_all_seeds_without_recordings(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(OF_METRIC.replace("METRIC", "rtt_p99").replace("BY", "seed"), encoding="utf-8")
    plan = read_file(file)
    of_case = {(case.varied["stack.cc"], case.varied["queue.limit"]): case.id for case in plan.cases}
    some = [replace(run, case=of_case[run.varied["stack.cc"], run.varied["queue.limit"]]) for run in runs()]
    made = Folder.create(tmp_path / "results", replace=False)
    said = figures.draw(plan, made, set(), some)
    assert said.problems == []
    assert said.files == [f"figures/rtt.{suffix}" for suffix in ("svg", "pdf", "png", "txt")]
    caption = (made.made / "figures/rtt.txt").read_text(encoding="utf-8")
    # Of the two limits only one, so that each value is one run.
    assert caption == (
        "rtt_p99 by seed and stack.cc: single runs, without intervals; 1 distinct run a value, seeds 1 to 3.\n"
    )


@pytest.mark.parametrize(
    ("metric", "by", "expected"),
    [
        ("rtt_p9", "queue.limit", ":12: `metric` = `rtt_p9`: no such metric; did you mean `rtt_p99`?"),
        (
            "rtt_p99",
            "queue.kind",
            ":13: `by` = `queue.kind`: the plan varies `stack.cc`, `queue.limit`, `seed`",
        ),
        ("rtt_p99", "stack.cc", ":14: `group` = `stack.cc`: it is `by`, too; leave out one"),
    ],
)
def test_a_figure_of_an_unknown_metric_or_parameter_is_refused_with_its_line(
    tmp_path: Path, metric: str, by: str, expected: str
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(OF_METRIC.replace("METRIC", metric).replace("BY", by), encoding="utf-8")
    with pytest.raises(UserError) as raised:
        read_file(file)
    assert expected in str(raised.value)
