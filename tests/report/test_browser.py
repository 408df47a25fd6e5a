"""The report in a real browser: opening, filters, zoom, links, and charts with the numbers of the results."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pages
import pytest
from views import View

import folders
from tcpassay.report import write_report

Open = Callable[[Path], View]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(pages.folder(tmp_path_factory.mktemp("report") / "made")).file


def boxes(view: View) -> Any:
    return view.chart("distribution", "o.series[0].data.map((one) => one.value)")


def test_the_report_opens_offline_and_shows_the_findings_first(view: Open, report: Path) -> None:
    page = view(report).open()
    assert page.text("h1") == "made"
    assert page.page.locator(".figure").all_inner_texts() == [
        "1\nfindings in 1 run",
        "1 / 2\nchecks hold",
        "9\nruns done; 1 crashed",
        "10 \u00d7 1\ncases \u00d7 seed",
        "90 %\nof pairs of levels covered",
    ]
    assert page.page.locator("main > section").first.get_attribute("id") == "findings"
    finding = page.text("#findings")
    assert "timeout although nothing was lost" in finding
    assert pages.TEXT in finding
    assert "40.000 ms to 60.000 ms" in finding
    assert pages.REPLAY in finding
    assert "no significant effect" in page.text("#findings .spread")


def test_a_failed_check_stands_above_those_that_hold(view: Open, report: Path) -> None:
    page = view(report).open()
    assert "goodput ≥ 15 Mbit/s" in page.text("#checks summary")
    assert "in 1 of 2" in page.text("#checks summary")
    rows = page.page.locator("#checks tbody tr").all_inner_texts()
    assert [row.split("\t")[:3] for row in rows] == [
        ["fails", "cc=reno, limit=50KB", "10 Mbit/s"],
        ["holds", "cc=cubic, limit=50KB", "60 Mbit/s"],
    ]


def test_reached_behaviours_are_listed_and_a_missing_one_is_named(view: Open, tmp_path: Path) -> None:
    made = pages.folder(tmp_path / "made")
    index = json.loads((made / "result.json").read_text(encoding="utf-8"))
    index["runs"][0]["reached"] = {"timer_fire Rto": 3, "persist": 1}
    (made / "result.json").write_text(json.dumps(index), encoding="utf-8")
    required = '[[reach]]\nbehaviour = "persist"\n[[reach]]\nbehaviour = "undo"\n'
    (made / "plan.toml").write_text(f'name = "made"\n{required}', encoding="utf-8")
    page = view(write_report(made).file).open()
    assert "1 behaviour that the plan requires was not reached: undo." in page.text("#reach .lead")
    rows = page.page.locator("#reach > :not(details) tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        ["persist", "1", "1", "reached"],
        ["undo", "0", "0", "needs 1 run"],
    ]


def test_the_code_of_a_kernel_that_was_reached_is_listed_by_file(view: Open, tmp_path: Path) -> None:
    page = view(write_report(pages.with_kernel_coverage(pages.folder(tmp_path / "made"))).file).open()
    rows = page.page.locator("#kernel-coverage tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows][:2] == [
        ["ipv4/tcp_input.c", "3 of 4 (75 %)", "1 of 2 (50 %)", "1 of 1 (100 %)"],
        ["tcp_{input,output,timer,recovery}", "3 of 4 (75 %)", "1 of 2 (50 %)", "1 of 1 (100 %)"],
    ]
    assert "kernel:cov" in page.text("#kernel-coverage summary")


def test_the_best_cases_of_a_search_are_listed_with_the_path_to_the_best(view: Open, tmp_path: Path) -> None:
    made = pages.folder(tmp_path / "made")
    index = json.loads((made / "result.json").read_text(encoding="utf-8"))
    first, second = index["runs"][0]["case"], index["runs"][1]["case"]
    best = [
        {"case": second, "value": 2e6, "found_with_seed": None},
        {"case": first, "value": 5e6, "found_with_seed": None},
    ]
    index["search"] = {
        "kind": "search", "method": "evolution", "metric": "goodput", "worst": "least", "finding": None,
        "generations": 2, "runs": 9, "ended": "the budget of 9 runs is used up", "best": best,
        "path": [{"runs": 1} | best[1], {"runs": 2} | best[0]],
    }  # fmt: skip
    (made / "result.json").write_text(json.dumps(index), encoding="utf-8")
    page = view(write_report(made).file).open()
    assert page.text("#search .lead") == (
        "The worst cases for the least goodput in 2 generations. The budget of 9 runs is used up."
    )
    rows = page.page.locator("#search tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows] == [["2 Mbit/s", second], ["5 Mbit/s", first]]
    points = page.page.evaluate("tcpassay.charts.get('search').getOption().series[0].data")
    assert points == [[1, 5], [2, 2], [9, 2]]
    assert "A search chooses values between levels" in page.text("#coverage")


def test_box_plots_are_those_of_tukey(view: Open, report: Path) -> None:
    page = view(report).open("#metric=goodput&by=stack.cc&view=box")
    assert boxes(page) == [[10, 20, 30, 40, 50], [60, 60, 70, 80, 90]]
    assert page.chart("distribution", "o.xAxis[0].data") == ["reno", "cubic"]
    assert page.chart("distribution", "o.yAxis[0].name") == "goodput (Mbit/s)"
    assert page.page.locator("#metrics tbody tr").first.inner_text().split("\t")[:5] == [
        "reno", "5", "10 Mbit/s", "20 Mbit/s", "30 Mbit/s",
    ]  # fmt: skip


def test_a_cumulative_distribution_steps_at_each_run(view: Open, report: Path) -> None:
    page = view(report).open("#metric=goodput&by=stack.cc&view=cdf")
    assert page.chart("distribution", "o.series[0].data") == [
        [10, 0], [10, 0.2], [20, 0.4], [30, 0.6], [40, 0.8], [50, 1],
    ]  # fmt: skip


def test_quantiles_stand_against_those_of_the_first_level(view: Open, report: Path) -> None:
    page = view(report).open("#metric=goodput&by=stack.cc&view=qq")
    # The smaller of the two has four runs: its quantiles at 0, 1/3, 2/3 and 1 against those of five runs.
    points = page.chart("distribution", "o.series[0].data")
    assert points == [[10, 60], [20, 70], [40, 80], [50, 90]]


def test_throughput_and_latency_are_those_of_the_run(view: Open, report: Path) -> None:
    page = view(report).open("#x=rtt_p50&y=goodput&colour=stack.cc")
    assert page.chart("tradeoff", "o.series[0].data.map((one) => one.value)") == [
        [4, 10], [8, 20], [12, 30], [16, 40], [20, 50],
    ]  # fmt: skip
    assert page.chart("tradeoff", "[o.xAxis[0].name, o.yAxis[0].name]") == [
        "rtt_p50 (ms)",
        "goodput (Mbit/s)",
    ]


def test_what_kept_senders_from_sending_is_divided_by_the_levels_of_a_factor(
    view: Open, tmp_path: Path
) -> None:
    shares = {
        ("aaaa000001", "reno"): {"time_application": 0.25, "time_congestion_window": 0.75, "time_nagle": 0.0},
        ("aaaa000002", "reno"): {"time_application": 0.75, "time_congestion_window": 0.25, "time_nagle": 0.0},
        # A kernel does not divide the rest.
        ("bbbb000001", "cubic"): {"time_application": 0.5, "time_receive_window": 0.25},
    }
    made = tmp_path / "made"
    runs = [
        folders.run(case, 1, {"goodput": 1e6, **times}, stack__cc=cc) for (case, cc), times in shares.items()
    ]
    folders.folder(made, runs)
    page = view(write_report(made).file).open("#by=stack.cc")
    assert page.chart("limits", "o.yAxis[0].data") == ["reno", "cubic"]
    assert page.chart("limits", "o.series.map((one) => [one.name, one.data])") == [
        ["application", [50, 50]],
        ["receive window", [0, 25]],
        ["congestion window", [50, 0]],
        ["not divided", [0, 25]],
    ]


def test_a_filter_changes_every_view_and_the_address(view: Open, report: Path) -> None:
    page = view(report).open("#metric=goodput&by=stack.cc")
    page.after(lambda: page.page.locator('.level[data-level="cubic"]').click())
    assert page.text("#filters strong") == "5 of 10 runs"
    assert boxes(page) == [[60, 60, 70, 80, 90]]
    assert page.page.locator("#runs tbody tr").count() == 5
    assert "No findings in the runs that are shown." in page.text("#findings")
    assert "w.stack.cc=cubic" in page.page.url
    # The keyboard focus is kept.
    assert page.page.evaluate("document.activeElement.dataset.level") == "cubic"
    page.after(lambda: page.page.locator('.level[data-level="50KB"]').click())
    assert page.text("#filters strong") == "1 of 10 runs"
    page.after(page.page.go_back)
    assert page.text("#filters strong") == "5 of 10 runs"
    page.after(lambda: page.page.locator(".chip").click())
    assert page.text("#filters strong") == "10 runs"


def test_choosing_a_metric_by_keyboard_draws_it(view: Open, report: Path) -> None:
    page = view(report).open("#by=stack.cc")
    choice = page.page.locator("#metrics select").first
    choice.focus()
    page.after(lambda: page.page.keyboard.press("ArrowDown"))
    assert boxes(page) == [[4, 8, 12, 16, 20], [4, 4, 8, 12, 16]]
    assert page.page.evaluate("document.activeElement.tagName") == "SELECT"


def test_a_click_on_a_heading_sorts_by_number(view: Open, report: Path) -> None:
    page = view(report).open()
    heading = page.page.locator("#runs th button", has_text="goodput")
    heading.click()
    assert page.page.locator("#runs tbody tr").first.inner_text().split("\t")[0] == "bbbb000004"
    heading.click()
    rows = page.page.locator("#runs tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows[:2]] == ["aaaa000001", "aaaa000002"]
    # The run without the metric comes last, whichever way.
    assert rows[-1].split("\t")[0] == "bbbb000005"


def test_settings_shared_by_the_runs_with_a_finding_are_stated_and_shown(view: Open, tmp_path: Path) -> None:
    runs = [
        folders.run(f"c{n}", 1, {"goodput": 1e6}, mark=mark, receiver=receiver, flows=flows)
        for n, (mark, receiver, flows) in enumerate(
            (mark, receiver, flows)
            for mark in ("off", "data")
            for receiver in ("a", "b")
            for flows in (1, 2, 3, 4)
        )
    ]
    found = [("late-ack", f"c{n}", 1) for n in (9, 10, 11)]  # data, a, and flows of 2, 3, 4
    page = view(write_report(folders.folder(tmp_path / "made", runs, found)).file).open()
    # Three different numbers of flows in three runs are no evidence, nor are the receiver's runs with one flow.
    shared = "All runs with this finding have mark = data, receiver = a \u2014 of the 4 runs with these settings 3 have"
    assert page.text(".shared") == f"{shared} the finding. Show these runs"
    page.after(page.page.locator(".shared a").click)
    assert page.text("#filters strong") == "4 of 16 runs"


def test_refused_as_they_must_be_is_no_failure_and_what_was_not_run_is_said(
    view: Open, tmp_path: Path
) -> None:
    runs = [folders.run(f"c{n}", 1, {"goodput": 1e6}, limit=f"{n}KB") for n in range(4)]
    runs[1] |= {"outcome": "refused", "expect": "refused", "message": "too small"}
    runs[2] |= {"outcome": "not run"}
    runs[3] |= {"expect": "refused"}
    folder = folders.folder(tmp_path / "made", runs)
    index = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    index |= {"status": "interrupted", "undetermined": [{"case": "c0"}], "findings": 0}
    (folder / "result.json").write_text(json.dumps(index), encoding="utf-8")
    page = view(write_report(folder).file).open()
    assert page.text(".badge") == "interrupted"
    assert (
        page.text(".figure:has-text('done')")
        == "2\nruns done, 1 refused as expected; 1 not refused although expected, 1 not run"
    )
    assert "1 repetition differed" in page.text(".problems.bad")
    assert "No findings. Every finished run was judged." in page.text("#findings")
    assert page.page.locator("#coverage .evidence li").all_inner_texts() == [
        "1 run not run (c2 seed 1)", "1 run done (c3 seed 1)",
    ]  # fmt: skip


def test_coverage_shows_the_pair_that_no_run_met(view: Open, tmp_path: Path) -> None:
    runs = [
        folders.run(f"c{n}", 1, {"goodput": 1e6 * n}, a=a, b=b, c=c)
        for n, (a, b, c) in enumerate([("x", "p", "u"), ("x", "q", "v"), ("y", "p", "v"), ("y", "p", "u")])
    ]
    page = view(write_report(folders.folder(tmp_path / "made", runs)).file).open()
    # Column, row, percent: nobody met a = y with b = q, nor b = q with c = u.
    cells = page.chart("coverage", "o.series[0].data.map((one) => one.value)")
    assert cells == [[1, 0, 75], [2, 0, 100], [2, 1, 75]]
    assert "3 of 4 pairs covered" in page.text("#coverage caption")
    assert "2 pairs not covered" in page.text("#coverage .evidence")
    assert page.page.locator("#coverage td.missing").all_inner_texts() == ["0"]


def test_a_link_to_a_case_shows_its_curves(view: Open, report: Path) -> None:
    page = view(report).open(f"#case={pages.WATCHED}&seed=1")
    assert page.text("h2") == "Case aaaa000002 seed 1"
    of = "o.series.find((one) => one.panel === '{}' && one.name === '{}').data"
    throughput = page.chart("timeline", of.format("throughput", "flow.0"))
    assert throughput == [[10 * n, y] for n, y in enumerate([8, 8, 8, 8, 0, 0, 16, 8, 8, 8])]
    assert page.chart("timeline", of.format("cwnd", "flow.0"))[9] == [90, 100]
    assert page.chart("timeline", of.format("rtt", "flow.0")) == [[8, 8], [18, 9], [28, 10], [38, 11]]
    assert page.chart("timeline", of.format("queue", "bottleneck"))[4] == [40, 12]
    assert page.chart("timeline", of.format("counts", "marks")) == [[20, 5], [70, 2]]
    assert page.chart("timeline", of.format("events", "RTO fires")) == [[60, 0]]
    assert page.chart("timeline", of.format("sequence", "retransmitted")) == [
        {"coords": [[60, 3.001], [60, 4.001]]}
    ]
    assert page.chart("timeline", of.format("sequence", "acknowledged"))[-1] == [38, 4.001]
    latency = page.chart("latency", "o.series.map((one) => [one.name, one.data])")
    assert latency == [["round trip", [[8, 0.5], [9, 0.75], [40, 1]]]]
    # The finding's span is marked in every panel.
    spans = page.chart(
        "timeline",
        "o.series.flatMap((one) => (one.markArea?.data ?? []).map((ends) => ends.map((end) => end.xAxis)))",
    )
    assert spans == [[40, 55]] * 7
    assert "20 Mbit/s" in page.text("#case .table:has-text('rank among displayed runs') tbody tr")
    assert "8.1 ms" in page.text("#case .table:has-text('measured')")


def zoom(page: View) -> Any:
    return page.chart("timeline", "[o.dataZoom[0].startValue, o.dataZoom[0].endValue]")


def test_dragging_zooms_all_panels_and_the_address_says_so(view: Open, report: Path) -> None:
    page = view(report).open(f"#case={pages.WATCHED}&seed=1")
    box = page.page.locator(".timeline .chart").bounding_box()
    assert box is not None
    # The plot is from 92 pixels on to 18 from the right: 40 % and 70 % of it.
    left, width = box["x"] + 92, box["width"] - 110
    mouse = page.page.mouse
    mouse.move(left + 0.4 * width, box["y"] + 60)
    mouse.down()
    mouse.move(left + 0.5 * width, box["y"] + 70)
    mouse.move(left + 0.7 * width, box["y"] + 80)
    mouse.up()
    assert zoom(page) == pytest.approx([40, 70], abs=1)
    start, end = page.page.evaluate("tcpassay.state.now().t").split(",")
    assert [float(start), float(end)] == pytest.approx([40, 70], abs=1)
    mouse.dblclick(left + 0.5 * width, box["y"] + 60)
    assert zoom(page) == [0, 100]


def test_the_scatter_zooms_and_a_click_leads_to_the_run(view: Open, report: Path) -> None:
    page = view(report).open("#x=rtt_p50&y=goodput&colour=stack.cc&xlog=0")
    chart = page.page.locator("#tradeoff .chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None

    def at(rtt: float, goodput: float) -> tuple[float, float]:
        x, y = page.page.evaluate(
            f"tcpassay.charts.get('tradeoff').convertToPixel({{ xAxisIndex: 0, yAxisIndex: 0 }}, [{rtt}, {goodput}])"
        )
        return box["x"] + x, box["y"] + y

    def seen() -> list[float]:
        said = "tcpassay.charts.get('tradeoff').getModel().getComponent('{}').axis.scale.getExtent()"
        return [*page.page.evaluate(said.format("xAxis")), *page.page.evaluate(said.format("yAxis"))]

    whole = seen()
    mouse = page.page.mouse
    mouse.move(*at(6, 75))
    mouse.down()
    mouse.move(*at(8, 60))
    mouse.move(*at(10, 15))
    mouse.up()
    assert seen() == pytest.approx([6, 10, 15, 75], rel=0.05)
    mouse.dblclick(*at(9, 50))
    assert seen() == whole
    page.after(lambda: mouse.click(*at(8, 20)))
    assert page.text("h2") == "Case aaaa000002 seed 1"


def test_keys_zoom_and_move(view: Open, report: Path) -> None:
    page = view(report).open(f"#case={pages.WATCHED}&seed=1&t=20,60")
    assert zoom(page) == [20, 60]
    page.page.locator(".timeline .chart").focus()
    page.page.keyboard.press("ArrowRight")
    assert zoom(page) == [30, 70]
    page.page.keyboard.press("+")
    assert zoom(page) == [40, 60]
    page.page.keyboard.press("0")
    assert zoom(page) == [0, 100]


def test_a_finding_leads_to_its_span_and_back_to_the_same_selection(view: Open, report: Path) -> None:
    page = view(report).open("#w.stack.cc=reno")
    page.after(page.page.locator("#findings .where a").first.click)
    assert zoom(page) == [35, 60]
    assert "2 of 5" in page.text(".crumbs")
    page.after(lambda: page.page.locator(".crumbs a", has_text="next").click())
    assert page.text("h2") == "Case aaaa000003 seed 1"
    assert "not in this file" in page.text(".timeline")
    page.after(lambda: page.page.locator(".crumbs a", has_text="All runs").click())
    assert page.text("#filters strong") == "5 of 10 runs"


def test_a_case_that_is_not_there_says_so(view: Open, report: Path) -> None:
    assert "There is no case zzzz" in view(report).open("#case=zzzz").text("main")


def test_a_crashed_case_shows_its_message(view: Open, report: Path) -> None:
    page = view(report).open("#case=bbbb000005&seed=1")
    assert page.text("h2 .badge") == "crashed"
    assert "index out of bounds" in page.text("main pre")
    assert "1 run crashed: a bug in the data plane" in page.open().text("#coverage .evidence ul")


def test_statistics_are_those_of_the_tables(view: Open, report: Path) -> None:
    page = view(report).open()

    def stats(call: str) -> float:
        return float(page.page.evaluate(f"tcpassay.stats.{call}"))

    # The 5 % points of chi squared, the 97.5 % and 99.9 % points of the normal distribution.
    for value, freedom in ((3.841, 1), (5.991, 2), (11.070, 5), (31.410, 20)):
        assert stats(f"chi2({value}, {freedom})") == pytest.approx(0.05, abs=0.005)
    assert stats("normal(0.975)") == pytest.approx(1.959964, abs=1e-6)
    assert stats("normal(0.001)") == pytest.approx(-3.090232, abs=1e-6)
    # Nearest ranks: the numbers of tests/test_quantile.py and of crates/measure/src/metrics/stats.rs.
    for share, value in ((0, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.999, 100), (1, 100), (0.07, 7)):
        assert stats(f"quantile(Array.from({{ length: 100 }}, (_, n) => n + 1), {share})") == value
    assert stats("quantile([1, 2, 4, 8], 0.25)") == 1
    # Of 6000 around the mean of all, 4500 lie between the two controllers.
    assert stats("explained([[10, 20, 30, 40, 50], [60, 70, 80, 90]])") == pytest.approx(0.75)
    assert "stack.cc (75 %)" in page.page.locator("#metrics select").nth(1).inner_text()


HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


def test_hostile_names_stay_names(view: Open, tmp_path: Path) -> None:
    folder = pages.folder(tmp_path / "made", name=HOSTILE, reno=HOSTILE)
    page = view(write_report(folder).file).open("#metric=goodput&by=stack.cc")
    assert page.text("h1") == HOSTILE
    assert page.page.title() == f"{HOSTILE} · tcpassay"
    assert page.chart("distribution", "o.xAxis[0].data[0]") == HOSTILE
    # A chart library might interpret the text of a tooltip as HTML.
    box = page.page.locator("#metrics .chart").bounding_box()
    assert box is not None
    page.page.locator("#metrics .chart").scroll_into_view_if_needed()
    page.page.evaluate(
        "tcpassay.charts.get('distribution').dispatchAction({ type: 'showTip', seriesIndex: 0, dataIndex: 0 })"
    )
    page.page.wait_for_selector(".tip")
    assert page.text(".tip strong") == HOSTILE
    assert page.page.evaluate("window.hacked") is None
    assert page.page.locator("img").count() == 0


def test_nothing_varies_and_nothing_was_recorded(view: Open, tmp_path: Path) -> None:
    folder = folders.folder(tmp_path / "bare", [folders.run("c", 1, {"goodput": 1e6})])
    page = view(write_report(folder).file).open()
    assert "No findings." in page.text("#findings")
    assert boxes(page) == [[1, 1, 1, 1, 1]]


def test_damage_is_reported_at_the_top_of_the_page(view: Open, tmp_path: Path) -> None:
    folder = pages.folder(tmp_path / "made")
    (folder / "findings.json").write_text("{", encoding="utf-8")
    page = view(write_report(folder).file).open()
    assert "1 file could not be read; this page omits their content." in page.text(".problems")
    assert "findings.json" in page.text(".problems")


def test_the_dark_theme_has_a_dark_background(view: Open, report: Path) -> None:
    page = view(report)
    page.page.emulate_media(color_scheme="dark")
    page.open()
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 29)"


def test_a_thousand_runs_open_and_filter_quickly(view: Open, tmp_path: Path) -> None:
    runs = [
        folders.run(
            f"{n:010x}",
            seed,
            {"goodput": 1e6 * (n + seed), "rtt_p50": 0.001 * (n % 90 + 1), "lost": n % 7},
            stack__cc=("reno", "cubic", "dctcp", "vegas")[n % 4],
            link__delay=f"{n // 4 % 5 + 1}ms",
            queue__limit=f"{n // 20 % 10 + 1}KB",
        )
        for n in range(250)
        for seed in range(4)
    ]
    page = view(write_report(folders.folder(tmp_path / "many", runs)).file).open(
        "#metric=goodput&by=stack.cc"
    )
    assert page.text("#filters strong") == "1,000 runs"
    page.page.evaluate("window.started = performance.now()")
    page.after(lambda: page.page.locator('.level[data-level="dctcp"]').click())
    assert page.text("#filters strong") == "248 of 1,000 runs"
    # A second is much longer than needed, so that the test does not fail on a busy machine.
    assert page.page.evaluate("performance.now() - window.started") < 5000


@pytest.mark.parametrize("name", ["constructor", "toString", "hasOwnProperty", "__proto__"])
def test_a_parameter_may_have_the_name_of_a_property_of_every_object(
    view: Open, tmp_path: Path, name: str
) -> None:
    runs = [folders.run(f"c{n}", 1, {"goodput": 1e6 * n}) for n in range(4)]
    for n, run in enumerate(runs):
        run["varied"] = run["triples"] = {name: f"level{n % 2}"}
    page = view(write_report(folders.folder(tmp_path / "made", runs, [("late-ack", "c1", 1)])).file).open()
    page.after(page.page.locator(".level", has_text="level1").click)
    assert page.text("#filters strong") == "2 of 4 runs"
    page.after(page.page.locator(".chip").click)
    assert page.text("#filters strong") == "4 runs"


def test_means_by_two_parameters_have_students_intervals(view: Open, report: Path) -> None:
    page = view(report).open("#metric=goodput&down=stack.cc&across=-")
    rows = page.page.locator("#levels tbody tr").all_inner_texts()
    # Standard deviations of 15.81 and 12.91 Mbit/s; t is 2.776 with five runs and 3.182 with four.
    assert [row.split("\t") for row in rows] == [
        ["reno", "30 \u00b1 20 Mbit/s"],
        ["cubic", "75 \u00b1 21 Mbit/s"],
    ]
    low, high = page.chart("levels", "o.series[1].data[0].slice(2)")
    assert (low, high) == (pytest.approx(30 - 19.63, abs=0.01), pytest.approx(30 + 19.63, abs=0.01))
    page = view(report).open("#metric=goodput&down=queue.limit&across=stack.cc")
    first = page.page.locator("#levels tbody tr").first.inner_text().split("\t")
    assert first == ["50KB", "10 Mbit/s", "60 Mbit/s"]


def wide(tmp_path: Path) -> Path:
    """Twenty-two parameters of two levels."""
    runs = [
        folders.run(
            f"c{n:02}",
            1,
            {"goodput": 1e6 * n},
            **{f"app__parameter{k}": f"{(n >> k % 5) & 1}KB" for k in range(22)},
        )
        for n in range(32)
    ]
    return write_report(folders.folder(tmp_path / "made", runs)).file


@pytest.mark.parametrize("width", [1920, 1132, 400])
def test_the_page_uses_the_width_and_never_scrolls_sideways(view: Open, tmp_path: Path, width: int) -> None:
    page = view(wide(tmp_path))
    page.page.set_viewport_size({"width": width, "height": 900})
    page.open()
    measured = page.page.evaluate(
        "[document.documentElement.scrollWidth, document.getElementById('main').getBoundingClientRect().width]"
    )
    assert measured[0] <= width
    assert measured[1] >= min(width, 1880) - 2


def test_open_filters_scroll_away_and_only_one_line_stays(view: Open, tmp_path: Path) -> None:
    page = view(wide(tmp_path)).open()
    page.page.locator("#filters button", has_text="Filter").click()
    assert page.page.locator("#factors .factor").count() == 22
    page.page.evaluate("window.scrollTo(0, 1e6)")
    visible = page.page.evaluate(
        "[...document.querySelectorAll('#filters .bar, #factors')]"
        ".map((one) => Math.max(0, one.getBoundingClientRect().bottom))"
    )
    assert visible == [44, 0]


def test_shares_are_drawn_to_scale(view: Open, report: Path) -> None:
    page = view(report).open()
    widths = page.page.locator("#findings .rate").evaluate_all(
        "all => all.map((one) => [one.querySelector('b').textContent, one.querySelector('i').style.width])"
    )
    assert ["20 %", "20%"] in widths


def test_a_level_without_values_is_named(view: Open, tmp_path: Path) -> None:
    runs = [
        folders.run(f"c{n}", 1, {"goodput": 1e6 * n}, stack__cc=cc) for n, cc in enumerate(("reno", "cubic"))
    ]
    runs.append(folders.run("c2", 1, {}, outcome="crashed", stack__cc="vegas"))
    page = view(write_report(folders.folder(tmp_path / "made", runs)).file).open(
        "#metric=goodput&by=stack.cc"
    )
    assert page.text(".absent") == "No run that is shown has a value for stack.cc = vegas."


def test_on_paper_a_long_section_may_be_broken_so_that_the_first_page_is_not_empty(
    view: Open, report: Path
) -> None:
    page = view(report).open(f"#case={pages.WATCHED}")
    page.page.emulate_media(media="print")
    breaks = page.page.evaluate("getComputedStyle(document.getElementById('case')).breakInside")
    assert breaks == "auto"
    assert page.page.evaluate("getComputedStyle(document.querySelector('#filters')).display") == "none"
