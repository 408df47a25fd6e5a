"""Runs that crash, hang or exhaust memory, in real worker processes: each has an outcome, and other runs continue.

Nothing but a hang may hit a limit of time, however busy the machine is: so the limits are an hour, and it passes for
the run that hangs and for no other.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import plans
from tcpassay.messages import Outcome
from tcpassay.plan.read import read
from tcpassay.run import pool
from tcpassay.run.execute import Local, execute
from tcpassay.run.result import Result
from tcpassay.run.session import Beginning, Session

# The real worker, except that some seeds replace the simulation.
PLANTED = """
import ctypes, itertools, os, pathlib, time
from tcpassay import _native
from tcpassay.run import worker
from tcpassay.substrate import model
real, calls = _native.run_held, itertools.count()
def run_held(**case):
    match case["seed"]:
        case 11: os.abort()
        case 12: ctypes.string_at(0)
        case 13: pathlib.Path(HANGS).touch(); time.sleep(600)
        case 14: os._exit(7)
        case 15: raise MemoryError
        case 16: raise RuntimeError("a bug of ours")
        case 17: hog = [bytearray(1 << 20) for _ in range(1 << 14)]
        case 18: raise OSError(13, "Permission denied")
        case 19: os.write(2, b"memory allocation of 1048576 bytes failed"); os.abort()
    return real(**case)
class Native:
    run_held = staticmethod(run_held)
    CaseError, PanicException, check_case = _native.CaseError, _native.PanicException, _native.check_case
    StackError = _native.StackError
