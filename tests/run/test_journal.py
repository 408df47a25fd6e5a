"""The journal: nothing lost and nothing repeated, whatever dies when."""

import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tcpassay.errors import UserError
from tcpassay.run.journal import NAME, Counts, Journal, JournalError, NoSpaceError, Outcome

WORKER = Path(__file__).with_name("journal_worker.py")
CASES = [{"stack.cc": "reno", "n": n} for n in range(200)]


def start(folder: Path, log: Path, seconds: float = 0.001) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(WORKER), str(folder), str(log), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> int:
    code = process.wait(timeout=60)
    assert process.stdout is not None
    process.stdout.close()
    return code


def results(folder: Path) -> list[tuple[int, object, Outcome | None, object]]:
    with Journal.open(folder) as journal:
        return [(e.number, e.case, e.outcome, e.payload) for e in journal.entries()]


def undisturbed(folder: Path) -> list[tuple[int, object, Outcome | None, object]]:
    """The result of the worker without a disturbance."""
    folder.mkdir()
    Journal.create(folder, "plan", CASES)
    assert end(start(folder, folder / "log", 0)) == 0
    return results(folder)


def test_a_case_goes_from_waiting_to_running_to_finished(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", [{"a": 1}, {"a": "10ms"}])
    with Journal.open(tmp_path, "plan", clock=iter([100.0, 102.5]).__next__) as journal:
        assert journal.counts() == Counts(waiting=2, running=0, finished={})
        claim = journal.claim()
        assert claim is not None
        assert (claim.number, claim.case, claim.attempt) == (0, {"a": 1}, 1)
        assert journal.counts() == Counts(waiting=1, running=1, finished={})
        assert [entry.running for entry in journal.entries()] == [True, False]
        journal.finish(claim, Outcome.DONE, {"metric": 0.5})
        assert journal.counts() == Counts(waiting=1, running=0, finished={Outcome.DONE: 1})
        first, second = journal.entries()
        assert (first.outcome, first.payload, first.seconds) == (Outcome.DONE, {"metric": 0.5}, 2.5)
        assert (second.outcome, second.payload, second.case) == (None, None, {"a": "10ms"})


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_ends_a_case(tmp_path: Path, outcome: Outcome) -> None:
    Journal.create(tmp_path, "plan", [{}])
    with Journal.open(tmp_path) as journal:
        claim = journal.claim()
        assert claim is not None
        journal.finish(claim, outcome)
        assert journal.claim() is None
        assert journal.counts().finished == {outcome: 1}


def test_there_are_the_outcomes_of_the_design() -> None:
    assert [str(outcome) for outcome in Outcome] == [
        "done",
        "failed",
        "crashed",
        "timeout",
        "memory",
        "path",
        "unsupported",
        "refused",
    ]


def test_killed_twenty_times_it_ends_as_if_never_disturbed(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "calm")
    folder, log = tmp_path / "wild", tmp_path / "wild.log"
    folder.mkdir()
    Journal.create(folder, "plan", CASES)
    rng = random.Random(20260704)  # noqa: S311
    interrupted = 0
    finished: set[int] = set()
    begun: list[int] = []
    for _ in range(20):
        process = start(folder, log, 0.002)
        time.sleep(rng.uniform(0, 0.04))
        process.send_signal(signal.SIGKILL)
        assert end(process) == -signal.SIGKILL
        now = [int(n) for n in log.read_text().split()][len(begun) :]
        assert not finished & set(now), "a finished case was begun again"
        finished = {number for number, _, outcome, _ in results(folder) if outcome is not None}
        assert len(set(now) - finished) <= 1, "more was lost than the one case that the process died in"
        interrupted += len(set(now) - finished)
        begun += now
    assert interrupted > 0, "no kill came in the middle of a case"
    assert end(start(folder, log, 0)) == 0
    assert results(folder) == expected
    assert set(map(int, log.read_text().split())) == set(range(200))
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_a_kill_while_the_journal_is_made_leaves_no_journal_or_a_whole_one(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tcpassay.run.journal import Journal\n"
        "print('ready', flush=True)\n"
        "Journal.create(Path(sys.argv[1]), 'plan', ({'n': n} for n in range(30_000)))\n"
    )
    rng = random.Random(1)  # noqa: S311
    seen = set()
    for n in range(6):
        folder = tmp_path / str(n)
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.6 if n == 5 else rng.uniform(0, 0.1))
        process.kill()
        end(process)
        if (folder / NAME).exists():
            with Journal.open(folder, "plan") as journal:
                assert journal.counts().waiting == 30_000
        seen.add((folder / NAME).exists())
    assert False in seen, "no kill came early enough to test anything"


def test_two_processes_share_the_cases_and_run_none_twice(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "calm")
    folder = tmp_path / "shared"
    folder.mkdir()
    Journal.create(folder, "plan", CASES)
    logs = [tmp_path / "a", tmp_path / "b"]
    processes = [start(folder, log, 0.003) for log in logs]
    assert [end(process) for process in processes] == [0, 0]
    traces = [[int(n) for n in log.read_text().split()] for log in logs]
    assert all(traces), "one process did everything, so nothing was shared"
    assert sorted(traces[0] + traces[1]) == list(range(200))
    assert results(folder) == expected


