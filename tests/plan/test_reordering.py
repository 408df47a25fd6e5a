"""Jitter that reorders is named when the plan is read."""

from pathlib import Path

import pytest

from tcpassay.plan import read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # A packet of 1500 bytes takes 600 us at 20 Mbit/s, and 120 us at 100 Mbit/s.
        ('"link.rate" = "20Mbit"\n"link.jitter" = "100us"', ""),
        (
            '"link.rate" = "100Mbit"\n"link.jitter" = "100us"',
            (
                "`link.jitter` = `100us` reorders packets: twice the jitter is longer than the 120 us in which "
                "`link.rate` = `100Mbit` sends a packet of 1500 bytes; so in each case"
            ),
        ),
        ('"link.rate" = "100Mbit"\n"link.jitter" = "60us"', ""),
        ('"link.rate" = "20Mbit"\n"link.jitter" = "100us"\n"stack.mss" = "400B"', "the 176 us in which"),
        ('"link.jitter" = "10us"', "the 12 us in which `link.rate` = `1Gbit`"),
        ('"link.rate" = "100Mbit"\n"link.jitter" = "0s"', ""),
        ('"link.rate" = "steps:0,100Mbit;5,10Mbit"\n"link.jitter" = "1ms"', ""),
    ],
)
def test_a_jitter_longer_than_half_a_packet_is_said_to_reorder(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(f'name = "p"\n[fixed]\n"link.delay" = "10ms"\n{text}\n', encoding="utf-8")
    notes = [note for note in read.read_file(file).notes if "reorders" in note]
    assert len(notes) == bool(said)
    assert said in "".join(notes)


def test_the_number_of_cases_is_said(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    fixed = '[fixed]\n"link.delay" = "10ms"\n"link.jitter" = "100us"\n'
    text = f'name = "p"\n{fixed}[axes]\n"link.rate" = ["1Mbit", "100Mbit", "1Gbit"]\n'
    file.write_text(text, encoding="utf-8")
    (note,) = [note for note in read.read_file(file).notes if "reorders" in note]
    assert "so in 2 of 3 cases" in note
