"""The pool of worker processes."""

import contextlib
import os
import signal
import time
from itertools import chain

import pytest

from tcpassay.run import pool
from tcpassay.run.pool import Limits, Pool

LIMITS = Limits()

# A worker that runs no case: what it does is in the request's name.
FAKE = """
import json, os, signal, sys, time
for line in sys.stdin:
    do = json.loads(line)["do"]
    if do == "die":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if do == "leave":
        sys.exit(3)
    if do == "wait":
        time.sleep(600)
    print(json.dumps({"did": do, "pid": os.getpid()}), flush=True)
"""


@pytest.fixture(autouse=True)
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", ["-c", FAKE])


def run(*what: str, jobs: int = 2) -> list[dict[str, object]]:
    answers = dict(chain.from_iterable(Pool(jobs, LIMITS).run([{"do": do} for do in what])))
    assert sorted(answers) == list(range(len(what)))
    return [answers[index] for index in range(len(what))]


def test_every_request_is_answered_once_by_no_more_processes_than_jobs() -> None:
    answers = run(*(f"case {n}" for n in range(50)), jobs=3)
    assert [answer["did"] for answer in answers] == [f"case {n}" for n in range(50)]
    assert len({answer["pid"] for answer in answers}) <= 3


def test_a_worker_that_dies_costs_its_own_case_and_no_other() -> None:
    answers = run("a", "die", "b", "die", "c", "d")
    assert [answer.get("did") for answer in answers] == ["a", None, "b", None, "c", "d"]
    assert answers[1]["outcome"] == "crashed"
    assert "signal SIGSEGV" in str(answers[1]["message"])
    assert "last words" in str(answers[1]["message"])


def test_a_worker_that_leaves_early_is_told_with_its_exit_code() -> None:
    (answer,) = run("leave", jobs=1)
    assert (answer["outcome"], answer["message"]) == (
        "crashed",
        "the process running it ended with exit code 3",
    )


def test_no_request_is_no_process() -> None:
    assert run() == []


def test_closing_the_run_ends_the_processes_at_once() -> None:
    started = time.monotonic()
    with contextlib.closing(Pool(2, LIMITS).run([{"do": "a"}, {"do": "wait"}])) as answers:
        ((_, answer),) = next(answers)
    assert time.monotonic() - started < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int(answer["pid"]), signal.SIGCONT)
