"""Controllers in Python: the interface, the conformance kit, the three forms of Reno, and errors that end a run."""

import copy
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import plans
from tcpassay import _native, load
from tcpassay.controllers import Ack, Congestion, ControllerError, Established, RecoveryExit, Timeout, View
from tcpassay.controllers.check import checked
from tcpassay.controllers.load import inspect
from tcpassay.controllers.load import load as load_class
from tcpassay.controllers.numbers import Numbers
from tcpassay.substrate import substrate_of
from tcpassay.trust import consent

RENO = plans.REPOSITORY / "plans" / "python" / "reno.py"
TRACE = plans.REPOSITORY / "tests" / "controllers" / "reno.trace"
MSS = 1000
PLAIN = {"stack.abc": "all", "stack.hystart": "off"}
SLOW = {"link.rate": "10Mbit", "link.delay": "10ms", "app.duration": "300ms", "queue.limit": "20KB"}
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}


def source(tmp_path: Path, text: str) -> dict[str, str]:
    """A case whose controller is the class `Mine` of this text."""
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    return SLOW | {"stack.cc": "python:mine.py:Mine"}


def run(case: dict[str, str], base: Path, seed: int = 1) -> Any:
    """A run whose controller is accepted."""
    consent.grant(consent.digest(file.read_bytes()) for file in base.glob("*.py"))
    return _native.run_held(case, seed, str(base), COLLECT)


def trace() -> tuple[list[tuple[View, object]], list[tuple[int, int | None]]]:
    """The events of the trace with what the sender shows, and the answers, in segments."""
    events: list[tuple[View, object]] = []
    answers: list[tuple[int, int | None]] = []
    cwnd = 10 * MSS
    for at, line in enumerate(TRACE.read_text(encoding="utf-8").splitlines()):
        if line.startswith("#"):
            continue
        name, *numbers, window, limit = line.split()
        segments = int(numbers[0]) * MSS if numbers else 0
        events_of = {
            "established": Established(),
            "ack": Ack(segments, segments, round=1),
            "loss": Congestion("loss", cwnd),
            "exit": RecoveryExit(spurious=False),
            "timeout": Timeout(cwnd, again=False),
        }
        event: object = events_of[name]
        events.append((View(at * 1_000_000, MSS, cwnd, flight=8 * MSS), event))
        answers.append((int(window), None if limit == "-" else int(limit)))
        cwnd = exact(events)[-1][0]
    return events, answers


def exact(events: list[tuple[View, object]]) -> list[tuple[int, int | None, int | None]]:
    """The answers of Reno in Rust, in bytes."""
    return _native.play_controller(events, "reno")


def test_reno_in_python_and_in_rust_return_the_windows_of_the_trace() -> None:
    events, answers = trace()
    rust = exact(events)
    python = _native.play_controller(events, "Reno", RENO.read_text(encoding="utf-8"))
    assert python == rust
    assert [(cwnd // MSS, limit and limit // MSS) for cwnd, limit, _ in rust] == answers


def test_reno_in_python_satisfies_the_contract_of_window_based_controllers() -> None:
    found = checked(RENO, "Reno", "window")
    assert found.kept
    assert found.events > 100_000


def test_a_faulty_controller_violates_the_contract() -> None:
    faulty = RENO.read_text(encoding="utf-8").replace("cwnd += view.mss", "cwnd += 3 * view.mss")
    _, violated = _native.check_controller(faulty, "faulty.py", "Reno", "window", 20)
    assert [one[0] for one in violated] == ["GrowthIsEarned"]


def test_reno_in_python_makes_the_same_run_as_reno_in_rust() -> None:
    rust = run(SLOW | PLAIN | {"stack.cc": "reno", "app.flows": "2"}, RENO.parent)
    python = run(SLOW | PLAIN | {"stack.cc": "python:reno.py:Reno", "app.flows": "2"}, RENO.parent)
    assert python.metrics == rust.metrics
    assert python.trace == rust.trace


def test_the_checksum_of_the_file_is_part_of_the_case(tmp_path: Path) -> None:
    case = source(
        tmp_path, "class Mine:\n    def __init__(self, random): pass\n    def on(self, view, event): pass\n"
    )
    said = substrate_of("model").check(case, str(tmp_path))["stack.cc"]
    assert said.startswith("python:mine.py:Mine@")
    (tmp_path / "mine.py").write_text("class Mine: on = print\n", encoding="utf-8")
    with pytest.raises(_native.CaseError) as changed:
        run(SLOW | {"stack.cc": said}, tmp_path)
    assert "has changed" in changed.value.args[0][0][3]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('of mine')", "ValueError: of mine"),
        ("while True: pass", "made 1000000 iterations in one event"),
        ("return [x for x in iter(int, 1)]", "made 1000000 iterations in one event"),
        ("return 7", "`on` returned 7; allowed is a Control or None"),
        ("return Control(0)", "cwnd=0; allowed is 1 to 1099511627776 bytes"),
        ("return Control(-1)", "OverflowError"),
        ("return Control(view.cwnd, pacing_bps=1.5)", "TypeError"),
        ("return self.nothing", "AttributeError"),
    ],
)
def test_a_controller_that_fails_ends_its_run_with_the_traceback(
    body: str, said: str, tmp_path: Path
) -> None:
    text = f"""\
from tcpassay.controllers import Ack, Control

class Mine:
    def __init__(self, random):
        self.random = random

    def on(self, view, event):
        if isinstance(event, Ack):
            {body}
"""
    with pytest.raises(ControllerError) as failed:
        run(source(tmp_path, text), tmp_path)
    message = str(failed.value)
    assert said in message
    if "`on` returned" not in message and "iterations" not in message:
        assert 'File "mine.py", line 9, in on' in message
    # Only frames of the user's code.
    assert "load.py" not in message


