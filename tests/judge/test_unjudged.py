"""Which oracles can judge the log of a substrate: an oracle that cannot is named, and never counts as silent."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tcpassay.judge.registry import ORACLES

if TYPE_CHECKING:
    from tcpassay.recording import Recording

TRACED = {"tap_lost": 0, "traced_congestion": 1, "traced_windows": 1, "traced_states": 1}
OF_DECISIONS = {"mutual-silence", "silence-with-losses"}
IN_VIRTUAL_TIME = {"loss-detection", "tail-loss-probe", "idle-with-room", "queue-delay", "follow"}
OF_A_CASE = {"ecn", "bounds", "fairness", "latency-tail", "host-limit"}


def made(substrate: str, *, packets: bool = True, **header: object) -> "Recording":
    header = {"substrate": substrate, "case": [], **header}
    if substrate == "kernel":
        rest = {
            "version": "0",
            "seed": 1,
            "replay": None,
            "duration_ns": 1,
            "complete": True,
            "bottleneck": None,
        }
        header = {"system": "6.1.192-tcpassay", **rest, **header}
    index = {"counters": {"run": TRACED}}
    return cast(
        "Recording",
        SimpleNamespace(header=header, index=index, holds=lambda _file: packets, folder="."),
    )


def unable(substrate: str) -> set[str]:
    return {name for name, oracle in ORACLES.items() if oracle.lacks(made(substrate))}


def test_a_kernel_without_packets_or_without_a_profile_is_not_followed() -> None:
    follow = ORACLES["follow"]
    assert follow.lacks(made("kernel")) == ""
    assert "has no packets" in follow.lacks(made("kernel", packets=False))
    assert follow.lacks(made("kernel", system="7.4.1")) == "the model has no profile of Linux 7.4.1"
    assert follow.lacks(made("kernel", system="7.3.1")) == ""
    unmeasured = "profile linux-4.6 was not compared with a kernel; `tcpassay follow` prints its differences"
    assert follow.lacks(made("kernel", system="4.6.7")) == unmeasured


@pytest.mark.parametrize(
    ("substrate", "names"),
    [
        ("model", {"tail-loss-probe"}),
        ("kernel", OF_DECISIONS),
        ("host", IN_VIRTUAL_TIME | OF_DECISIONS),
        ("remote", IN_VIRTUAL_TIME | OF_DECISIONS),
        ("capture", IN_VIRTUAL_TIME | OF_A_CASE | OF_DECISIONS),
    ],
)
def test_an_oracle_that_cannot_judge_a_substrate_is_named(substrate: str, names: set[str]) -> None:
    assert unable(substrate) == names


def test_oracles_that_suppose_segments_of_one_size_do_not_judge_a_path_that_changes_it() -> None:
    row = {"entity": "", "parameter": "link.mtu", "value": "1400B"}
    changing = made("model", case=[row])
    unable = {name: why for name, oracle in ORACLES.items() if "size" in (why := oracle.lacks(changing))}
    of_one_size = {
        "segment-contents",
        "window-growth",
        "window-reduction",
        "loss-detection",
    }
    assert set(unable) == of_one_size
    assert set(unable.values()) == {"with `link.mtu` the size of segments changes during a connection"}


def test_a_tcp_that_shows_its_timer_is_not_said_to_log_none() -> None:
    silence = ORACLES["mutual-silence"]
    shown = made("model", stacks=[{"name": "tiny", "shows": ["timer"]}])
    assert silence.lacks(shown) == "tiny shows its retransmission timer, but not each of its timers"
    assert silence.lacks(made("model", stacks=[{"name": "tiny"}])) == (
        "the log of tiny has no `timer_set` and `timer_fire`"
    )
