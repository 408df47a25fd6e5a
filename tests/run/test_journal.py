"""The journal: no case is lost or repeated, whichever process dies at any time."""

import gc
import hashlib
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

from patience import SAFETY_NET_S, until
from tcpassay.errors import UserError
from tcpassay.messages import Outcome
from tcpassay.run.journal import NAME, Counts, Journal, JournalError, NoSpaceError

WORKER = Path(__file__).with_name("journal_worker.py")
CASES = [{"stack.cc": "reno", "n": n} for n in range(200)]


class Process:
    """A process started by a test: it prints lines, and continues after a signal of the test."""

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def said(self, line: str) -> None:
        """Waits until the process prints this line."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{line}\n"

    def go_on(self, lines: int = 1) -> None:
        """Lets the process pass `lines` stops."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n" * lines)
        self._process.stdin.flush()

    def end(self) -> None:
        """Lets the process continue without further stops until it ends."""
        self._process.communicate(timeout=SAFETY_NET_S)
        assert self._process.returncode == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=SAFETY_NET_S)
        assert self._process.returncode == -signal.SIGKILL


def start(folder: Path, log: Path) -> Process:
    process = Process(WORKER, folder, log)
    process.said("ready")
    return process


def begun(log: Path) -> list[int]:
    """The cases that the processes with this log started; the last line may be incomplete."""
    text = log.read_text() if log.exists() else ""
    return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def results(folder: Path) -> list[tuple[int, object, Outcome | None, object]]:
    with Journal.open(folder) as journal:
        return [(e.number, e.case, e.outcome, e.payload) for e in journal.entries()]


def undisturbed(folder: Path) -> list[tuple[int, object, Outcome | None, object]]:
    """The result of an uninterrupted worker."""
    folder.mkdir()
    Journal.create(folder, "plan", CASES)
    start(folder, folder / "log").end()
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
        "stack",
        "hung",
        "path",
        "unsupported",
        "refused",
    ]


def test_a_run_killed_twenty_times_has_the_result_of_an_uninterrupted_run(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "calm")
    folder, log = tmp_path / "wild", tmp_path / "wild.log"
    folder.mkdir()
    Journal.create(folder, "plan", CASES)
    rng = random.Random(20260704)  # noqa: S311
    interrupted = 0
    finished: set[int] = set()
    before = 0
    for kill in range(20):
        process = start(folder, log)
        # At most eight cases each time, so that some are left for the last.
        most = rng.randint(0, 8)
        process.go_on(most)
        if kill % 2:  # in the middle of a case
            until(lambda: len(begun(log)) > before + most, "one more case than can be finished is begun")  # noqa: B023
        else:  # at any point
            time.sleep(rng.uniform(0, 0.01))
        process.kill()
        now = begun(log)[before:]
        assert not finished & set(now), "a finished case was begun again"
        finished = {number for number, _, outcome, _ in results(folder) if outcome is not None}
        assert len(set(now) - finished) <= 1, "more was lost than the one case that the process died in"
        interrupted += len(set(now) - finished)
        before += len(now)
    assert interrupted >= 10
    start(folder, log).end()
    assert results(folder) == expected
    assert set(begun(log)) == set(range(200))
    assert [path.name for path in folder.iterdir()] == [NAME]


# Both of these say `here` before the case with the number that is asked for, and when they are done.
STOPS = """\
import sys; from pathlib import Path; from tcpassay.run.journal import Journal
folder, stop = Path(sys.argv[1]), int(sys.argv[2])
def here():
    print("here", flush=True)
    sys.stdin.readline()
def cases():
    for n in range(20_000):
        if n == stop:
            here()
        yield {"n": n}
"""
MAKES = STOPS + "Journal.create(folder, 'plan', cases())\nhere()\n"
CHANGES = STOPS + "Journal.open(folder).replan('new', cases(), None, {'text': 'new'})\nhere()\n"
NEVER = -1


def killed_at(script: str, folder: Path, stop: int, seconds: float | None = None) -> None:
    """Kills the script where it stops, or some time after that."""
    process = Process("-c", script, folder, str(stop))
    process.said("here")
    if seconds is not None:
        process.go_on()
        time.sleep(seconds)
    process.kill()


