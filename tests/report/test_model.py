"""The report contains the data of the results, and names the files that it could not read."""

import hashlib
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pages
import pytest

import folders
import sealed
import tcpassay
from tcpassay.errors import UserError
from tcpassay.recording import Recording
from tcpassay.report import coverage, curves, model, pack, write_report
from tcpassay.report.page import embedded
from tcpassay.results import Results
from written import Written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pages.folder(tmp_path / "made")


def test_levels_that_are_amounts_stand_in_rising_order_and_others_as_the_plan_has_them(folder: Path) -> None:
    header, arrays = pack.read(model.build(tcpassay.load(folder)).runs)
    cc, limit = header["factors"]
    assert (cc["name"], cc["levels"], cc["ordered"]) == ("stack.cc", ["reno", "cubic"], False)
    assert (limit["levels"], limit["ordered"]) == (["50KB", "500KB", "1MB", "2MB", "4MB"], True)
    assert arrays[limit["codes"]].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_a_run_without_a_metric_has_none_rather_than_zero(folder: Path) -> None:
    header, arrays = pack.read(model.build(tcpassay.load(folder)).runs)
    goodput = arrays[header["metrics"][0]["values"]]
    assert header["metrics"][0]["name"] == "goodput"
    assert goodput[:9].tolist() == [10e6, 20e6, 30e6, 40e6, 50e6, 60e6, 70e6, 80e6, 90e6]
    assert np.isnan(goodput[9])
    assert header["outcomes"] == ["done", "crashed"]
    assert header["messages"] == {"9": "a bug in the data plane: index out of bounds"}


def test_settings_that_all_cases_share_are_stated_once(folder: Path) -> None:
    assert model.build(tcpassay.load(folder)).data["fixed"] == {"link.rate": "100Mbit"}


def with_reached(folder: Path) -> Path:
    """Two runs with counts of behaviours, and a plan that requires two of them."""
    index = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    index["runs"][0]["reached"] = {"timer_fire Rto": 3, "persist": 1}
    index["runs"][1]["reached"] = {"timer_fire Rto": 4}
    (folder / "result.json").write_text(json.dumps(index), encoding="utf-8")
    required = '[[reach]]\nbehaviour = "persist"\nruns = 2\n[[reach]]\nbehaviour = "undo"\n'
    (folder / "plan.toml").write_text(f'name = "made"\n{required}', encoding="utf-8")
    return folder


def test_reached_behaviours_have_their_runs_their_times_and_what_the_plan_requires(folder: Path) -> None:
    said = model.build(tcpassay.load(with_reached(folder))).data["reached"]
    rows = [(one["name"], one["runs"], one["times"], one["required"], one["regime"]) for one in said]
    assert rows == [
        ("persist", 1, 1, 2, True),
        ("timer_fire Rto", 2, 7, 0, False),
        ("undo", 0, 0, 1, True),
    ]


def test_the_code_of_a_kernel_is_counted_over_all_runs(folder: Path) -> None:
    assert model.build(tcpassay.load(folder)).data["kernel_coverage"] == []
    (said,) = model.build(tcpassay.load(pages.with_kernel_coverage(folder))).data["kernel_coverage"]
    assert (said["kernel"], said["runs"], len(said["files"])) == ("kernel:cov", 2, 3)
    assert said["files"][0] == {
        "file": "ipv4/tcp_input.c",
        "lines": {"reached": 3, "of": 4},
        "branches": {"reached": 1, "of": 2},
        "functions": {"reached": 1, "of": 1},
    }


def test_a_case_that_crashed_covers_nothing(folder: Path) -> None:
    said = model.build(tcpassay.load(folder)).data["coverage"]
    assert said["cases"] == 9
    assert [(line["strength"], line["total"], line["covered"]) for line in said["lines"]] == [(2, 10, 9)]
    assert said["lines"][0]["missing"] == [{"stack.cc": "cubic", "queue.limit": "4MB"}]
    assert said["pairs"] == [
        {
            "a": "stack.cc", "b": "queue.limit", "total": 10, "covered": 9, "rows": ["reno", "cubic"],
            "columns": ["50KB", "500KB", "1MB", "2MB", "4MB"], "counts": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
        }
    ]  # fmt: skip


def test_a_case_counts_once_however_many_seeds_it_has(tmp_path: Path) -> None:
    runs = [folders.run("c", seed, {"goodput": 1.0}, a="x", b="y") for seed in (1, 2, 3)]
    runs.append(folders.run("d", 1, {"goodput": 1.0}, a="x2", b="y2"))
    said = model.build(tcpassay.load(folders.folder(tmp_path / "made", runs))).data["coverage"]
    assert said["pairs"][0]["counts"] == [1, 0, 0, 1]


