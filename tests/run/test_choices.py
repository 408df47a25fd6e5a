"""Selection and order of the runs of a plan, and the runs that are kept when the plan is extended."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import plans
from tcpassay.errors import UserError
from tcpassay.plan.read import read
from tcpassay.run import session as sessions
from tcpassay.run.choose import choose
from tcpassay.run.execute import Local, execute
from tcpassay.run.result import Result
from tcpassay.run.session import Beginning, Session

PLAN = plans.SMALL.replace("seeds = [7]", "seeds = [7, 8]").replace(
    "[axes]\n", '[axes]\n"queue.limit" = ["10KB", "100KB"]\n'
)


def begin(folder: Path, text: str = PLAN, how: Beginning | None = None) -> Result:
    plan = read(text, folder / "plan.toml")
    with Session.begin(plan, folder / "out", how or Beginning(), replace_=False) as session:
        return execute(session, Local(2))


def extend(folder: Path, text: str, *, force: bool = False) -> tuple[Result, int]:
    """The result, and how many runs were made anew."""
    plan = read(text, folder / "plan.toml")
    with Session.extend(plan, folder / "out", Beginning(), force=force) as session:
        waiting = session.journal.counts().waiting
        return execute(session, Local(2)), waiting


def essence(result: Result) -> list[tuple[str, int, str, str]]:
    return [(run.case.id, run.seed, run.outcome, run.digest) for run in result.runs]


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


def chosen(*texts: str) -> list[dict[str, Any]]:
    plan = read(PLAN, Path("plan.toml"))
    ids = choose(plan, texts)
    assert ids is not None
    return [case.varied for case in plan.cases if case.id in ids]


def test_a_filter_takes_values_of_one_parameter_as_alternatives_and_of_several_together() -> None:
    assert chosen("stack.cc=reno") == [
        {"queue.limit": "10KB", "stack.cc": "reno"},
        {"queue.limit": "100KB", "stack.cc": "reno"},
    ]
    assert len(chosen("stack.cc=reno", "stack.cc=cubic")) == 4
    assert chosen("stack.cc=reno", "queue.limit=10KB") == [{"queue.limit": "10KB", "stack.cc": "reno"}]
    assert len(chosen("link.rate=100Mbit")) == 4
    plan = read(PLAN, Path("plan.toml"))
    assert choose(plan, [plan.cases[2].id[:7]]) == {plan.cases[2].id}
    assert choose(plan, []) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stack.cc=vegas", "no case has this value; there are `reno`, `cubic`"),
        ("stack.c=reno", "the plan does not set it; did you mean `stack.cc`"),
        ("0123456789abcdef", "no case has this id"),
    ],
)
def test_a_filter_that_selects_nothing_is_reported(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        chosen(text)


def test_a_dry_run_lists_the_runs_and_writes_nothing(tmp_path: Path) -> None:
    plans.write(tmp_path, PLAN)
    done = tcpassay("run", "plan.toml", "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 cases x 2 seeds = 8 runs" in done.stdout
    listed = json.loads(tcpassay("run", "plan.toml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert (listed["runs"], len(listed["cases"])) == (8, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_what_the_author_of_a_plan_should_know_is_reported_before_it_runs(tmp_path: Path) -> None:
    plans.write(tmp_path, "constraints = ['[stack.cc] <> \"vegas\"']\n" + PLAN)
    done = tcpassay("run", "plan.toml", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    assert (
        done.stderr
        == 'note: `vegas` is not a level of `stack.cc` (`reno`, `cubic`) in: [stack.cc] <> "vegas" (plan.toml:1)\n'
    )


def test_seeds_that_change_nothing_are_reported(tmp_path: Path) -> None:
    plans.write(tmp_path, PLAN)
    done = tcpassay("run", "plan.toml", cwd=tmp_path)
    assert "note: each of the 4 cases gave the same run with every seed" in done.stdout
    (tmp_path / "plan.toml").write_text(
        PLAN.replace("[axes]", '"link.jitter" = "10us"\n\n[axes]'), encoding="utf-8"
    )
    done = tcpassay("run", "plan.toml", "--out", "drawn", cwd=tmp_path)
    assert done.returncode in {0, 1}
    assert "whose runs equal those of another seed" not in done.stdout


def test_retrying_without_failed_runs_is_an_error(tmp_path: Path) -> None:
    plans.write(tmp_path, PLAN)
    done = tcpassay("run", "plan.toml", "--retry", "timeout", cwd=tmp_path)
    assert (done.returncode, "--resume or --extend" in done.stderr) == (2, True)
    done = tcpassay("run", "plan.toml", "--retry", "done", cwd=tmp_path)
    assert "allowed are timeout, memory, crashed, failed" in done.stderr
    assert not (tmp_path / "results").exists()


def test_only_the_chosen_cases_run_and_only_their_checks_are_judged(tmp_path: Path) -> None:
    plan = read(PLAN, tmp_path / "plan.toml")
    result = begin(tmp_path, how=Beginning(choose(plan, ["stack.cc=reno"])))
    assert [run.case.varied["stack.cc"] for run in result.runs] == ["reno"] * 4
    assert len(result.verdicts) == 4
    assert result.ok
    # The rest is a plan that has grown.
    whole, made = extend(tmp_path, PLAN)
    assert made == 4
    (tmp_path / "fresh").mkdir()
    assert essence(whole) == essence(begin(tmp_path / "fresh"))


def test_a_check_against_a_partner_that_was_not_chosen_is_left_out(tmp_path: Path) -> None:
    text = PLAN + (
        '\n[[check]]\nmetric = "throughput"\nwhere = { "stack.cc" = "reno" }\nop = ">"\nvalue = 0.1\n'
        'times = { "stack.cc" = "cubic" }\nwhy = "alike"\n'
    )
    plan = read(text, tmp_path / "plan.toml")
    result = begin(tmp_path, text, Beginning(choose(plan, ["stack.cc=reno"])))
    assert {verdict.check.metric for verdict in result.verdicts} == {"timeouts"}


def test_a_shuffled_run_has_another_order_and_the_same_result(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plan = read(PLAN, tmp_path / "plan.toml")
    order: list[tuple[str, int]] = []

    class Watch:
        def begin(self, runs: object) -> None:
            pass

        def finished(self, run: Any) -> None:
            order.append((run.case.id, run.seed))

    with Session.begin(plan, tmp_path / "a" / "out", Beginning(shuffle=3), replace_=False) as session:
        shuffled = execute(session, Local(1), Watch())
    straight = begin(tmp_path / "b")
    assert order != [(run.case.id, run.seed) for run in straight.runs]
    assert sorted(order) == sorted((run.case.id, run.seed) for run in straight.runs)
    assert essence(shuffled) == essence(straight)


def test_more_seeds_and_more_values_keep_the_runs_that_are_there(tmp_path: Path) -> None:
    begin(tmp_path)
    grown = PLAN.replace("[7, 8]", "[6, 7, 8]").replace('["reno", "cubic"]', '["vegas", "reno", "cubic"]')
    result, made = extend(tmp_path, grown)
    assert made == 18 - 8
    (tmp_path / "fresh").mkdir()
    assert essence(result) == essence(begin(tmp_path / "fresh", grown))
    assert (tmp_path / "out" / "plan.toml").read_text(encoding="utf-8") == grown


def test_a_plan_that_lost_runs_is_refused_unless_forced(tmp_path: Path) -> None:
    begin(tmp_path)
    less = PLAN.replace("[7, 8]", "[8, 9]")
    with pytest.raises(UserError, match="4 runs that ended are not in the plan any more"):
        extend(tmp_path, less)
    result, made = extend(tmp_path, less, force=True)
    assert made == 4
    assert {run.seed for run in result.runs} == {8, 9}


def test_runs_that_were_made_in_another_way_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    begin(tmp_path)
    with pytest.raises(UserError, match="`collect` is not what it was"):
        extend(tmp_path, PLAN.replace('series = "1ms"', 'series = "5ms"'))
    with pytest.raises(UserError, match="`oracles` is not what it was"):
        extend(tmp_path, PLAN.replace("oracles = false", "oracles = true"))


def test_another_version_of_the_tables_is_refused_with_the_reason_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path)
    monkeypatch.setattr(sessions, "table_version", lambda: "0123456789ab")
    with pytest.raises(
        UserError, match=r"made with tables of parameters and metrics [0-9a-f]{12}; this is 0123456789ab"
    ):
        Session.resume(tmp_path / "out", force=False)
    with Session.resume(tmp_path / "out", force=True) as session:
        assert session.journal.counts().waiting == 0


def test_two_processes_cannot_work_on_the_same_results(tmp_path: Path) -> None:
    begin(tmp_path)
    with (
        Session.resume(tmp_path / "out", force=False),
        pytest.raises(UserError, match="another process works on"),
    ):
        Session.resume(tmp_path / "out", force=False)


def test_the_files_that_values_name_are_copied_so_that_the_folder_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "up.trace").write_text("".join(f"{ms}\n" for ms in range(1, 100)), encoding="utf-8")
    (tmp_path / "plans" / "own.trace").write_text("".join(f"{ms}\n" for ms in range(1, 90)), encoding="utf-8")
    text = PLAN.replace('"link.rate" = "100Mbit"\n', "").replace(
        "[axes]\n", '[axes]\n"link.rate" = ["trace:../up.trace", "trace:own.trace"]\n'
    )
    plan = read(text, tmp_path / "plans" / "plan.toml")
    with Session.begin(plan, tmp_path / "out", Beginning(), replace_=False) as session:
        first = execute(session, Local(2))
    assert all(run.done for run in first.runs)
    (tmp_path / "up.trace").unlink()
    (tmp_path / "plans" / "own.trace").unlink()
    moved = (tmp_path / "out").rename(tmp_path / "elsewhere")
    for run in first.runs[::5]:
        done = tcpassay("replay", "elsewhere", run.case.id, "--seed", str(run.seed), "--json", cwd=tmp_path)
        told = json.loads(done.stdout)
        assert (done.returncode, told["same"], told["checksums_same"]) == (0, True, True)
    with Session.resume(moved, force=False) as session:
        assert essence(execute(session, Local(1))) == essence(first)
