"""What a result folder, its journal and its readers need for each run, counted in bytes."""

import json
import random
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

import folders
import sealed
import tcpassay
from tcpassay.interface import METRICS
from tcpassay.messages import Answer, CaseRequest
from tcpassay.metric_table import MetricTable, RowOfMetrics
from tcpassay.plan.read import read
from tcpassay.report import write_report
from tcpassay.run.execute import execute
from tcpassay.run.journal import Journal
from tcpassay.run.pool import Limits
from tcpassay.run.session import Beginning, Session

RUNS = 2_000
PLAN = """\
name = "many"
oracles = false
keep.recordings = "none"
keep.sample = "0%"
[fixed]
"app.duration" = "1s"
"link.rate" = "100Mbit"
[axes]
"stack.cc" = ["reno", "cubic"]
"link.delay" = [{delays}]
"queue.limit" = [{limits}]
"""


class Drawn:
    """An executor whose runs have random metrics, which no compression makes small."""

    name = "drawn"
    jobs = 1

    def run(self, requests: Iterable[CaseRequest], limits: Limits) -> Generator[list[tuple[int, Answer]]]:
        """Answers each request."""
        del limits
        for number, request in enumerate(requests):
            dice = random.Random(f"{request.triples}")  # noqa: S311 - repeatable
            metrics = {name: dice.random() if place % 2 else None for place, name in enumerate(METRICS)}
            yield [(number, Answer("done", "", "0123456789abcdef", "fedcba9876543210", metrics))]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of 2,000 runs."""
    delays = ", ".join(f'"{n}ms"' for n in range(1, 41))
    limits = ", ".join(f'"{n}KB"' for n in range(10, 35))
    folder = tmp_path_factory.mktemp("many")
    plan = read(PLAN.format(delays=delays, limits=limits), folder / "plan.toml")
    assert len(plan.cases) == RUNS
    with Session.begin(plan, folder / "out", Beginning(), replace_=False) as session:
        assert execute(session, Drawn()).ok
    return folder / "out"


def size(file: Path) -> int:
    return file.stat().st_size


def test_result_json_does_not_grow_with_the_number_of_runs(many: Path) -> None:
    assert size(many / "result.json") < 10_000
    index = json.loads((many / "result.json").read_text(encoding="utf-8"))
    assert index["format"] == 3
    assert "runs" not in index


def test_a_run_needs_few_bytes_in_each_file(many: Path) -> None:
    values = len(METRICS) // 2
    assert size(many / "runs.parquet") < 100 * RUNS
    assert size(many / "metrics.parquet") < (8 * values + len(METRICS)) * RUNS
    # Random numbers have 18 digits; their names, which are as long, are stored once.
    assert size(many / "journal.sqlite") < (20 * values + 400) * RUNS


def test_all_runs_are_read_and_have_their_metrics_as_rows_of_one_table(many: Path) -> None:
    results = tcpassay.load(many)
    assert results.problems == []
    assert len(results.runs) == len(results.metrics) == RUNS
    assert len({id(run["metrics"]._table) for run in results.runs}) == 1  # type: ignore[union-attr]  # noqa: SLF001
    run = results.runs[1234]
    dice = random.Random(f"{run['triples']}")  # noqa: S311 - repeatable
    said = {name: dice.random() if place % 2 else None for place, name in enumerate(METRICS)}
    assert {name: value for name, value in run["metrics"].items() if value is not None} == {
        name: value for name, value in said.items() if value is not None
    }


def test_a_table_of_metrics_has_eight_bytes_a_value() -> None:
    table = MetricTable()
    rows = [table.add({"a": float(n), "b": None}) for n in range(1000)]
    rows.append(table.add({"c": 3.0}))
    assert {name: column.itemsize * len(column) for name, column in table.full().items()} == {
        "a": 8008, "b": 8008, "c": 8008,
    }  # fmt: skip
    assert dict(rows[7]) == {"a": 7.0, "b": None, "c": None}
    assert dict(rows[-1]) == {"a": None, "b": None, "c": 3.0}
    assert isinstance(rows[0], RowOfMetrics)
    assert rows[0] == {"a": 0.0, "b": None, "c": None}
    assert table.add({}) == {}


def test_the_report_of_many_runs_has_few_bytes_for_each(many: Path, tmp_path: Path) -> None:
    written = write_report(many, tmp_path / "report.html")
    assert (written.runs, written.problems) == (RUNS, [])
    page = 1_400_000  # scripts, style and the chart library
    assert size(written.file) < page + RUNS * 8 * len(METRICS)


def test_a_kill_between_the_table_of_runs_and_result_json_is_no_damage(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = read(tcpassay.load(many).plan.replace("4ms", "4001us"), tmp_path / "plan.toml")
    with Session.begin(plan, out, Beginning(), replace_=False) as session:
        index = (out / "result.json").read_bytes()
        execute(session, Drawn())
        # What is there after a kill: the new table, and the index of the start.
        (out / "result.json").write_bytes(index)
    assert tcpassay.load(out).problems == []
    (out / "runs.parquet").write_bytes((many / "runs.parquet").read_bytes())
    (problem,) = tcpassay.load(out).problems
    assert "its checksum differs" in problem.message


def old(out: Path, many: Path) -> Path:
    """The same results in format 2, in which `result.json` lists the runs."""
    out.mkdir()
    said = folders.result(many)
    for name in ("plan.toml", "metrics.parquet"):
        (out / name).write_bytes((many / name).read_bytes())
    said["files"].pop("runs.parquet")
    sealed.write(out / "result.json", said | {"format": 2})
    return out


def test_results_of_format_2_are_read(many: Path, tmp_path: Path) -> None:
    then, now = tcpassay.load(old(tmp_path / "old", many)), tcpassay.load(many)
    assert then.problems == []
    assert then.data.equals(now.data)
    assert then.parameters.equals(now.parameters)
    assert [dict(run) for run in then.runs] == [dict(run) for run in now.runs]


def test_a_journal_of_version_2_is_read_and_continued(tmp_path: Path) -> None:
    from tcpassay.messages import Outcome  # noqa: PLC0415
    from tcpassay.run.journal_rows import outcome_checksum, set_values  # noqa: PLC0415

    Journal.create(tmp_path, "plan", [{"n": 0}, {"n": 1}])
    with Journal.open(tmp_path) as journal:
        claim = journal.claim()
        assert claim is not None
        database = journal._database  # noqa: SLF001
        database.execute(
            "UPDATE cases SET outcome = 'done', payload = ?, outcome_checksum = ?, owner = NULL WHERE number = 0",
            ('{"trace":"a"}', outcome_checksum(0, "done", '{"trace":"a"}')),
        )
        set_values(database, {"version": "2"})
    with Journal.open(tmp_path) as journal:
        claim = journal.claim()
        assert claim is not None
        journal.finish(claim, Outcome.DONE, {"trace": "b"})
        assert [(entry.payload, entry.damaged) for entry in journal.entries()] == [
            ({"trace": "a"}, False), ({"trace": "b"}, False),
        ]  # fmt: skip
