"""The real bugs of Linux in tests/quality/history: complete headers, and patches that fit the source of 6.1."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import plans
from tcpassay.kernel import source as sources
from tcpassay.kernel import store

sys.path.insert(0, str(plans.REPOSITORY / "tools" / "quality"))

import bugs
import differences
import history

from tcpassay.first_difference import FirstDifference
from tcpassay.following import Followed, FollowedEnd

ALL = sorted(bugs.DATA.glob("*.patch"))
STACK = ("net/ipv4/", "net/core/", "net/sched/", "include/net/")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of Debian's 6.1 that a patch touches."""
    name = f"linux-source-{bugs.VERSION}.tar.xz"
    places = [Path("/usr/src") / name, store.cache() / "downloads" / name]
    if not (found := [place for place in places if place.is_file()]):
        pytest.skip(f"the source of Linux {bugs.VERSION} is in neither of {', '.join(map(str, places))}")
    tree = tmp_path_factory.mktemp("linux")
    touched = {name for file in ALL for name in bugs.read(file).patch.touches}
    members = [f"linux-source-{bugs.VERSION}/{name}" for name in sorted(touched)]
    unpacked = sources.run(["tar", "-xf", str(found[0]), "-C", str(tree), "--strip-components=1", *members])
    assert unpacked.returncode == 0, unpacked.stderr
    return tree


def applied(tree: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["patch", "-p1", "-f", "-s", "-N", "-r", "-", "--no-backup-if-mismatch", *options]
    return subprocess.run(command, cwd=tree, input=text, capture_output=True, text=True, check=False)


def test_there_are_at_least_twenty_bugs_each_with_another_fixing_commit() -> None:
    assert len(ALL) >= 20
    assert len({bugs.read(file).fixed_by for file in ALL}) == len(ALL)


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.stem)
def test_a_header_names_the_fix_its_cause_the_years_the_symptom_and_what_was_verified(file: Path) -> None:
    bug = bugs.read(file)
    assert bug.title
    assert len(bug.symptom) > 40


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.stem)
def test_a_patch_changes_a_few_lines_of_the_stack_only(file: Path) -> None:
    patch = bugs.read(file).patch
    changed = [
        line for line in patch.text.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}
    ]
    assert 1 <= len(changed) <= 45
    assert all(name.startswith(STACK) for name in patch.touches)


@pytest.mark.parametrize("missing", bugs.FIELDS)
def test_a_header_without_a_field_is_refused_with_the_name_of_the_field(missing: str, tmp_path: Path) -> None:
    text = ALL[0].read_text(encoding="utf-8")
    copy = tmp_path / "bug.patch"
    copy.write_text(text.replace(f"{missing}: ", "Other: ", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=missing):
        bugs.read(copy)


def test_every_patch_applies_to_the_source_of_debian(source: Path) -> None:
    for file in ALL:
        ended = applied(source, bugs.read(file).patch.text, "--dry-run", "--fuzz=0")
        assert ended.returncode == 0, f"{file.name}: {ended.stdout}"


def run(
    digest: str, found: dict[tuple[str, str], int], outcome: str = "done", goodput: float = 100.0
) -> dict[str, Any]:
    return {
        "case": "0" * 10,
        "outcome": outcome,
        "trace": digest,
        "digest": digest,
        "cpu_s": 1.0,
        "goodput": goodput,
        "found": Counter(found),
    }


def test_a_bug_is_found_by_what_the_plain_kernel_does_not_show() -> None:
    known, new = ("late-ack", "late"), ("ecn", "no CWR")
    plain = {
        "a": run("1", {known: 2}),
        "b": run("2", {}),
        "c": run("3", {}),
        "d": run("4", {}, "crashed"),
        "e": run("5", {}),
    }
    faulty = {
        "a": run("6", {known: 9}, goodput=80.0),
        "b": run("7", {known: 1, new: 1}),
        "c": run("3", {}),
        "d": run("4", {}, "crashed"),
        "e": run("", {}, "crashed"),
    }
    row = history.compared(plain, faulty)
    assert (row["cases"], row["differ"], row["found"]) == (5, 3, 2)
    assert (row["slower"], row["slowest"]) == (1, 0.8)
    assert row["by"] == {"late-ack: late": 1, "ecn: no CWR": 1, "outcome: crashed": 1}
    assert row["first"]["ecn: no CWR"] == "0000000000-1/ecn"


def test_a_plan_runs_the_cases_of_a_header_by_the_factors_and_values_that_it_has() -> None:
    chosen = ("stack.cc=cubic", "traffic=rests", "traffic=grows", "link.delay=20ms", "ecn=off")
    assert history.COVERAGE.filters(chosen) == chosen
    assert history.WINDOWS.filters(chosen) == ("stack.cc=cubic", "traffic=rests", "link.delay=20ms")


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.stem)
def test_the_cases_of_a_header_are_factors_and_values_of_the_plans(file: Path) -> None:
    bug = bugs.read(file)
    assert history.COVERAGE.filters(bug.cases) == bug.cases
    assert history.WINDOWS.filters(bug.window_cases) == bug.window_cases


