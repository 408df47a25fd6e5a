"""Figures: from recordings alone, the same bytes each time, and they show what the data say."""

import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import made
from tcpassay.figures import kinds, style
from tcpassay.figures.data import Recording, seconds
from tcpassay.plan import model

TIMELINE = model.Timeline(
    kind="timeline", file="t", title="A title", series=["throughput", "rtt", "cwnd", "queue"]
)
SEQUENCE = model.Sequence(kind="sequence", file="s", stall="150ms")
DISTRIBUTION = model.Distribution(kind="distribution", file="d")


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.recording(tmp_path_factory.mktemp("made") / "stalled", stalls=True, drops=3)


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.recording(tmp_path_factory.mktemp("made") / "steady", stalls=False)


@pytest.mark.parametrize("figure", [TIMELINE, SEQUENCE, DISTRIBUTION], ids=lambda figure: figure.kind)
def test_equal_recordings_make_equal_files_of_svg_and_png(
    figure: model.Figure, stalled: Path, steady: Path
) -> None:
    shown = [("with stalls", stalled), ("without", steady)]
    files = kinds.draw(figure, shown)
    assert files == kinds.draw(figure, shown)
    ET.fromstring(files["svg"])  # noqa: S314 - our own
    assert files["png"].startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", files["png"][16:24])
    assert width >= 900
    assert height >= 400


def test_the_date_of_drawing_is_in_no_file(steady: Path) -> None:
    svg = kinds.draw(DISTRIBUTION, [("", steady)])["svg"].decode()
    assert "dc:date" not in svg


def test_throughput_is_the_bits_of_each_interval_and_is_zero_in_a_stall(stalled: Path) -> None:
    time, bits = Recording(stalled).throughput()
    assert time[1] == pytest.approx(0.01)
    assert bits[:25].min() > 1.9e9
    assert bits[25:45].max() == 0.0
    assert bits[45] > 1.9e9


def test_each_stall_is_annotated_with_its_length(stalled: Path) -> None:
    with style.styled():
        drawn = kinds.sequence(SEQUENCE, [("", Recording(stalled))])
        texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts[:-1] == ["201 ms"] * 4
    assert texts[-1] == "4 stalls, 4 retransmissions, 3 packets dropped"


def test_what_is_sent_again_is_told_from_what_is_sent_first(stalled: Path) -> None:
    _, position, again = Recording(stalled).sent()
    assert again.sum() == 4
    first = position[~again]
    assert (np.diff(first) > 0).all()


def test_a_timeline_counts_timeouts_and_drops(stalled: Path, steady: Path) -> None:
    assert kinds.counted(Recording(stalled)) == "4 timeouts, 3 packets dropped"
    assert kinds.counted(Recording(steady)) == "no timeouts, no packets dropped"


def test_a_distribution_ends_at_all_samples(steady: Path) -> None:
    values, share = Recording(steady).rtt_distribution()
    assert share[-1] == 1.0
    assert (np.diff(values) > 0).all()


def test_lengths_of_time_are_read_with_their_units() -> None:
    assert [seconds(text) for text in ("10ms", "1.5us", "2s", "1min")] == [0.01, 1.5e-6, 2.0, 60.0]


def test_every_axis_of_every_figure_has_a_label_with_its_unit(stalled: Path) -> None:
    with style.styled():
        for draw, figure in (
            (kinds.timeline, TIMELINE),
            (kinds.sequence, SEQUENCE),
            (kinds.distribution, DISTRIBUTION),
        ):
            axes = draw(figure, [("", Recording(stalled))]).axes
            assert all("(" in a.get_ylabel() for a in axes)
            assert "(" in axes[-1].get_xlabel()
