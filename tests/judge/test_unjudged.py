"""Which oracles can judge the log of a substrate: an oracle that cannot is named, and never counts as silent."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tcpassay.judge.registry import ORACLES

if TYPE_CHECKING:
    from tcpassay.recording import Recording

TRACED = {"tap_lost": 0, "traced_congestion": 1, "traced_windows": 1, "traced_states": 1}
OF_THE_MODEL = {"receiver", "sender", "nic"}
OF_DECISIONS = {"mutual-silence", "silence-with-losses"}
IN_VIRTUAL_TIME = {"loss-detection", "tail-loss-probe", "idle-with-room", "queue-delay"}
OF_A_CASE = {"ecn", "bounds", "fairness", "latency-tail", "host-limit"}


def unable(substrate: str) -> set[str]:
    made = SimpleNamespace(header={"substrate": substrate}, index={"counters": {"run": TRACED}})
    return {name for name, oracle in ORACLES.items() if oracle.lacks(cast("Recording", made))}


@pytest.mark.parametrize(
    ("substrate", "names"),
    [
        ("model", set()),
        ("kernel", OF_THE_MODEL | OF_DECISIONS),
        ("host", OF_THE_MODEL | IN_VIRTUAL_TIME | OF_DECISIONS),
        ("remote", OF_THE_MODEL | IN_VIRTUAL_TIME | OF_DECISIONS),
        ("capture", OF_THE_MODEL | IN_VIRTUAL_TIME | OF_A_CASE | OF_DECISIONS),
    ],
)
def test_an_oracle_that_cannot_judge_a_substrate_is_named(substrate: str, names: set[str]) -> None:
    assert unable(substrate) == names


def test_oracles_that_suppose_segments_of_one_size_do_not_judge_a_path_that_changes_it() -> None:
    row = {"entity": "", "parameter": "link.mtu", "value": "1400B"}
    header = {"substrate": "model", "case": [row]}
    made = cast("Recording", SimpleNamespace(header=header, index={"counters": {"run": TRACED}}))
    unable = {name: why for name, oracle in ORACLES.items() if (why := oracle.lacks(made))}
    of_one_size = {
        "segment-contents",
        "window-growth",
        "window-reduction",
        "loss-detection",
        "sender",
    }
    assert set(unable) == of_one_size
    assert set(unable.values()) == {"with `link.mtu` the size of segments changes during a connection"}


def test_every_oracle_can_judge_the_model() -> None:
    assert all(oracle.setting in {"any", "case", "virtual-time", "model"} for oracle in ORACLES.values())
