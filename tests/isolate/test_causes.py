"""Several causes in one plan, causes with random effects, and a switch that breaks a rule of an RFC."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcpassay.isolate import causes, neighbour

TWO = """\
name = "two"
seeds = [1, 2]

[fixed]
"app.duration" = "300ms"
"link.rate" = "100Mbit"
"link.delay" = "5ms"

[axes]
"stack.cc" = ["reno", "cubic"]
"link.reorder" = ["off", "reverse-burst:5"]
"link.jitter" = ["0s", "1ms"]
"""

# The old rule for leaving recovery (RFC 3782) with a small window and an ACK for three segments.
SWITCH = """\
name = "switch"

[fixed]
"link.rate" = "1Gbit"
"link.delay" = "20ms"
"link.loss_model" = "list:60"
"app.rcvbuf" = "20KB"
"app.duration" = "800ms"
"stack.recovery" = "sack"

[axes]
"stack.profile" = ["freebsd", "rfc"]
"link.ack_thinning" = [1, 3]
"stack.recovery_exit" = ["rfc6582", "rfc3782-less-careful"]
"""


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


def isolated(folder: Path, plan: str) -> dict[str, Any]:
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    assert tcpassay("run", "plan.toml", "--out", "out", cwd=folder).returncode in {0, 1}
    done = tcpassay("isolate", "out", "--json", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("two")
    return folder / "out", isolated(folder, TWO)


def paths(cause: dict[str, Any]) -> set[str]:
    return {one["path"] for one in cause["cause"]}


def test_two_causes_of_one_finding_are_told_apart(two: tuple[Path, dict[str, Any]]) -> None:
    assert sorted(sorted(paths(one) - set(one["required"])) for one in two[1]["causes"]) == [
        ["link.jitter"],
        ["link.reorder"],
    ]
    assert two[1]["left"] == []


def test_each_run_with_the_finding_is_explained_once(two: tuple[Path, dict[str, Any]]) -> None:
    explained = [(one["case"], one["seed"]) for cause in two[1]["causes"] for one in cause["explains"]]
    # Of eight cases with two seeds all have it but those without jitter and without reversed bursts.
    assert len(explained) == len(set(explained)) == 12


def test_a_triple_that_another_only_needs_is_told_from_those_that_matter(
    two: tuple[Path, dict[str, Any]],
) -> None:
    """A jitter of 1 ms is refused on a path of 50 us; on one of 50 ms it has the same effect."""
    (jitter,) = [cause for cause in two[1]["causes"] if "link.jitter" in paths(cause)]
    assert paths(jitter) == {"link.jitter", "link.delay"}
    assert jitter["required"] == ["link.delay"]
    rows = {(row["path"], row["reset_to"]): row for row in jitter["proof"]}
    assert rows["link.delay", "50us"]["also_reset"] == ["link.jitter"]
    assert rows["link.delay", "50ms"]["gone"] is False
    assert rows["link.jitter", "0s"]["gone"] is True


def test_where_chance_decides_each_set_runs_with_several_seeds(two: tuple[Path, dict[str, Any]]) -> None:
    by_path = {path: cause for cause in two[1]["causes"] for path in paths(cause)}
    assert (by_path["link.jitter"]["shown"], by_path["link.jitter"]["runs"]) == (3, 3)
    # Reversed bursts are not random: one run suffices.
    assert (by_path["link.reorder"]["shown"], by_path["link.reorder"]["runs"]) == (1, 1)


def test_a_finding_leads_to_its_run_and_to_the_same_run_without_the_cause(
    two: tuple[Path, dict[str, Any]],
) -> None:
    folder, told = two
    assert len(causes(folder)) == 2
    for cause in told["causes"]:
        one = cause["explains"][0]
        pair = neighbour(folder, one["case"], one["seed"], one["oracle"])
        assert pair is not None
        shows, gone = pair
        assert shows == {t["path"]: t["value"] for t in cause["cause"]} | {"app.duration": "300ms"}
        assert len(shows.keys() - gone.keys()) == 1
        assert gone["app.duration"] == "300ms"
    assert neighbour(folder, "0000000000", 1, "late-ack") is None


def test_the_switch_that_breaks_a_rule_is_found_with_what_it_takes_to_show(tmp_path: Path) -> None:
    (cause,) = isolated(tmp_path, SWITCH)["causes"]
    assert cause["oracle"] == "small-window-after-recovery"
    assert {one["path"]: one["value"] for one in cause["cause"]} == {
        "app.rcvbuf": "20KB",
        "link.loss_model": "list:60",
        "stack.recovery_exit": "rfc3782-less-careful",
    }
    assert cause["proven"] is True


def test_a_cause_is_proven_in_runs_of_the_full_duration_and_its_smallest_run_is_short(tmp_path: Path) -> None:
    long_ = TWO.replace("300ms", "3s").replace("[1, 2]", "[1]").replace('"link.jitter" = ["0s", "1ms"]\n', "")
    (cause,) = isolated(tmp_path, long_)["causes"]
    assert paths(cause) == {"link.reorder"}
    assert cause["run"] == {"app.duration": "3s"}
    assert {one["triples"]["app.duration"] for one in cause["proof"]} == {"3s"}
    assert cause["smallest_run"]["changed"]["app.duration"] == "1ms"