def test_triples_are_counted_as_the_product_of_their_levels() -> None:
    # Four cases of three switches that meet every pair, and four of the eight triples.
    rows = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=np.int32)
    space = coverage.bare(["a", "b", "c"], [2, 2, 2])
    got = [(one.strength, one.total, one.covered) for one in coverage.lines(space, rows)]
    assert got == [(2, 12, 12), (3, 8, 4)]


PLAN = """
name = "made"
constraints = ['IF [stack.cc] = "dctcp" THEN [queue.limit] = "50KB"']
[axes]
"queue.limit" = ["500KB", "50KB"]
"stack.cc" = ["reno", "dctcp", "cubic"]
"""


def test_combinations_that_the_constraints_of_the_plan_forbid_are_not_missing(tmp_path: Path) -> None:
    runs = [
        folders.run("a", 1, {"goodput": 1.0}, queue__limit="500KB", stack__cc="reno"),
        folders.run("b", 1, {"goodput": 1.0}, queue__limit="50KB", stack__cc="reno"),
        folders.run("c", 1, {"goodput": 1.0}, queue__limit="50KB", stack__cc="dctcp"),
    ]
    folder = folders.folder(tmp_path / "made", runs)
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    said = model.build(tcpassay.load(folder)).data["coverage"]
    # No case has cubic although the plan does; dctcp with 500KB cannot be.
    assert [(line["total"], line["covered"], line["excluded"]) for line in said["lines"]] == [(5, 3, 1)]
    (pair,) = said["pairs"]
    assert (pair["rows"], pair["columns"]) == (["500KB", "50KB"], ["reno", "dctcp", "cubic"])
    assert pair["counts"] == [1, -1, 0, 1, 1, 0]
    assert (pair["total"], pair["covered"]) == (5, 3)


def test_a_constraint_on_what_does_not_vary_counts_all_the_same(tmp_path: Path) -> None:
    runs = [
        folders.run("a", 1, {"goodput": 1.0}, queue__limit="500KB", stack__cc="reno"),
        folders.run("b", 1, {"goodput": 1.0}, queue__limit="50KB", stack__cc="dctcp"),
    ]
    folder = folders.folder(tmp_path / "made", runs)
    mtu = """'IF [stack.mtu] = "1500B" THEN [stack.cc] <> "cubic"', """
    (folder / "plan.toml").write_text(
        PLAN.replace("constraints = [", f"constraints = [{mtu}"), encoding="utf-8"
    )
    said = model.build(tcpassay.load(folder)).data["coverage"]
    assert [(line["total"], line["covered"], line["excluded"]) for line in said["lines"]] == [(3, 2, 3)]


def test_a_negative_value_takes_nothing_from_the_coverage_of_the_others(tmp_path: Path) -> None:
    runs = [
        folders.run(f"{cc}{limit}", 1, {"goodput": 1.0}, queue__limit=limit, stack__cc=cc)
        for limit in ("50KB", "500KB")
        for cc in ("reno", "cubic")
    ]
    runs.append(folders.run("n", 1, {}, queue__limit="50KB", stack__cc="reno", stack__mtu="1B"))
    runs[-1] |= {"outcome": "refused", "expect": "refused"}
    folder = folders.folder(tmp_path / "made", runs)
    plan = 'name = "made"\n[axes]\n"queue.limit" = ["50KB", "500KB"]\n"stack.cc" = ["reno", "cubic"]\n'
    (folder / "plan.toml").write_text(plan + '[negative]\n"stack.mtu" = ["1B"]\n', encoding="utf-8")
    report = model.build(tcpassay.load(folder))
    assert report.data["coverage"]["planned"]
    (pair,) = report.data["coverage"]["pairs"]
    # The negative value was met with one of the two levels of each of the others.
    lines = report.data["coverage"]["lines"]
    assert [(line["name"], line["total"], line["covered"]) for line in lines] == [
        ("all parameters", 4, 4), ("invalid values", 4, 2),
    ]  # fmt: skip
    assert (pair["a"], pair["b"], pair["counts"]) == ("queue.limit", "stack.cc", [1, 1, 1, 1])
    header, arrays = pack.read(report.runs)
    mtu = header["factors"][2]
    assert (mtu["levels"], arrays[mtu["codes"]].tolist()) == (["1B", "1500B"], [1, 1, 1, 1, 0])


def test_a_level_that_should_have_been_refused_covers_nothing(tmp_path: Path) -> None:
    runs = [
        folders.run("a", 1, {"goodput": 1.0}, queue__limit="500KB", stack__cc="reno"),
        folders.run("b", 1, {"goodput": 1.0}, queue__limit="7KB", stack__cc="reno"),
    ]
    folder = folders.folder(tmp_path / "made", runs)
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    said = model.build(tcpassay.load(folder)).data["coverage"]
    assert said["pairs"][0]["counts"] == [1, -1, 0, 0, 0, 0]


