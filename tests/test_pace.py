"""Progress without a terminal: a line every half minute."""

import io

import pytest
from rich.console import Console

from tcpassay.pace import Pace, Working


@pytest.mark.parametrize(("terminal", "expected"), [(False, ["step 1", "step 3"]), (True, [])])
def test_a_line_is_printed_every_half_minute_and_never_on_a_terminal(
    *, terminal: bool, expected: list[str]
) -> None:
    clock = {"now": 0.0}
    out = io.StringIO()
    pace = Pace(Console(file=out, force_terminal=terminal), lambda: clock["now"])
    for time, text in ((31.0, "step 1"), (40.0, "step 2"), (62.0, "step 3")):
        clock["now"] = time
        pace.say(text.strip)
    assert out.getvalue().splitlines() == expected


def test_short_work_says_nothing_without_a_terminal() -> None:
    out = io.StringIO()
    with Working(Console(file=out), "Isolating") as working:
        working.update("4 of 9")
    assert out.getvalue() == ""
