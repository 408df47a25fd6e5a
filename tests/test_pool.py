"""The pool of worker processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tcpassay.messages import METRICS_ONLY, Answer, CaseRequest
from tcpassay.run import pool
from tcpassay.run.pool import Limits, Pool

LIMITS = Limits()
REAL_WORKER = pool.WORKER

# A worker that runs no case: the substrate of the request selects its action; the answer's message is its output.
FAKE = """
import json, os, signal, sys, time
from tcpassay.run import message
from tcpassay.messages import Answer
for request in message.receive(sys.stdin.buffer):
    do = request.substrate
    if do == "die":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if do == "leave":
        sys.exit(3)
    if do == "wait":
        time.sleep(3600)
    said = {"did": do, "pid": os.getpid(), "tunables": os.environ.get("GLIBC_TUNABLES")}
    if do == "fill":
        kept = [bytes(100_000) for _ in range(200)]
        _, *maps = open("/proc/self/smaps").read().split("[heap]")
        said["flags"] = [flag for one in maps for flag in one.partition("VmFlags:")[2].splitlines()[0].split()]
    answer = Answer("done", json.dumps(said))
    sys.stdout.buffer.write(message.pack(message.Reply(answer, os.fstat(2).st_size)))
    sys.stdout.flush()
"""
# A worker that exits immediately and prints the environment of its child processes.
ENDED = """
import io, os, sys
from tcpassay.run import worker
sys.argv = ["worker", str(os.getppid())]
sys.stdin = io.TextIOWrapper(io.BytesIO())
worker.main()
print(os.environ.get("GLIBC_TUNABLES"), file=sys.stderr)
"""
# The digest of a run.
DIGEST = """
from tcpassay import _native
triples = {"app.flows": 20, "app.duration": "30ms", "link.loss": "0.1%"}
collect = {"series": "1ms", "warmup": "0s", "deliveries": True, "events": False, "packets": False}
print(_native.run_held(triples, 1, "/", collect).digest())
"""
HUGE = "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=33554432:glibc.malloc.mmap_threshold=33554432"


def with_tunables(program: str, tunables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"GLIBC_TUNABLES": tunables},
        check=True,
        capture_output=True,
        text=True,
    )


@pytest.fixture(autouse=True)
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", ["-c", FAKE])


def request(do: str) -> CaseRequest:
    return CaseRequest(substrate=do, collect={})


def said(answer: Answer) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(answer.message) if answer.outcome == "done" else {}
    return made


def run(*what: str, jobs: int = 2) -> list[Answer]:
    answers = dict(chain.from_iterable(Pool(jobs, LIMITS).run(map(request, what))))
    assert sorted(answers) == list(range(len(what)))
    return [answers[index] for index in range(len(what))]


def test_every_request_is_answered_once_by_no_more_processes_than_jobs() -> None:
    answers = [said(answer) for answer in run(*(f"case {n}" for n in range(50)), jobs=3)]
    assert [answer["did"] for answer in answers] == [f"case {n}" for n in range(50)]
    assert len({answer["pid"] for answer in answers}) <= 3


def test_a_worker_that_dies_costs_its_own_case_and_no_other() -> None:
    answers = run("a", "die", "b", "die", "c", "d")
    assert [said(answer).get("did") for answer in answers] == ["a", None, "b", None, "c", "d"]
    assert answers[1].outcome == "crashed"
    assert "signal SIGSEGV" in answers[1].message
    assert "last words" in answers[1].message


def test_a_worker_has_huge_pages_unless_the_user_sets_glibc_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert said(run("a", jobs=1)[0])["tunables"] == HUGE
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
    assert said(run("a", jobs=1)[0])["tunables"] == "glibc.malloc.tcache_count=0"


def test_the_memory_of_a_worker_is_advised_to_be_of_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if library != "glibc" or [int(part) for part in version.split(".")] < [2, 35]:
        pytest.skip(f"the C library is {library or 'unknown'} {version}, glibc 2.35 can be told")
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[madvise]" not in enabled.read_text(encoding="ascii"):
        pytest.skip("this kernel gives huge pages to everybody or to nobody")
    flags = said(run("fill", jobs=1)[0])["flags"]
    assert isinstance(flags, list)
    assert "hg" in flags


def test_what_a_worker_starts_does_not_inherit_its_huge_pages() -> None:
    assert with_tunables(ENDED, HUGE).stderr == "None\n"
    assert with_tunables(ENDED, "glibc.malloc.tcache_count=0").stderr == "glibc.malloc.tcache_count=0\n"


def test_a_run_has_the_same_recording_with_huge_pages_and_without() -> None:
    assert with_tunables(DIGEST, HUGE).stdout == with_tunables(DIGEST, "").stdout != ""


def test_a_file_in_the_working_folder_does_not_replace_a_module_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "types.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "WORKER", REAL_WORKER)
    wanted = CaseRequest(substrate="model", collect=METRICS_ONLY, triples={"app.duration": "1ms"})
    (answer,) = dict(chain.from_iterable(Pool(1, LIMITS).run([wanted]))).values()
    assert (answer.outcome, answer.message) == ("done", "")


def test_a_worker_that_leaves_early_is_reported_with_its_exit_code() -> None:
    (answer,) = run("leave", jobs=1)
    assert (answer.outcome, answer.message) == (
        "crashed",
        "the process running it ended with exit code 3",
    )


def test_no_request_is_no_process() -> None:
    assert run() == []


def test_closing_the_run_ends_the_processes_at_once() -> None:
    started = time.monotonic()
    with contextlib.closing(Pool(2, LIMITS).run([request("a"), request("wait")])) as answers:
        ((_, answer),) = next(answers)
    assert time.monotonic() - started < 600
    with pytest.raises(ProcessLookupError):
        os.kill(int(said(answer)["pid"]), signal.SIGCONT)
