"""A test in real time is skipped only if the observation of the machine shows a disturbance."""

import contextlib
from collections.abc import Iterator

import pytest

import control as module
from control import Control, control, passes


def test_a_run_that_fails_on_a_machine_that_had_time_is_a_failure_and_no_skip() -> None:
    with pytest.raises(AssertionError, match=r"the machine had time .*, but: the path is too slow"):
        Control(late_s=0.0049, others=0.24).skip_if_disturbed("the path is too slow")


@pytest.mark.parametrize("seen", [Control(late_s=0.0051), Control(others=0.26)])
def test_a_machine_that_was_late_or_that_others_used_is_a_reason_to_skip(seen: Control) -> None:
    with pytest.raises(pytest.skip.Exception, match="the machine had no time"):
        seen.skip_if_disturbed("the path is too slow")


def test_the_work_of_the_test_itself_is_no_disturbance_by_others() -> None:
    with control([]) as seen:
        sum(range(3_000_000))
    assert 0 <= seen.others <= 1
    assert seen.late_s > 0


def passing(monkeypatch: pytest.MonkeyPatch, results: list[int], *, disturbed: bool) -> int:
    """`passes` over these results, of which 1 is right, with a control that saw a disturbance or none."""

    @contextlib.contextmanager
    def seen(_: list[int]) -> Iterator[Control]:
        yield Control(late_s=1.0 if disturbed else 0.0)

    def expect(made: int) -> None:
        assert made == 1

    monkeypatch.setattr(module, "control", seen)
    return passes(lambda attempt: results[attempt], expect)


def test_on_a_disturbed_machine_an_assertion_that_holds_is_not_skipped_and_one_that_fails_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert passing(monkeypatch, [0, 1], disturbed=True) == 1


def test_on_an_undisturbed_machine_an_assertion_that_fails_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(AssertionError):
        passing(monkeypatch, [0, 1], disturbed=False)


def test_what_holds_in_no_attempt_on_a_disturbed_machine_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match="no time in 4 attempts"):
        passing(monkeypatch, [0, 0, 0, 0], disturbed=True)