def test_the_other_runs_of_a_plan_go_on(tmp_path: Path) -> None:
    source(
        tmp_path,
        "class Mine:\n    def __init__(self, random): pass\n    def on(self, view, event): raise OSError\n",
    )
    (tmp_path / "plan.toml").write_text(
        'name = "two"\noracles = false\n[fixed]\n"app.duration" = "20ms"\n'
        '[axes]\n"stack.cc" = ["reno", "python:mine.py:Mine"]\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    outcomes = {str(one["varied"]["stack.cc"])[:6]: one["outcome"] for one in load(tmp_path / "out").runs}
    assert outcomes == {"reno": "done", "python": "failed"}
    assert (tmp_path / "out" / "inputs" / "mine.py").is_file()
    failed = next(one for one in load(tmp_path / "out").runs if one["outcome"] == "failed")
    assert "OSError" in json.dumps(failed)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("import time\n", ImportError, "cannot import `time`; allowed are __future__, abc,"),
        ("from os import path\n", ImportError, "cannot import `os`"),
        ("from . import mine\n", ImportError, "cannot import `.`"),
        ("class Other: pass\n", NameError, "has no class `Mine`"),
        ("class Mine: pass\n", TypeError, "has no method `on"),
        ("class Mine\n", SyntaxError, "expected ':'"),
    ],
)
def test_a_file_that_cannot_be_a_controller_is_refused(
    text: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    consent.grant_source(text)
    for read in (inspect, partial(load_class, step=lambda: True)):
        with pytest.raises(error, match=r".") as refused:
            read(text, "mine.py", "Mine")
        assert said in str(refused.value)
    with pytest.raises(_native.CaseError) as refused_case:
        _native.check_case(source(tmp_path, text), str(tmp_path))
    assert said in refused_case.value.args[0][0][3]


def test_kernels_refuse_a_controller_in_python() -> None:
    for name in ("kernel", "host"):
        with pytest.raises(_native.CaseError, match=r"runs only on the model"):
            substrate_of(name).check({"stack.cc": "python:reno.py:Reno"}, str(RENO.parent))


def drawn(source: Random, draws: int) -> list[object]:
    """Numbers of all methods on which the others depend."""
    made: list[object] = []
    for _ in range(draws):
        made += [
            source.random(),
            source.getrandbits(70),
            source.gauss(0, 1),
            source.randrange(10),
            source.randbytes(3),
        ]
    return made


def test_numbers_are_those_of_random_and_a_copy_draws_the_same_ones_without_disturbing_the_original() -> None:
    ours, reference = Numbers(5), Random(5)  # noqa: S311 - the reference
    assert drawn(ours, 300) == drawn(reference, 300)
    ours.gauss(0, 1)
    reference.gauss(0, 1)  # an odd number: the generator keeps the second of a pair
    copies = [copy.deepcopy(ours), copy.deepcopy(copy.deepcopy(ours))]
    expected = drawn(reference, 200)
    assert [drawn(one, 200) for one in copies] == [expected, expected]
    assert drawn(ours, 200) == expected
    ours.seed(7)
    copied = copy.deepcopy(ours)
    copied.seed(8)
    assert drawn(ours, 3) == drawn(Numbers(7), 3)
    assert drawn(copied, 3) == drawn(Numbers(8), 3)


def test_random_numbers_follow_from_the_seed(tmp_path: Path) -> None:
    text = """\
from tcpassay.controllers import Ack, Control

class Mine:
    def __init__(self, random):
        self.random = random

    def on(self, view, event):
        if isinstance(event, Ack):
            return Control(view.mss * self.random.randint(2, 20))
"""
    case = source(tmp_path, text)
    first, again, other = (run(case, tmp_path, seed).trace for seed in (1, 1, 2))
    assert first == again != other