def test_the_row_of_a_bug_has_a_line_for_each_plan_that_ran() -> None:
    row = {
        "cases": 80,
        "differ": 3,
        "slower": 0,
        "slowest": 1.0,
        "found": 0,
        "by": {},
        "cause": "-",
        "measured": "t0",
    }
    other = row | {"cases": 8, "found": 2, "by": {"ecn: no CWR": 2}, "measured": "t1"}
    made = history.cells(bugs.read(ALL[0]), {"kernel-coverage": row, "kernel-windows": other}, {})
    assert len(made) == len(history.COLUMNS)
    assert made[3] == "kernel-coverage: 3 of 80<br>kernel-windows: 3 of 8"
    assert made[4] == "kernel-coverage: 0 of 80<br>kernel-windows: 2 of 8"
    assert made[5:9] == ["not measured"] * 4
    assert made[10] == "ecn: no CWR (2)"
    assert history.cells(bugs.read(ALL[0]), {"kernel-coverage": row}, {ALL[0].stem: "more cases"})[4] == "no"


STACK_C = """static void tcp_deep(struct sock *sk)
{
\tsk->a = 1;
}

/* A comment (with a call) before it. */
static inline bool
tcp_inner(struct sock *sk,
\t  int count)
{
\ttcp_deep(sk);
\treturn false;
}

int tcp_outer(struct sock *sk)
{
\treturn tcp_inner(sk, 3);
}

static struct ops tcp_ops = {
\t.act = tcp_outer,
};

void tcp_main(struct sock *sk)
{
\tsk->ops->act(sk);
}
"""
PATCH = """Fixed-by: 0123456789ab tcp: fix it
Introduced-by: not told
Lived: 2015-2016
Verified: nothing
Symptom: The count is wrong.

--- a/net/ipv4/tcp_a.c
+++ b/net/ipv4/tcp_a.c
"""


@pytest.mark.parametrize(
    ("hunk", "changed", "callers"),
    [
        ("@@ -11 @@\n \ttcp_deep(sk);\n-\treturn false;\n", {"tcp_inner"}, {"tcp_outer"}),
        ("@@ -16 @@\n {\n-\treturn tcp_inner(sk, 3);\n+\treturn 1;\n", {"tcp_outer"}, {"tcp_main"}),
    ],
)
def test_the_functions_of_a_patch_are_those_of_its_changed_lines_and_their_direct_callers(
    hunk: str, changed: set[str], callers: set[str], tmp_path: Path
) -> None:
    file = tmp_path / "source" / "net" / "ipv4" / "tcp_a.c"
    file.parent.mkdir(parents=True)
    file.write_text(STACK_C)
    patch = tmp_path / "bug.patch"
    patch.write_text(PATCH + hunk)
    assert differences.functions(bugs.read(patch), tmp_path / "source") == (changed, callers)


def end(run: str, at: int | None, cause: str = "", source: str = "") -> FollowedEnd:
    first = None if at is None else FirstDifference(1, at, "", "", "", "", source, cause)
    return FollowedEnd(run, "a", "flow.1", 9, 9, 9, {}, first, "", run)


def test_a_difference_is_found_alone_if_no_end_of_the_plain_kernel_has_its_cause() -> None:
    plain = Followed(
        [end("1", None), end("2", 50, "known"), end("3", None), end("4", 50, "known"), end("5", None)], {}
    )
    faulty = [
        end("1", 9, "other", "tcp_ack, RFC 5681"),
        end("2", 50, "known"),
        end("3", 9, "known", "tcp_ack"),
        end("4", 40, "another", "tcp_push"),
        end("5", None),
    ]
    told = differences.told(plain, Followed(faulty, {}), {"tcp_ack"}, 5)
    assert (told["ends"], told["alone"], told["named"], told["beside"]) == (5, 2, 1, 1)
    assert told["causes"] == {"other (tcp_ack, RFC 5681)": 1, "another (tcp_push)": 1}


def test_a_known_cause_is_found_alone_if_it_is_much_more_frequent_than_on_the_plain_kernel() -> None:
    plain = Followed([end(str(n), 50 if n < 2 else None, "known") for n in range(100)], {})
    few = Followed([end(str(n), 9, "known") for n in range(50, 53)], {})
    many = Followed([end(str(n), 9, "known") for n in range(50, 60)], {})
    assert differences.chance(3, 40, 0.02) == pytest.approx(0.0457, abs=1e-4)
    assert [differences.told(plain, one, set(), 40)["alone"] for one in (few, many)] == [0, 10]


def test_the_summary_counts_bugs_that_change_packets_by_what_finds_them() -> None:
    def row(alone: int, named: int, beside: int, found: int, differ: int = 1) -> dict[str, Any]:
        follow = {"alone": alone, "named": named, "beside": beside}
        return {"differ": differ, "found": found, "follow": follow}

    rows = {
        "both": {"p": row(2, 1, 0, 1)},
        "unnamed": {"p": row(1, 0, 0, 0)},
        "beside": {"p": row(0, 0, 3, 1)},
        "neither": {"p": row(0, 0, 0, 0)},
        "unchanged": {"p": row(0, 0, 0, 0, 0)},
    }
    assert history.ways(rows) == (
        "Of 4 bugs that change packets and were followed, `follow` finds 2 alone, 1 of them with a reason that names "
        "the function, and 1 more only beside the plain kernel; the oracles find 2, 1 of which `follow` does not find "
        "alone."
    )


def test_the_hold_out_is_reported_before_and_after_the_plans_and_oracles_were_changed() -> None:
    found = {"found": 1}
    names = {file.stem for file in ALL}
    one, other = "probe-bound-by-old-timeout", "one-credit-for-a-stretch-ack"
    told = history.hold_out({one: {"kernel-coverage": found}, other: {"kernel-coverage": found}})
    assert {one, other} <= names
    assert "2 of 6 were found (`nothing-retransmitted-without-sack` in 15 of 59 cases, " in told
    assert told.endswith("2 of 6 are found.")
    assert "`follow` found 5 alone, 2 of them named, and 6 only beside" in history.followed_hold_out()