model._native = Native
worker.main()
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The planted worker; and two hours pass for the run with seed 13 once it hangs."""
    hangs = tmp_path / "hangs"
    monkeypatch.setattr(pool, "WORKER", ["-c", f"HANGS = {str(hangs)!r}\n{PLANTED}"])
    passed, real = 0.0, pool.Worker.over

    def over(worker: pool.Worker, limits: pool.Limits, **how: bool) -> Iterator[tuple[int, Any]]:
        nonlocal passed
        passed = 7200.0 * (bool(worker.queue) and worker.queue[0][1].seed == 13 and hangs.exists())
        yield from list(real(worker, limits, **how))
        passed = 0.0

    monkeypatch.setattr(pool.Worker, "over", over)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed, sleep=time.sleep)
    monkeypatch.setattr(pool, "time", clock)
    return monkeypatch


def run(folder: Path, text: str, jobs: int = 2) -> Result:
    plan = read(text, folder / "plan.toml")
    with Session.begin(plan, folder / "out", Beginning(), replace_=False) as session:
        return execute(session, Local(jobs))


def with_seeds(seeds: str, limits: str) -> str:
    text = plans.SMALL.replace("seeds = [7]", f"seeds = {seeds}").replace(
        '"stack.cc" = ["reno", "cubic"]', '"stack.cc" = ["reno"]'
    )
    return text.replace("[collect]", f"[limits]\n{limits}\n\n[collect]")


@pytest.mark.usefixtures("planted")
def test_each_way_to_break_off_is_its_own_outcome_and_the_others_go_on(tmp_path: Path) -> None:
    text = with_seeds("[1, 11, 12, 13, 14, 15, 16, 17, 19, 2]", 'case_time = "1h"\ncase_memory = "300MiB"')
    result = run(tmp_path, text)
    assert {run.seed: run.outcome for run in result.runs} == {
        1: "done",
        11: "crashed",
        12: "crashed",
        13: "timeout",
        14: "crashed",
        15: "memory",
        16: "failed",
        17: "memory",
        19: "memory",
        2: "done",
    }
    messages = {run.seed: run.message for run in result.runs}
    assert "SIGABRT" in messages[11]
    assert "SIGSEGV" in messages[12]
    assert messages[13] == "it ran longer than 3600 s"
    assert "exit code 7" in messages[14]
    assert messages[16] == "RuntimeError: a bug of ours"
    # An allocation that fails in the data plane aborts the process.
    assert "SIGABRT" in messages[19]
    assert "`limits.case_memory` = 300 MiB of the plan: raise it" in messages[19]
    assert not result.ok
    assert result.status == "complete"
    assert not (tmp_path / "out" / ".work").exists()


def test_a_failed_allocation_of_the_data_plane_is_reported_as_memory_and_not_as_a_crash(
    tmp_path: Path,
) -> None:
    # A real run whose event log does not fit into the memory that it may have.
    text = with_seeds("[1]", 'case_memory = "120MiB"').replace('"20ms"', '"20s"').replace("100Mbit", "1Gbit")
    result = run(tmp_path, text.replace('series = "1ms"', 'series = "1ms"\nevents = true'))
    (only,) = result.runs
    assert only.outcome == "memory", only.message
    # The message names the limit, what needed the memory, and how to do without.
    assert "`limits.case_memory` = 120 MiB of the plan: raise it, or shorten the run" in only.message
    assert "without the event log" in only.message
    assert "(`events = false` in [collect] and `oracles = false`)" in only.message


def test_a_real_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    # An hour at 10 Gbit/s are 3e9 packets: no machine makes them in 2 s, and none needs to have begun.
    text = with_seeds("[1]", 'case_time = "2s"').replace("20ms", "3600s").replace("100Mbit", "10Gbit")
    (only,) = run(tmp_path, text).runs
    assert (only.outcome, only.message) == ("timeout", "it ran longer than 2 s")


def test_a_run_that_ended_by_its_limit_is_made_again_when_asked_for_and_no_other_is(
    tmp_path: Path, planted: pytest.MonkeyPatch
) -> None:
    # The pool looks at the time when it looks at memory.
    limits = 'case_time = "1h"\ncase_memory = "4GiB"'
    result = run(tmp_path, with_seeds("[1, 13, 14, 15]", limits))
    assert [run.outcome for run in result.runs] == ["done", "timeout", "crashed", "memory"]
    planted.undo()
    out = tmp_path / "out"
    again = frozenset({Outcome.TIMEOUT, Outcome.MEMORY})
    with Session.resume(out, force=False) as session:
        assert session.journal.counts().waiting == 0
    with Session.resume(out, force=False, retry=again) as session:
        assert session.journal.counts().waiting == 2
        result = execute(session, Local(1))
    assert [run.outcome for run in result.runs] == ["done", "done", "crashed", "done"]
    wanted = read(with_seeds("[1, 13, 14, 15]", 'case_time = "2h"'), tmp_path / "plan.toml")
    how = Beginning(retry=frozenset({Outcome.CRASHED}))
    with Session.extend(wanted, out, how, force=False) as session:
        assert session.journal.counts().waiting == 1
        assert execute(session, Local(1)).ok


def test_a_result_that_cannot_be_written_stops_all_and_is_no_outcome(
    tmp_path: Path, planted: pytest.MonkeyPatch
) -> None:
    from tcpassay.errors import UserError  # noqa: PLC0415

    with pytest.raises(UserError, match="1 of 3 runs are safe: make space, then `tcpassay run --resume"):
        run(tmp_path, with_seeds("[1, 18, 2]", 'case_time = "1h"'), jobs=1)
    planted.undo()
    with Session.resume(tmp_path / "out", force=False) as session:
        result = execute(session, Local(1))
    assert [run.outcome for run in result.runs] == ["done", "done", "done"]


def test_a_value_that_must_be_refused_is_and_one_that_is_accepted_is_reported(tmp_path: Path) -> None:
    text = plans.SMALL.replace("[axes]", '[negative]\n"link.rate" = ["fast"]\n\n[axes]')
    result = run(tmp_path, text)
    refused = [run for run in result.runs if run.case.expect == "refused"]
    assert [run.outcome for run in refused] == ["refused"] * len(refused) != []
    assert "link.rate" in refused[0].message
    assert result.ok


def test_repetitions_are_made_and_must_be_the_same_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = plans.SMALL.replace("oracles = false", "oracles = false\nrepetitions = 3")
    result = run(tmp_path, text)
    assert len(result.runs) == 2
    assert result.undetermined == []
    assert result.ok
    drifting = PLANTED.replace(
        "return real", "case['seed'] += os.getpid() * 1000 + next(calls)\n    return real"
    )
    monkeypatch.setattr(pool, "WORKER", ["-c", drifting])
    rough = text.replace(
        '"link.delay" = "1ms"', '"link.delay" = "1ms"\n"link.loss" = "1%"\n"link.jitter" = "1us"'
    )
    (tmp_path / "other").mkdir()
    result = run(tmp_path / "other", rough)
    assert not result.ok
    assert {one["repetition"] for one in result.undetermined} == {2, 3}
    assert {run.outcome for run in result.runs} == {"done"}
