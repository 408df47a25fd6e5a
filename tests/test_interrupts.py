"""A long command that is interrupted prints what it has, and ends with exit code 130."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.guard import took_all
from tcpassay.script import batch
from tcpassay.script.results import Result
from tcpassay.trees.bisect import Line, bisect


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture
def hangups() -> Iterator[None]:
    """SIGHUP ends a process, also where the tests were started so that it is ignored (`nohup`)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_came_before_an_interrupt_is_kept(number: int) -> None:
    def values() -> Iterator[int]:
        yield 1
        yield 2
        interrupt(number)
        yield 3

    came: list[int] = []
    assert not took_all(values(), came.append)
    assert came == [1, 2]
    assert took_all(iter([4]), came.append)
    assert came == [1, 2, 4]


def test_a_bisection_that_is_interrupted_has_its_steps_and_the_states_that_are_left() -> None:
    def observe(state: str) -> str:
        if state == "d":
            interrupt()
        return "old" if state < "f" else "new"

    found = bisect(Line(["a", "b", "c", "d", "e", "f", "g"]), observe)
    assert found.interrupted
    assert [(step.state, step.kind) for step in found.steps] == [("a", "good"), ("g", "bad")]
    assert found.first == ("d", "c", "e", "b", "f", "g")
    assert found.as_json()["interrupted"] is True


def test_a_bisection_that_is_interrupted_at_its_first_state_knows_nothing() -> None:
    found = bisect(Line(["a", "b", "c"]), lambda _: str(interrupt()))
    assert (found.interrupted, found.steps, found.first) == (True, [], ())


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",)])
def test_scripts_that_ended_before_an_interrupt_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    run: Callable[..., Iterator[Result]] = batch.run

    def interrupted(files: list[Path], wanted: object) -> Iterator[Result]:
        yield from run(files[:1], wanted)
        interrupt()

    monkeypatch.setattr(batch, "run", interrupted)
    text = "// profile: linux\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"
    for name in ("one.pkt", "two.pkt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["script", *form, str(tmp_path / "one.pkt"), str(tmp_path / "two.pkt")])
    assert done.exit_code == 130
    assert "interrupted: further scripts were not run" in done.output
    assert "one.pkt" in done.output
    assert "two.pkt" not in done.output
