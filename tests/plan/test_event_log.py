"""The note about event logs that do not fit into the memory of a run."""

from pathlib import Path

import pytest

from tcpassay.plan.read import read

TEXT = """\
name = "long"
oracles = {oracles}
[fixed]
"app.duration" = "{duration}"
"link.rate" = "10Gbit"
{more}
[axes]
"stack.cc" = ["reno", "cubic"]
[collect]
events = {events}
[limits]
case_memory = "{memory}"
"""


def notes(
    duration: str = "60s", events: str = "true", oracles: str = "false", memory: str = "4GiB", more: str = ""
) -> list[str]:
    text = TEXT.format(duration=duration, events=events, oracles=oracles, memory=memory, more=more)
    return [note for note in read(text, Path("plan.toml")).notes if "event logs" in note]


def test_a_run_of_60_s_at_10_gbit_with_events_has_an_estimate_when_it_is_planned() -> None:
    (note,) = notes()
    # 75 GB are 51.8 million segments of 1,448 bytes, each with 600 bytes of the log.
    assert "the event logs of 2 of 2 cases may need more than `limits.case_memory` = `4GiB`" in note
    assert "up to about 31.1 GB (10Gbit for 60s, 600 bytes for a segment)" in note
    assert "`events = false` in [collect] and `oracles = false`" in note


def test_oracles_read_the_log_too() -> None:
    assert len(notes(events="false", oracles="true")) == 1
    assert len(notes(events="false", oracles='["late-ack"]')) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"events": "false"},
        {"duration": "8s"},
        {"memory": "64GiB"},
        {"more": '"app.flow_size" = "1MB"'},
        {"more": '"app.workload" = "rpc"'},
    ],
)
def test_without_a_log_or_with_enough_memory_there_is_no_note(given: dict[str, str]) -> None:
    assert notes(**given) == []