def test_a_survivor_takes_over_the_case_of_a_process_that_died(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:3])
    process = start(tmp_path, tmp_path / "log", 60)
    with Journal.open(tmp_path) as journal:
        claims = [journal.claim(), journal.claim()]
        while (tmp_path / "log").read_text() == "":
            time.sleep(0.001)
        assert journal.counts().running == 3
        # The other process lives, so its case is its own.
        assert journal.claim() is None
        process.kill()
        end(process)
        taken = journal.claim()
        assert taken is not None
        assert taken.attempt == 2
        assert taken.number not in {claim.number for claim in claims if claim is not None}


def test_another_journal_of_the_same_process_is_not_taken_for_dead(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:1])
    with Journal.open(tmp_path) as one:
        claim = one.claim()
        assert claim is not None
        with Journal.open(tmp_path) as other:
            assert other.claim() is None
        one.finish(claim, Outcome.DONE)


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Calls with an interrupt at the step `at`, where a line begins; whether it came to that."""
    steps = 0

    def step(_frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        nonlocal steps
        if event == "line":
            steps += 1
            if steps == at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_leaves_a_journal_that_goes_on(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES)
    with Journal.open(tmp_path) as journal:
        at = 1
        while interrupted(journal.claim, at):
            journal.note(interrupted=str(at))
            at += 1
        assert at > 20
        assert journal.notes["interrupted"] == str(at - 1)
        # The claim that came through, and those whose transaction was over when the interrupt came.
        assert 1 <= journal.counts().running < at
    assert journal_of(tmp_path).waiting == 200


def journal_of(folder: Path) -> Counts:
    with Journal.open(folder) as journal:
        return journal.counts()


def test_closing_gives_back_what_was_not_finished(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:2])
    with Journal.open(tmp_path) as journal:
        claim = journal.claim()
        assert claim is not None
        journal.release(claim)
        assert journal.claim() == type(claim)(claim.number, claim.case, 2)
    with Journal.open(tmp_path) as journal:
        assert journal.counts() == Counts(waiting=2, running=0, finished={})
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_case_is_finished_once_and_by_who_claimed_it(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:2])
    with Journal.open(tmp_path) as one, Journal.open(tmp_path) as other:
        claim = one.claim()
        assert claim is not None
        with pytest.raises(AssertionError, match="a process that does not run it"):
            other.finish(claim, Outcome.DONE)
        one.finish(claim, Outcome.DONE)
        with pytest.raises(AssertionError, match="a process that does not run it"):
            one.finish(claim, Outcome.FAILED)
        assert one.counts().finished == {Outcome.DONE: 1}


def test_cases_run_in_the_order_asked_for_and_are_listed_in_that_of_the_plan(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:4], order=[2, 0, 3, 1])
    with Journal.open(tmp_path) as journal:
        run = []
        while (claim := journal.claim()) is not None:
            run.append(claim.number)
            journal.finish(claim, Outcome.DONE)
        assert run == [2, 0, 3, 1]
        assert [entry.number for entry in journal.entries()] == [0, 1, 2, 3]


def test_a_plan_that_grew_keeps_what_was_finished_wherever_it_stands_now(tmp_path: Path) -> None:
    Journal.create(tmp_path, "two", CASES[:3], notes={"text": "old", "base": "."})
    with Journal.open(tmp_path, "two") as journal:
        for number in (0, 1):
            claim = journal.claim()
            assert claim is not None
            assert claim.number == number
            journal.finish(claim, Outcome.DONE, {"x": number})
        gone = journal.replan("grown", [{"n": "new"}, CASES[1], CASES[2]], [2, 1, 0], {"text": "new"})
        assert gone == 1
    with Journal.open(tmp_path, "grown") as journal:
        assert journal.notes == {"text": "new", "base": "."}
        assert [(e.number, e.case, e.outcome, e.payload) for e in journal.entries()] == [
            (0, {"n": "new"}, None, None),
            (1, CASES[1], Outcome.DONE, {"x": 1}),
            (2, CASES[2], None, None),
        ]
        claims = [journal.claim(), journal.claim(), journal.claim()]
        assert [claim and claim.number for claim in claims] == [2, 0, None]


def test_a_kill_while_the_plan_is_changed_leaves_the_old_one_or_the_new(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tcpassay.run.journal import Journal\n"
        "journal = Journal.open(Path(sys.argv[1]))\n"
        "print('ready', flush=True)\n"
        "journal.replan('new', ({'n': n} for n in range(20_000)), None, {'text': 'new'})\n"
        "print('ready', flush=True)\n"
    )
    rng = random.Random(3)  # noqa: S311
    seen = set()
    for n in range(6):
        folder = tmp_path / str(n)
        folder.mkdir()
        Journal.create(folder, "old", ({"n": n} for n in range(200)), notes={"text": "old"})
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        if n == 5:
            process.stdout.readline()
        else:
            time.sleep(rng.uniform(0, 0.1))
        process.kill()
        end(process)
        with Journal.open(folder) as journal:
            found = (journal.plan, journal.notes["text"], journal.counts().waiting)
            assert found in {("old", "old", 200), ("new", "new", 20_000)}
            seen.add(found)
    assert len(seen) == 2, "no kill came early enough to test anything"


def test_a_living_process_with_the_same_journal_is_counted_and_a_dead_one_is_not(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:3])
    process = start(tmp_path, tmp_path / "log", 60)
    with Journal.open(tmp_path) as journal:
        assert journal.others() == 1
        process.kill()
        end(process)
        assert journal.others() == 0


def test_a_run_is_begun_once_and_resumed_with_its_own_plan(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal, so no run to resume"):
        Journal.open(tmp_path)
    Journal.create(tmp_path, "plan", CASES[:1])
    with pytest.raises(JournalError, match="there is a run in this folder already"):
        Journal.create(tmp_path, "plan", CASES[:1])
    with pytest.raises(JournalError, match=r"of another plan \(digest plan, not other\)"):
        Journal.open(tmp_path, "other")
    with pytest.raises(JournalError, match="No such file or directory"):
        Journal.create(tmp_path / "missing", "plan", [])


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES)
    path = tmp_path / NAME
    content = bytearray(path.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        Journal.open(tmp_path)
    assert str(caught.value).startswith(f"{path}: the journal is damaged: ")
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(UserError, match="the journal is damaged: file is not a database"):
        Journal.open(tmp_path)


def work(journal: Journal) -> int:
    """Run all cases with a payload of 2 kB each; the number finished before an error."""
    finished = 0
    while (claim := journal.claim()) is not None:
        journal.finish(claim, Outcome.DONE, {"padding": "x" * 2000})
        finished += 1
    return finished


def test_a_full_database_stops_cleanly_and_is_resumed_when_there_is_space(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES)
    journal = Journal.open(tmp_path)
    journal._database.execute("PRAGMA max_page_count = 50")  # noqa: SLF001
    with pytest.raises(NoSpaceError, match="so the disk is most likely full"):
        work(journal)
    counts = journal.counts()
    assert 0 < counts.finished[Outcome.DONE] < 200
    assert counts.running == 1
    journal.close()
    with Journal.open(tmp_path) as journal:
        assert work(journal) == 200 - counts.finished[Outcome.DONE]
        assert journal.counts() == Counts(0, 0, {Outcome.DONE: 200})


def test_a_full_disk_stops_cleanly_and_a_copy_is_resumed(tmp_path: Path) -> None:
    # A file system of 300 KB in a mount namespace of its own, where the system lets this user have one.
    script = tmp_path / "script.py"
    script.write_text(
        "import shutil, sys; from pathlib import Path\n"
        "from tcpassay.run.journal import Journal, NoSpaceError, Outcome\n"
        "folder = Path(sys.argv[1]); Journal.create(folder, 'plan', ({'n': n} for n in range(200)))\n"
        "try:\n"
        "    with Journal.open(folder) as journal:\n"
        "        while (claim := journal.claim()) is not None:\n"
        "            journal.finish(claim, Outcome.DONE, {'padding': 'x' * 2000})\n"
        "except NoSpaceError as error:\n"
        "    print(error)\n"
        "    for path in folder.glob('journal.sqlite*'): shutil.copy(path, sys.argv[2])\n"
    )
    full, kept = tmp_path / "full", tmp_path / "kept"
    full.mkdir()
    kept.mkdir()
    mount = 'mount -t tmpfs -o size=300k tmpfs "$2" || exit 77; exec "$1" "$3" "$2" "$4"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, str(full), str(script), str(kept)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user may not mount a file system")
    assert done.returncode == 0, done.stderr
    assert f"{full / NAME}: the journal cannot be written, so the disk is most likely full" in done.stdout
    with Journal.open(kept) as journal:
        finished = journal.counts().finished[Outcome.DONE]
        assert 0 < finished < 200
        assert work(journal) == 200 - finished
        assert journal.counts() == Counts(0, 0, {Outcome.DONE: 200})


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file of this process may grow beyond 64 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_a_journal_that_cannot_be_made_whole_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError, match="the journal cannot be written"):
        Journal.create(tmp_path, "plan", ({"padding": "x" * 2000} for _ in range(200)))
    assert list(tmp_path.iterdir()) == []


def test_a_fork_may_not_use_the_journal_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal.create(tmp_path, "plan", CASES[:1])
    with Journal.open(tmp_path) as journal:
        with monkeypatch.context() as context:
            context.setattr("os.getpid", lambda: 1)
            with pytest.raises(AssertionError, match="in a fork of the process that opened it"):
                journal.claim()
        assert journal.claim() is not None


def test_the_journal_is_in_wal_mode(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES)
    database = sqlite3.connect(tmp_path / NAME)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
