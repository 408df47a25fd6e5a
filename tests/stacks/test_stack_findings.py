"""What the oracles find in TCPs of others, with the scenes of plans/stacks.toml, and do not find in the model."""

import json

import pytest

from tcpassay import _native
from tcpassay.stacks import build

COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}
PATH = {"link.rate": "20Mbit", "link.delay": "10ms", "app.duration": "60s"}
LOST_SYNS = {
    "app.workload": "rpc",
    "app.reuse": False,
    "app.flows": 8,
    "app.request": "500B",
    "app.response": "500B",
    "app.duration": "120s",
    "link.loss": "50%",
}
HOLES = {"link.loss_model": "list:40,42,44,46,48,50,52,54,56,58", "app.flow_size": "150KB"}
SMALL_MSS = {"receiver/stack.mss": "300B", "app.flow_size": "10KB"}
PAUSES = {"app.workload": "onoff", "app.burst": "300KB", "app.gap": "20s", "app.duration": "50s"}


def found(oracle: str, scene: dict[str, bool | float | str]) -> list[str]:
    """The texts of the findings of an oracle in a run."""
    ran = _native.run_held(triples=PATH | scene, seed=1, base=".", collect=COLLECT)
    return [one["text"] for one in json.loads(ran.judged([oracle]))]


@pytest.mark.parametrize(
    ("stack", "host", "oracle", "scene", "text"),
    [
        ("smoltcp", "receiver", "ack-timing", HOLES, "received data out of order"),
        ("smoltcp", "sender", "restart-window", PAUSES, "more than a restart window of 14600"),
        ("lwip", "sender", "restart-window", PAUSES, "more than a restart window of 14600"),
        ("pytcp", "sender", "segment-above-mss", SMALL_MSS, "the MSS of its peer is 300"),
        ("lwip", "sender", "syn-back-off", LOST_SYNS, "the 3 intervals are 2750 ms to 3000 ms"),
    ],
)
def test_a_fault_is_found_in_a_tcp_that_has_it_and_not_in_the_model(
    stack: str, host: str, oracle: str, scene: dict[str, bool | float | str], text: str
) -> None:
    assert found(oracle, scene) == []
    if stack in build.RECIPES and not build.is_built(stack):
        pytest.skip(f"{stack} is not built: tcpassay stack build {stack}")
    texts = found(oracle, scene | {f"{host}/stack.implementation": stack})
    assert texts
    assert text in texts[0]