# Between cases, at any time between the last case and the end, and after the end.
KILLS = [(0, None), (10_000, None), (19_999, None), *((19_999, n / 500) for n in range(6)), (NEVER, None)]


@pytest.mark.parametrize(("stop", "seconds"), KILLS)
def test_a_kill_while_the_journal_is_made_leaves_no_journal_or_a_whole_one(
    tmp_path: Path, stop: int, seconds: float | None
) -> None:
    killed_at(MAKES, tmp_path, stop, seconds)
    made = (tmp_path / NAME).exists()
    assert seconds is not None or made == (stop == NEVER)
    if made:
        with Journal.open(tmp_path, "plan") as journal:
            assert journal.counts() == Counts(waiting=20_000, running=0, finished={})


def test_two_processes_share_the_cases_and_run_none_twice(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "calm")
    folder = tmp_path / "shared"
    folder.mkdir()
    Journal.create(folder, "plan", CASES)
    logs = [tmp_path / "a", tmp_path / "b"]
    processes = [start(folder, log) for log in logs]
    for process in processes:
        process.go_on(60)
    until(lambda: all(len(begun(log)) == 61 for log in logs), "both finish sixty and begin one more")
    for process in processes:
        process.end()
    traces = [begun(log) for log in logs]
    assert sorted(traces[0] + traces[1]) == list(range(200))
    assert results(folder) == expected


def test_a_survivor_takes_over_the_case_of_a_process_that_died(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:3])
    process = start(tmp_path, tmp_path / "log")
    with Journal.open(tmp_path) as journal:
        until(lambda: begun(tmp_path / "log"), "the other has a case")
        claims = [journal.claim(), journal.claim()]
        assert journal.counts().running == 3
        # The other process is alive, so it keeps its case.
        assert journal.claim() is None
        process.kill()
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
    """Calls the function with an interrupt before the `at`-th executed line; returns whether it was reached."""
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
    # An interrupt in a callback of the garbage collector, as of hypothesis, is printed and ignored.
    gc.disable()
    sys.settrace(step)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
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
        # The successful claim, and claims whose transaction had ended before the interrupt.
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


@pytest.mark.parametrize(("stop", "seconds"), KILLS)
def test_a_kill_while_the_plan_is_changed_leaves_the_old_one_or_the_new(
    tmp_path: Path, stop: int, seconds: float | None
) -> None:
    Journal.create(tmp_path, "old", ({"n": n} for n in range(200)), notes={"text": "old"})
    killed_at(CHANGES, tmp_path, stop, seconds)
    with Journal.open(tmp_path) as journal:
        found = (journal.plan, journal.notes["text"], journal.counts().waiting)
    old, new = ("old", "old", 200), ("new", "new", 20_000)
    assert found in ({old, new} if seconds is not None else {new if stop == NEVER else old})


def test_a_living_process_with_the_same_journal_is_counted_and_a_dead_one_is_not(tmp_path: Path) -> None:
    Journal.create(tmp_path, "plan", CASES[:3])
    process = start(tmp_path, tmp_path / "log")
    with Journal.open(tmp_path) as journal:
        assert journal.others() == 1
        process.kill()
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
        # Digits of a hash, which no compression makes shorter than half.
        padding = "".join(hashlib.sha512(f"{claim.number} {n}".encode()).hexdigest() for n in range(16))
        journal.finish(claim, Outcome.DONE, {"padding": padding})
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
        "import hashlib, shutil, sys; from pathlib import Path\n"
        "from tcpassay.messages import Outcome\n"
        "from tcpassay.run.journal import Journal, NoSpaceError\n"
        "folder = Path(sys.argv[1]); Journal.create(folder, 'plan', ({'n': n} for n in range(200)))\n"
        "try:\n"
        "    with Journal.open(folder) as journal:\n"
        "        while (claim := journal.claim()) is not None:\n"
        "            padding = ''.join(hashlib.sha512(f'{claim.number} {n}'.encode()).hexdigest() for n in range(16))\n"
        "            journal.finish(claim, Outcome.DONE, {'padding': padding})\n"
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
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SAFETY_NET_S)
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