def test_findings_keep_words_span_evidence_and_command(folder: Path) -> None:
    (one,) = model.build(tcpassay.load(folder)).data["findings"]
    assert (one["severity"], one["count"], one["start_ns"], one["end_ns"]) == (
        "warning",
        2,
        40_000_000,
        60_000_000,
    )
    assert (one["text"], one["replay"], one["packets"]) == (pages.TEXT, pages.REPLAY, (3, 4))
    assert one["events"][0]["index"] == 7


def test_a_pack_reads_back_as_it_was_written() -> None:
    made = pack.Pack()
    places = [
        made.add([1.5, float("nan")]),
        made.add([7, 65535], "u2"),
        made.add([], "f8"),
        made.add([1], "u4"),
    ]
    header, arrays = pack.read(made.text({"name": "x\u2028</script>"}))
    assert places == [0, 1, 2, 3]
    assert header["name"] == "x\u2028</script>"
    assert (arrays[0][0], np.isnan(arrays[0][1])) == (1.5, True)
    assert [array.tolist() for array in arrays[1:]] == [[7, 65535], [], [1]]


def test_the_same_results_make_the_same_page(folder: Path, tmp_path: Path) -> None:
    first = write_report(folder, tmp_path / "a.html").file.read_bytes()
    assert write_report(folder, tmp_path / "b.html").file.read_bytes() == first


def test_json_in_a_page_cannot_end_its_element() -> None:
    hostile = {"name": "</script><script>alert(1)</script>", "other": "<!-- & \u2028"}
    text = str(embedded(hostile))
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == hostile


def test_a_curve_has_the_recordings_numbers(folder: Path) -> None:
    recording = tcpassay.load(folder).recording(pages.WATCHED)
    header, arrays = pack.read(curves.pack(recording))
    panels = {panel["key"]: panel for panel in header["panels"]}
    assert list(panels) == ["throughput", "cwnd", "rtt", "queue", "counts"]
    (throughput,) = panels["throughput"]["curves"]
    # 10 KB in 10 ms are 8 Mbit/s.
    assert arrays[throughput["y"]].tolist() == [8e6, 8e6, 8e6, 8e6, 0, 0, 16e6, 8e6, 8e6, 8e6]
    (rtt,) = panels["rtt"]["curves"]
    assert arrays[rtt["x"]].tolist() == [8e6, 18e6, 28e6, 38e6]
    assert arrays[rtt["y"]] == pytest.approx([0.008, 0.009, 0.010, 0.011])
    (marks,) = panels["counts"]["curves"]
    assert (arrays[marks["x"]].tolist(), arrays[marks["y"]].tolist()) == ([20e6, 70e6], [5, 2])
    (sequence,) = header["sequence"]
    assert [arrays[n].tolist() for n in sequence["again"]] == [[60e6], [3001], [4001]]
    assert arrays[sequence["acked"][1]].tolist() == [1001, 2001, 3001, 4001]
    assert {lane["key"]: arrays[lane["x"]].tolist() for lane in header["lanes"]} == {
        "timeout": [60e6],
        "retransmit": [60e6],
    }


def test_all_points_around_a_finding_are_kept(tmp_path: Path) -> None:
    recording = Written()
    recording.transfer(0, 900, rtt=0.1).transfer(200, 9000, rtt=0.01, first=900_001)
    recording.read = 9_900_000
    folder = recording.write(tmp_path / "recording")

    def sent(*watched: curves.Watched) -> int:
        header, arrays = pack.read(curves.pack(Recording.open(folder), watched=watched))
        return len(arrays[header["sequence"][0]["sent"][0]])

    # 290 ms are 4000 bins; from 200 ms on seven segments share each.
    assert 1500 < sent() < 4000
    # 4000 segments left between 205 and 245 ms; outside of that time it is as before.
    assert 4000 + 1000 < sent(curves.Watched("flow.0", 205e6, 244.999e6)) < 4000 + 3000


def test_a_folder_without_findings_or_recordings_is_reported(tmp_path: Path) -> None:
    folder = folders.folder(tmp_path / "bare", [folders.run("c", 1, {"goodput": 1e6}, stack__cc="reno")])
    written = write_report(folder)
    assert (written.runs, written.findings, written.drawn, written.problems) == (1, 0, 0, [])
    assert written.file == folder / "report.html"


def test_a_damaged_table_is_named_and_the_rest_is_used(folder: Path) -> None:
    series = folder / "recordings" / f"{pages.WATCHED}-1" / "series.parquet"
    series.write_bytes(series.read_bytes()[:100])
    written = write_report(folder)
    assert (written.runs, written.findings, written.drawn, written.recorded) == (10, 1, 0, 1)
    (problem,) = written.problems
    assert problem.startswith(f"{series}: ")
    assert "series.parquet" in written.file.read_text(encoding="utf-8")


