"""`tcpassay.load`: frames of a result folder, also of a damaged one."""

import json
from pathlib import Path

import polars as pl
import pytest

import tcpassay
from tcpassay.errors import UserError
from tcpassay.judge import Finding, Row, Severity, read_findings, write_findings
from tcpassay.recording import DamagedError, Recording
from tcpassay.seal import seal, unseal
from written import Written

FINDING = Finding(
    "late-ack",
    Severity.ERROR,
    "ACK later than its limit",
    "receiver",
    "flow.0",
    1_000_000,
    500_000_000,
    3,
    "A paragraph.",
    (Row(7, 1_000_000, "receiver", "flow.1", "in", "", {"seq": 1, "ce": True}),),
    (12, 13),
    "tcpassay replay x a 1",
    "a",
    1,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two cases with two seeds; the last run crashed."""
    path = tmp_path / "results"
    runs = []
    for case, cc in (("a", "cubic"), ("b", "reno")):
        for seed in (1, 2):
            good = (case, seed) != ("b", 2)
            if good:
                log = Written(100).transfer(0, 50)
                log.series = [1.0, 2.0]
                log.write(path / "recordings" / f"{case}-{seed}")
            runs.append(
                {
                    "case": case,
                    "seed": seed,
                    "varied": {"stack.cc": cc, "nic.gro": True},
                    "triples": {"stack.cc": cc, "nic.gro": True, "link.delay": "1ms"},
                    "outcome": "done" if good else "crashed",
                    "message": "" if good else "signal 11",
                    "recording": f"recordings/{case}-{seed}" if good else None,
                    "metrics": {"goodput": 10.0 * seed, "completions": None} if good else {},
                }
            )
    (path / "plan.toml").write_text('name = "x"\n', encoding="utf-8")
    value = {"format": 1, "environment": {"cores": 2}, "runs": runs}
    (path / "result.json").write_text(json.dumps(value), encoding="utf-8")
    rows = [
        {"case": r["case"], "seed": r["seed"], "cpu_s": 0.5, "stack.cc": "x"} | r["metrics"] for r in runs[:3]
    ]
    pl.DataFrame(rows).write_parquet(path / "metrics.parquet")
    write_findings(path, [FINDING])
    return path


def test_cases_are_a_row_a_run_with_what_varies(folder: Path) -> None:
    cases = tcpassay.load(folder).cases
    assert cases.columns == ["case", "seed", "outcome", "message", "recording", "stack.cc", "nic.gro"]
    assert cases.row(3) == ("b", 2, "crashed", "signal 11", None, "reno", True)


def test_parameters_are_all_that_the_cases_set(folder: Path) -> None:
    parameters = tcpassay.load(str(folder)).parameters
    assert parameters.filter(pl.col("case") == "b").rows() == [
        ("b", "stack.cc", "reno"), ("b", "nic.gro", "on"), ("b", "link.delay", "1ms"),
    ]  # fmt: skip


def test_metrics_are_numbers_and_null_where_there_is_none(folder: Path) -> None:
    metrics = tcpassay.load(folder).metrics
    assert metrics.schema == {
        "case": pl.String(), "seed": pl.Int64(), "goodput": pl.Float64(), "completions": pl.Float64(),
    }  # fmt: skip
    assert metrics.row(2) == ("b", 1, 10.0, None)


def test_findings_are_a_frame_and_come_with_their_evidence(folder: Path) -> None:
    results = tcpassay.load(folder)
    assert results.findings.row(0, named=True)["title"] == "ACK later than its limit"
    assert results.findings.row(0, named=True)["count"] == 3
    assert results.found == [FINDING]


def test_findings_come_back_from_their_file_as_they_were(tmp_path: Path) -> None:
    write_findings(tmp_path, [FINDING, FINDING.of("b", 2)])
    assert read_findings(tmp_path) == [FINDING, FINDING.of("b", 2)]
    write_findings(tmp_path, [])
    assert read_findings(tmp_path) == []


def test_events_and_series_are_those_of_the_run(folder: Path) -> None:
    results = tcpassay.load(folder)
    assert len(results.events("a", 2)) == 250
    assert results.series("a").columns[:2] == ["time_ns", "entity"]
    assert results.recording("b").duration_ns == 100_000_000


def test_a_table_that_was_not_collected_is_empty_with_its_columns(folder: Path) -> None:
    deliveries = tcpassay.load(folder).deliveries("a")
    assert len(deliveries) == 0
    assert "one_way_ns" in deliveries.columns


def test_an_unknown_name_is_reported_with_the_known_ones(folder: Path) -> None:
    results = tcpassay.load(folder)
    with pytest.raises(UserError, match="no case `z`"):
        results.events("z")
    with pytest.raises(UserError, match="has no seed 9; it has 1, 2"):
        results.events("a", 9)
    with pytest.raises(UserError, match="has no recording: its outcome is `crashed`"):
        results.events("b", 2)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no results"):
        tcpassay.load(tmp_path)


def test_a_complete_folder_has_no_problems_and_its_contents_are_listed(folder: Path) -> None:
    results = tcpassay.load(folder)
    assert results.problems == []
    assert repr(results) == f"Results({str(folder)!r}: 4 runs, 3 done, 1 findings)"
    assert results.plan == 'name = "x"\n'
    assert results.environment == {"cores": 2}


DAMAGE = {
    "empty": b"",
    "cut": b"half",
    "noise": bytes(range(256)) * 8,
    "PAR1": b"PAR1" + b"\0" * 100 + b"PAR1",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_without_the_result_file_the_recordings_say_what_ran(folder: Path, damage: str) -> None:
    (folder / "result.json").write_bytes(DAMAGE[damage])
    results = tcpassay.load(folder)
    assert results.cases.select("case", "seed", "outcome").rows() == [
        ("a", 1, "done"), ("a", 2, "done"), ("b", 1, "done"),
    ]  # fmt: skip
    assert results.cases["stack.cc"].to_list() == ["reno"] * 3
    assert len(results.metrics) == 3
    assert [str(p.place) for p in results.problems] == [str(folder / "result.json")]


@pytest.mark.parametrize("damage", DAMAGE)
def test_without_the_table_of_metrics_the_result_file_has_them(folder: Path, damage: str) -> None:
    (folder / "metrics.parquet").write_bytes(DAMAGE[damage])
    results = tcpassay.load(folder)
    assert results.metrics["goodput"].to_list() == [10.0, 20.0, 10.0]
    assert [str(p.place) for p in results.problems] == [str(folder / "metrics.parquet")]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_findings_leave_the_rest(folder: Path, damage: str) -> None:
    (folder / "findings.json").write_bytes(DAMAGE[damage])
    results = tcpassay.load(folder)
    assert len(results.findings) == 0
    assert len(results.metrics) == 3
    assert [str(p.place) for p in results.problems] == [str(folder / "findings.json")]


def test_findings_of_another_format_are_refused(folder: Path) -> None:
    (folder / "findings.json").write_text('{"format": 3, "findings": []}')
    with pytest.raises(DamagedError, match=r"its format is 3; this version reads 2"):
        read_findings(folder)


def test_a_finding_of_another_shape_is_damage(folder: Path) -> None:
    (folder / "findings.json").write_text('{"format": 1, "findings": [{"oracle": "x"}]}')
    with pytest.raises(DamagedError, match="a finding has a wrong form"):
        read_findings(folder)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_event_log_is_empty_and_named(folder: Path, damage: str) -> None:
    (folder / "recordings/a-1/events.parquet").write_bytes(DAMAGE[damage])
    results = tcpassay.load(folder)
    assert len(results.events("a", 1)) == 0
    assert "kind" in results.events("a", 1).columns
    assert len(results.series("a", 1)) > 0
    assert len(results.events("a", 2)) == 250
    assert str(folder / "recordings/a-1/events.parquet") in str(results.problems[0])


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_recording_leaves_the_others(folder: Path, damage: str) -> None:
    (folder / "recordings/a-1/recording.json").write_bytes(DAMAGE[damage])
    results = tcpassay.load(folder)
    assert len(results.cases) == 4
    assert [str(p.place) for p in results.problems] == [str(folder / "recordings/a-1/recording.json")]
    assert len(results.events("a", 1)) == 0


def test_a_log_that_was_cut_at_a_row_is_damage(folder: Path) -> None:
    place = folder / "recordings/a-1"
    pl.read_parquet(place / "events.parquet").head(50).write_parquet(place / "events.parquet")
    with pytest.raises(DamagedError, match=r"its checksum differs from the recorded one"):
        _ = Recording.open(place).events


def test_a_recording_of_another_format_is_refused(folder: Path) -> None:
    place = folder / "recordings/a-1/recording.json"
    place.write_text(seal(unseal(place.read_text()).replace('"format": 2', '"format": 9')))
    with pytest.raises(DamagedError, match=r"its format is 9; this version reads 2"):
        Recording.open(place.parent)


def test_parameters_are_numbers_in_si_units_truth_values_or_texts(tmp_path: Path) -> None:
    values = {
        "app.flows": [1, 16, None],
        "link.delay": ["5ms", "1s", "250us"],
        "link.rate": ["1Gbit", "100Kbit", "2.5Mbit"],
        "queue.limit": ["100KB", "1MiB", None],
        "link.loss": ["1%", 0.5, "0"],
        "nic.gro": [True, False, None],
        "stack.cc": ["reno", "cubic", "vegas"],
        "app.rcvbuf": ["auto", "4KB", "64KB"],
        "queue.threshold": ["10p", "20KB", "1p"],
    }
    runs = [
        {"case": str(n), "seed": 1, "varied": {k: v[n] for k, v in values.items()}, "outcome": "done"}
        for n in range(3)
    ]
    (tmp_path / "result.json").write_text(json.dumps({"format": 1, "runs": runs}), encoding="utf-8")
    cases = tcpassay.load(tmp_path).cases
    assert cases["app.flows"].to_list() == [1, 16, None]
    assert cases["app.flows"].dtype == pl.Int64
    assert cases["link.delay"].to_list() == [0.005, 1.0, 0.00025]
    assert cases["link.rate"].to_list() == [1_000_000_000, 100_000, 2_500_000]
    assert cases["queue.limit"].to_list() == [100_000, 1_048_576, None]
    assert cases["link.loss"].to_list() == [0.01, 0.5, 0.0]
    assert cases["nic.gro"].to_list() == [True, False, None]
    assert cases["stack.cc"].to_list() == ["reno", "cubic", "vegas"]
    assert cases["app.rcvbuf"].to_list() == ["auto", "4KB", "64KB"]
    assert cases["queue.threshold"].to_list() == ["10p", "20KB", "1p"], (
        "packets and bytes have no common unit"
    )


def test_parameters_and_metrics_stand_in_one_table_with_nulls_for_what_was_not_done(folder: Path) -> None:
    data = tcpassay.load(folder).data
    assert data.select("case", "seed", "stack.cc", "nic.gro", "goodput").rows() == [
        ("a", 1, "cubic", True, 10.0),
        ("a", 2, "cubic", True, 20.0),
        ("b", 1, "reno", True, 10.0),
        ("b", 2, "reno", True, None),
    ]


def test_a_case_is_meant_by_its_first_characters(tmp_path: Path) -> None:
    runs = [{"case": case, "seed": 1, "outcome": "done"} for case in ("aac0", "aac0ff", "ab11")]
    (tmp_path / "result.json").write_text(json.dumps({"format": 1, "runs": runs}), encoding="utf-8")
    results = tcpassay.load(tmp_path)
    assert results.case("ab") == "ab11"
    assert results.case("aac0") == "aac0", "a whole id is itself, also when another begins with it"
    for text, message in (
        ("aa", "`aa` is the beginning of 2 cases: aac0, aac0ff"),
        ("b", "no case `b`"),
        ("", "no case"),
    ):
        with pytest.raises(UserError, match=message):
            results.case(text)


def test_a_part_of_an_id_finds_every_table(folder: Path) -> None:
    results = tcpassay.load(folder)
    case = "a"
    whole = results.events(case)
    assert whole.height > 0
    for table in ("events", "series", "deliveries", "latency", "completions"):
        assert getattr(results, table)(case, 2).equals(results.table(table, case, 2))
