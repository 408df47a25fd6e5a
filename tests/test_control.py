"""A test of real time is skipped for what the control of the machine saw, and for nothing else."""

import pytest

from control import Control, control


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