def test_a_damaged_result_json_still_gives_a_report(folder: Path) -> None:
    (folder / "result.json").write_text('{"format": 1, "ru', encoding="utf-8")
    written = write_report(folder)
    assert (written.runs, written.drawn, written.findings) == (1, 1, 1)
    assert any("result.json" in problem for problem in written.problems)


@pytest.mark.parametrize("how", ["half", "empty", "garbage", "gone"])
@pytest.mark.parametrize(
    "name",
    ["plan.toml", "result.json", "metrics.parquet", "findings.json", "recording.json", "series.parquet",
     "events.parquet", "latency.parquet"],
)  # fmt: skip
def test_whatever_is_damaged_the_rest_is_reported(folder: Path, name: str, how: str) -> None:
    (file,) = folder.rglob(name)
    raw = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes({"half": raw[: len(raw) // 2], "empty": b"", "garbage": b"\xff\x00{" * 40}[how])
    written = write_report(folder)
    # A folder without a findings file may be one that was not judged, and the first half of a plan may be a valid plan.
    quiet = {("findings.json", "gone"), ("plan.toml", "half"), ("plan.toml", "empty")}
    assert [name in problem for problem in written.problems] == [True] * ((name, how) not in quiet)
    assert written.runs == (1 if name == "result.json" else 10)


def test_a_recording_without_counters_is_named_and_left_out(folder: Path) -> None:
    file = folder / "recordings" / f"{pages.WATCHED}-1" / "recording.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    index["flows"][0] = {"name": "flow.0"} | {"counters": 7}
    sealed.write(file, index)
    written = write_report(folder)
    assert (written.drawn, written.recorded) == (0, 1)
    assert written.problems[0].startswith(f"{file}: its content is inconsistent")


def test_a_folder_without_results_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no results"):
        write_report(tmp_path)


def test_a_failed_write_is_reported_with_its_path_and_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"file/report.html: cannot write the report: not a directory"):
        write_report(folder, tmp_path / "file" / "report.html")
    assert (tmp_path / "file").read_bytes() == b""
    assert list(tmp_path.rglob(".*")) == []


def test_a_full_file_keeps_the_curves_of_runs_with_findings(folder: Path) -> None:
    index = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    index["runs"][0]["recording"] = f"recordings/{index['runs'][0]['case']}-1"
    pages.recording(folder / index["runs"][0]["recording"])
    (folder / "result.json").write_text(json.dumps(index), encoding="utf-8")
    written = write_report(folder, most_curves=0)
    text = written.file.read_text(encoding="utf-8")
    assert (written.drawn, written.recorded) == (1, 2)
    assert 'id="curves-1"' in text
    assert 'id="curves-0"' not in text


def test_the_chart_library_is_the_one_that_its_readme_names() -> None:
    vendor = resources.files("tcpassay.report") / "vendor"
    sha = hashlib.sha256((vendor / "echarts.min.js").read_bytes()).hexdigest()
    readme = (vendor / "README.md").read_text(encoding="utf-8")
    assert f"`{sha}`" in readme
    assert 'version="6.1.0"' in (vendor / "echarts.min.js").read_text(encoding="utf-8")
    assert "Apache ECharts 6.1.0" in readme


def test_with_several_controllers_the_page_says_which_is_better(tmp_path: Path) -> None:
    runs = [
        folders.run(f"{cc}-{delay}", seed, {"goodput": rate + seed / 8}, stack__cc=cc, link__delay=delay)
        for cc, rate in (("reno", 50.0), ("cubic", 70.0))
        for delay in ("1ms", "2ms")
        for seed in range(1, 9)
    ]
    said = model.build(Results(folders.folder(tmp_path / "r", runs, ()))).data["better"]
    assert said is not None
    assert (said["parameter"], said["by"]) == ("stack.cc", "link.delay")
    assert [(row["level"], row["best"], row["better"]) for row in said["rows"]] == [
        ("1ms", "cubic", "cubic than reno"),
        ("2ms", "cubic", "cubic than reno"),
    ]
    # Eight pairs of one sign, corrected for two levels: 2 * 2 / 2^8.
    assert said["rows"][0]["against"] == "reno -28.34 % (-28.47 % to -28.22 %), p 0.016, worse"
    assert said["rows"][0]["medians"] == "cubic 70.56 bit/s, reno 50.56 bit/s"


def test_with_one_controller_the_page_has_no_comparison(tmp_path: Path) -> None:
    runs = [folders.run(f"c{seed}", seed, {"goodput": 1.0}, link__delay=f"{seed}ms") for seed in (1, 2)]
    assert model.build(Results(folders.folder(tmp_path / "r", runs, ()))).data["better"] is None
