"""Interrupt coalescing and rings of test interfaces: a device that has none is named."""

from pathlib import Path

import pytest

import testbeds
from beds import PLAN, plan, tcpassay


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('"nic.ring" = 512', "ring rx of `eth1`: "),
        ('"nic.rx_usecs" = "50us"', "rx-usecs of `eth1`: "),
        ('"nic.rx_frames" = 32', "rx-frames of `eth1`: "),
        ('"nic.adaptive" = "on"', "adaptive-rx of `eth1`: "),
        ('"receiver/nic.ring" = 512', "host `gamma` of the testbed: ring rx of `eth1`: "),
        (
            '"nic.adaptive" = "hidden"',
            "no setting of the hardware has such a rule; the model and a guest have it",
        ),
        ('"nic.rx_usecs" = "1500ns"', "ethtool counts whole microseconds"),
    ],
)
def test_a_device_without_the_hardware_is_named_before_anything_runs(
    testbed: testbeds.Testbed, tmp_path: Path, setting: str, words: str
) -> None:
    before = testbed.states()
    file = plan(testbed, tmp_path, "1s", PLAN.replace("[collect]", f"{setting}\n[collect]"))
    done = tcpassay(testbed, "run", str(file), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
    assert testbed.states() == before
