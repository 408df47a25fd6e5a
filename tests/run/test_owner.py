"""A result folder has one owner at a time, and is created completely or not at all."""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

import plans
from tcpassay import owner
from tcpassay.errors import UserError
from tcpassay.judge.folders import judge_folder
from tcpassay.owner import BusyError, LostError, Owner
from tcpassay.plan.read import Plan, read
from tcpassay.report import write_report
from tcpassay.run import session as sessions
from tcpassay.run.execute import Local, execute
from tcpassay.run.folder import Folder
from tcpassay.run.journal import NoSpaceError
from tcpassay.run.session import Beginning, Session


def plan(folder: Path, text: str = plans.SMALL) -> Plan:
    return read(text, folder / "plan.toml")


def begin(out: Path, *, force: bool = False) -> Session:
    return Session.begin(plan(out.parent), out, Beginning(), replace_=force)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    with begin(tmp_path / "out") as session:
        execute(session, Local(1))
    return tmp_path / "out"


@pytest.fixture
def live(finished: Path) -> Iterator[Path]:
    """A folder with results that a session works on."""
    with Session.resume(finished, force=False):
        yield finished


def test_force_resume_and_extend_are_refused_while_another_session_lives(live: Path) -> None:
    before = sorted(path.name for path in live.iterdir())
    with pytest.raises(BusyError, match="another process works on these results"):
        begin(live, force=True)
    with pytest.raises(BusyError):
        Session.resume(live, force=True)
    with pytest.raises(BusyError):
        Session.extend(plan(live.parent), live, Beginning(), force=True)
    assert sorted(path.name for path in live.iterdir()) == before


@pytest.mark.parametrize("name", ["out/", "link", "sub/../out"])
def test_another_name_of_the_folder_is_the_same_folder(live: Path, name: str) -> None:
    (live.parent / "sub").mkdir()
    (live.parent / "link").symlink_to(live)
    with pytest.raises(BusyError):
        begin(live.parent / name, force=True)


def test_a_folder_that_was_moved_away_is_still_owned(live: Path) -> None:
    moved = live.rename(live.with_name("moved"))
    with pytest.raises(BusyError):
        Session.resume(moved, force=True)
    with pytest.raises(BusyError):
        begin(live)


def test_a_folder_that_was_removed_is_still_owned_and_its_owner_writes_nothing_more(live: Path) -> None:
    shutil.rmtree(live)
    with pytest.raises(BusyError):
        begin(live)
    assert not live.exists()


def test_an_owner_whose_folder_was_replaced_with_its_parent_is_reported(tmp_path: Path) -> None:
    (tmp_path / "above").mkdir()
    with begin(tmp_path / "above" / "out") as first:
        shutil.rmtree(tmp_path / "above")
        (tmp_path / "above").mkdir()
        with begin(tmp_path / "above" / "out") as second:
            with pytest.raises(LostError, match="the folder was removed or replaced"):
                execute(first, Local(1))
            assert execute(second, Local(1)).ok


def _own(path: Path, holds: Event) -> None:
    _ = Owner.of(path)
    holds.set()
    signal.pause()


def test_the_lock_of_a_dead_owner_is_replaced(finished: Path) -> None:
    context = multiprocessing.get_context("fork")
    holds = context.Event()
    process = context.Process(target=_own, args=(finished, holds))
    process.start()
    assert holds.wait(600)
    with pytest.raises(BusyError):
        begin(finished, force=True)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert (finished / ".tcpassay.lock").exists()
    with begin(finished, force=True) as session:
        assert execute(session, Local(1)).ok
    assert not (finished / ".tcpassay.lock").exists()
    assert [path.name for path in finished.parent.glob(".*")] == []


def test_judging_a_live_folder_writes_nothing_and_says_so(live: Path) -> None:
    judged = judge_folder(live)
    assert "findings.json is not written" in judged.notes[0]
    assert not (live / "findings.json").exists()


def test_a_report_into_a_live_folder_is_refused_and_beside_it_is_written(live: Path) -> None:
    with pytest.raises(UserError, match="another process works on these results"):
        write_report(live)
    assert write_report(live, live.parent / "report.html").runs == 2


def die(folder: Folder) -> None:
    """What the kernel does for a process that is killed: its locks are gone, and their files are not."""
    for lock in folder.owner._locks:  # noqa: SLF001 - there is no such thing in a life
        owner._HELD.discard(lock._identity())  # noqa: SLF001
        os.close(lock._handle)  # noqa: SLF001
    folder.owner._locks.clear()  # noqa: SLF001


@pytest.mark.parametrize("step", ["inputs", "plan", "journal", "publish"])
@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_a_failure_while_a_folder_is_made_leaves_what_a_new_run_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, there: bool
) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()

    def full(*_: object, **__: object) -> None:
        raise NoSpaceError("the disk is full")

    with monkeypatch.context() as planted:
        match step:
            case "inputs":
                planted.setattr(sessions.inputs, "copy", full)
            case "plan":
                planted.setattr(Folder, "write", full)
            case "journal":
                planted.setattr(sessions.Journal, "create", full)
            case _:
                planted.setattr(Folder, "publish", full)
        with pytest.raises(NoSpaceError):
            begin(out)
        assert list(tmp_path.iterdir()) == ([out] if there else [])
        assert not there or list(out.iterdir()) == []
        # The same, when the process dies there and can clean nothing up.
        planted.setattr(Folder, "abandon", die)
        with pytest.raises(NoSpaceError):
            begin(out)
    if step == "plan" or (step, there) == (
        "publish",
        True,
    ):  # then the journal is there, and with it all that is needed
        with Session.resume(out, force=False) as session:
            assert execute(session, Local(1)).ok
        return
    with pytest.raises(UserError, match=r"run the plan again|no results to continue|no journal"):
        Session.resume(out, force=False)
    with begin(out) as session:
        assert execute(session, Local(1)).ok
    assert list(tmp_path.iterdir()) == [out]


def test_force_replaces_empty_folders_and_no_other_files(tmp_path: Path) -> None:
    (tmp_path / "z" / "recordings").mkdir(parents=True)
    with begin(tmp_path / "z", force=True) as session:
        assert execute(session, Local(1)).ok
    for name in ("recordings/thesis.tex", "notes.txt", "result.json"):
        foreign = tmp_path / "y" / name
        foreign.parent.mkdir(parents=True, exist_ok=True)
        foreign.write_text("years of work", encoding="utf-8")
        with pytest.raises(UserError, match="not empty and holds no results"):
            begin(tmp_path / "y", force=True)
        assert foreign.read_text(encoding="utf-8") == "years of work"
        shutil.rmtree(tmp_path / "y")


def test_force_keeps_files_beside_the_results_that_no_run_has_written(finished: Path) -> None:
    (finished / "notes.txt").write_text("mine", encoding="utf-8")
    with begin(finished, force=True) as session:
        assert execute(session, Local(1)).ok
    assert (finished / "notes.txt").read_text(encoding="utf-8") == "mine"
