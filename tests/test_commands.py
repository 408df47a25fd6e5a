"""`judge`, `oracles` and `compare` as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import plans
import sealed
from folders import folder, run
from written import Written

COMMAND = [sys.executable, "-m", "tcpassay"]


def tcpassay(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=600
    )


def stalled() -> Written:
    log = Written(duration=400).transfer(0, 10).data(10, 10.5, 10001).set_rto(10, 210).fires(210)
    log.data(210, 210.5, 10001, again=True).ack(210.5, 211, 11001)
    log.read = 11000
    return log


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Case a stalls, case b does not, case c left no event log."""
    runs = [run(case, 1, {"goodput": 1.0}) | {"recording": f"recordings/{case}-1"} for case in "abc"]
    path = folder(tmp_path / "results", runs)
    stalled().write(path / "recordings/a-1")
    healthy = Written(400).transfer(0, 10)
    healthy.read = 10_000
    healthy.write(path / "recordings/b-1")
    bare = healthy.write(path / "recordings/c-1") / "recording.json"
    sealed.write(bare, json.loads(bare.read_text().replace('"events.parquet"', '"other.parquet"')))
    return path


def test_judging_a_result_folder_writes_its_findings_and_fails(results: Path) -> None:
    done = tcpassay("judge", results)
    assert done.returncode == 1, done.stderr
    assert "error timeout although nothing was lost" in done.stdout
    assert "case a seed 1, receiver, flow.0, 10.5 ms to 210 ms (timeout-without-loss)" in done.stdout
    assert done.stdout.startswith(
        "1 finding; 2 recordings judged, 1 without an event log ([collect] events = true)"
    )
    written = json.loads((results / "findings.json").read_text())
    assert [(f["oracle"], f["case"], f["seed"]) for f in written["findings"]] == [
        ("timeout-without-loss", "a", 1)
    ]


def test_judging_one_recording_is_also_stated_in_json(results: Path) -> None:
    done = tcpassay("judge", results / "recordings/a-1", "--json", "--oracle", "late-ack")
    assert json.loads(done.stdout) == {
        "judged": 1,
        "without_events": 0,
        "problems": [],
        "unjudged": {},
        "notes": [],
        "unjudged_ends": [],
        "findings": [],
    }
    assert done.returncode == 0


def test_a_recording_without_an_event_log_is_not_called_healthy(results: Path) -> None:
    done = tcpassay("judge", results / "recordings/c-1")
    assert done.returncode == 2
    assert "no event log" in done.stderr


def test_a_damaged_recording_is_named_and_the_others_are_judged(results: Path) -> None:
    (results / "recordings/b-1/events.parquet").write_bytes(b"PAR1")
    done = tcpassay("judge", results)
    assert "b-1/events.parquet" in done.stdout
    assert "1 finding; 1 recording judged" in done.stdout


def test_an_unknown_oracle_is_refused(results: Path) -> None:
    done = tcpassay("judge", results, "--oracle", "delphi")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`delphi` is not an oracle; allowed are timeout-without-loss," in done.stderr


def test_the_oracles_are_documented_as_they_are() -> None:
    written = (plans.REPOSITORY / "docs/oracles.md").read_text(encoding="utf-8")
    assert tcpassay("oracles", "--markdown").stdout == written


def test_the_oracles_are_listed_for_machines() -> None:
    listed = json.loads(tcpassay("oracles", "--json").stdout)
    assert listed[0]["name"] == "timeout-without-loss"
    assert set(listed[0]) == {
        "name",
        "title",
        "asserts",
        "why",
        "evidence",
        "wrong_when",
        "needs",
        "setting",
        "completeness",
        "packets",
    }


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two cases with ten seeds; the second side is a fifth slower."""
    sides = []
    for name, cc, factor in (("a", "cubic", 1.0), ("b", "reno", 0.8)):
        runs = [
            run(
                f"{cc}{i % 2}",
                i // 2,
                {"goodput": factor * (100 + i)},
                stack__cc=cc,
                link__delay=f"{i % 2}ms",
            )
            for i in range(20)
        ]
        sides.append(folder(tmp_path / name, runs))
    return sides[0], sides[1]


def test_a_regression_fails(two: tuple[Path, Path]) -> None:
    done = tcpassay("compare", *two)
    assert done.returncode == 1, done.stderr
    assert done.stdout.endswith("REGRESSION\n  goodput: -20.00 % (-20.00 % to -20.00 %)\n")


def test_a_regression_below_the_threshold_does_not(two: tuple[Path, Path]) -> None:
    done = tcpassay("compare", *two, "--threshold", "25.5%")
    assert done.returncode == 0, done.stdout
    assert "no regression: no compared metric is worse by 25.5 % or more" in done.stdout


def test_the_other_way_round_is_no_regression_either(two: tuple[Path, Path]) -> None:
    assert tcpassay("compare", two[1], two[0]).returncode == 0


def test_with_json_the_command_prints_one_object(two: tuple[Path, Path]) -> None:
    value = json.loads(tcpassay("compare", *two, "--json").stdout)
    assert value["pairs"] == 20
    assert value["effects"][0]["pairs"] == 10
    assert value["effects"][0]["verdict"] == "worse"


def test_parts_of_folders_are_compared(two: tuple[Path, Path]) -> None:
    done = tcpassay("compare", *two, "--where-a", "link.delay=1ms", "--where-b", "link.delay=1ms", "--json")
    assert json.loads(done.stdout)["pairs"] == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--threshold", "much"], "`--threshold much`: give a share as `5%` or `0.05`"),
        (["--confidence", "100%"], "`--confidence 100%`: give a share"),
        (
            ["--correction", "hope"],
            "`hope` is not a correction for multiple testing; allowed are holm, bh, none",
        ),
        (["--where-a", "stack.cc"], "`--where-a stack.cc`: give a parameter and its value"),
        (["--metric", "goodputt"], "`--metric goodputt`: no such metric; did you mean `goodput`?"),
        (["--where-b", "stack.cc=bbr"], "there is no run with stack.cc=bbr"),
    ],
)
def test_arguments_that_cannot_be_compared_are_refused_with_the_allowed_ones(
    two: tuple[Path, Path], arguments: list[str], said: str
) -> None:
    done = tcpassay("compare", *two, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_missing_runs_and_damage_end_with_exit_code_2(two: tuple[Path, Path]) -> None:
    half = ["--where-a", "link.delay=1ms"]
    done = tcpassay("compare", two[1], two[0], *half)
    assert done.returncode == 2, done.stdout
    assert "incomplete: 10 runs of b without a partner in a" in done.stdout
    assert tcpassay("compare", two[1], two[0], *half, "--allow-unpaired").returncode == 0
    (two[0] / "metrics.parquet").write_bytes(b"PAR1")
    assert tcpassay("compare", two[1], two[0], "--allow-unpaired").returncode == 2
    (two[0] / "result.json").write_text("{}", encoding="utf-8")
    assert tcpassay("compare", two[1], two[0]).returncode == 2


def test_a_folder_without_results_is_refused(tmp_path: Path, two: tuple[Path, Path]) -> None:
    done = tcpassay("compare", two[0], tmp_path / "nothing")
    assert done.returncode == 2
    assert "there are no results" in done.stderr


def test_findings_are_failures_of_their_oracles_in_junit(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "judge.xml"
    assert tcpassay("judge", results, "--junit", file).returncode == 1
    suite = ET.parse(file).getroot()[0]  # noqa: S314 - the own output
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["timeout-without-loss"]
    assert "case a seed 1, receiver, flow.0, 10.5 ms to 210 ms" in str(suite.findtext(".//failure"))
