"""Which oracles can judge the log of a substrate: an oracle that cannot is named, and never counts as silent."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tcpassay.judge.registry import ORACLES

if TYPE_CHECKING:
    from tcpassay.recording import Recording

TRACED = {"tap_lost": 0, "traced_congestion": 1, "traced_windows": 1, "traced_states": 1}
OF_THE_MODEL = {"receiver", "sender", "nic"}
IN_VIRTUAL_TIME = {"loss-detection", "tail-loss-probe", "idle-with-room", "queue-delay"}
OF_A_CASE = {"ecn", "bounds", "fairness", "latency-tail"}


def unable(substrate: str) -> set[str]:
    made = SimpleNamespace(header={"substrate": substrate}, index={"counters": {"run": TRACED}})
    return {name for name, oracle in ORACLES.items() if oracle.lacks(cast("Recording", made))}


@pytest.mark.parametrize(
    ("substrate", "names"),
    [
        ("model", set()),
        ("kernel", OF_THE_MODEL | {"mutual-silence"}),
        ("host", OF_THE_MODEL | IN_VIRTUAL_TIME | {"mutual-silence"}),
        ("remote", OF_THE_MODEL | IN_VIRTUAL_TIME | {"mutual-silence"}),
        ("capture", OF_THE_MODEL | IN_VIRTUAL_TIME | OF_A_CASE | {"mutual-silence"}),
    ],
)
def test_an_oracle_that_cannot_judge_a_substrate_is_named(substrate: str, names: set[str]) -> None:
    assert unable(substrate) == names


def test_every_oracle_can_judge_the_model() -> None:
    assert all(oracle.setting in {"any", "case", "virtual-time", "model"} for oracle in ORACLES.values())
