"""Figures: they are drawn from recordings alone, with identical bytes each time, and show the recorded data."""

import json
import shutil
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import made
import sealed
from tcpassay import figures
from tcpassay.figures import kinds, style
from tcpassay.figures.data import Pooled, Recording, seconds
from tcpassay.plan import model
from tcpassay.plan.read import Plan, read
from tcpassay.run.folder import Folder

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
    shown = [("with stalls", [stalled]), ("without", [steady])]
    files = kinds.draw(figure, shown)
    assert files == kinds.draw(figure, shown)
    ET.fromstring(files["svg"])  # noqa: S314 - our own
    assert files["png"].startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", files["png"][16:24])
    assert width >= 900
    assert height >= 400


def test_the_date_of_drawing_is_in_no_file(steady: Path) -> None:
    svg = kinds.draw(DISTRIBUTION, [("", [steady])])["svg"].decode()
    assert "dc:date" not in svg


def test_throughput_is_the_bits_of_each_interval_and_is_zero_in_a_stall(stalled: Path) -> None:
    time, bits = Recording(stalled).throughput()
    assert time[1] == pytest.approx(0.01)
    assert bits[:25].min() > 1.9e9
    assert bits[25:45].max() == 0.0
    assert bits[45] > 1.9e9


def test_throughput_ends_with_the_run_although_the_series_goes_on(tmp_path: Path) -> None:
    recording = Recording(made.recording(tmp_path / "closing", stalls=False, closing_ms=30))
    for time, bits in (recording.throughput(), recording.flow_throughput(0)):
        assert time[-1] == pytest.approx(1.99)
        assert bits.min() > 1.9e9


@pytest.mark.parametrize(("slower", "scale"), [(19, "linear"), (25, "log")])
def test_curves_whose_peaks_differ_by_more_than_a_factor_of_twenty_have_a_logarithmic_axis(
    slower: int, scale: str, tmp_path: Path, steady: Path
) -> None:
    slow = made.recording(tmp_path / "slow", stalls=False, slower=slower)
    figure = TIMELINE.model_copy(update={"series": ["throughput", "cwnd"]})
    with style.styled():
        drawn = kinds.timeline(figure, [("fast", Recording(steady)), ("slow", Recording(slow))])
    throughput, cwnd = drawn.axes[:2]
    assert throughput.get_yscale() == scale
    assert cwnd.get_yscale() == "linear"
    # The lowest peak is 2 Gbit/s divided.
    assert throughput.get_ylim()[0] < 2 / slower < throughput.get_ylim()[1]


def test_the_medians_of_several_lines_are_in_the_legend_below_and_that_of_one_is_beside_it(
    stalled: Path, steady: Path
) -> None:
    with style.styled():
        one = kinds.distribution(DISTRIBUTION, [("", Pooled([Recording(steady)]))])
        two = kinds.distribution(
            DISTRIBUTION, [("a", Pooled([Recording(stalled)])), ("b", Pooled([Recording(steady)]))]
        )
    assert len(one.axes[0].texts) == 1
    assert not one.legends
    assert not two.axes[0].texts
    assert [text.get_text().split(" (median ")[0] for text in two.legends[0].get_texts()] == ["a", "b"]


def test_each_stall_is_annotated_with_its_length(stalled: Path) -> None:
    with style.styled():
        drawn = kinds.sequence(SEQUENCE, [("", Recording(stalled))])
        texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts[:-1] == ["201 ms"] * 4
    assert texts[-1] == "4 stalls, 4 retransmissions, 3 drops in queues"


def test_retransmissions_are_distinguished_from_first_transmissions(stalled: Path) -> None:
    _, position, again = Recording(stalled).sent()
    assert again.sum() == 4
    first = position[~again]
    assert (np.diff(first) > 0).all()


def test_a_timeline_counts_timeouts_and_drops(stalled: Path, steady: Path) -> None:
    assert kinds.counted(Recording(stalled)) == "4 timeouts, 3 drops in queues"
    assert kinds.counted(Recording(steady)) == "no timeouts, no drops in queues"


def test_a_distribution_ends_at_all_samples(steady: Path) -> None:
    values, share = Pooled([Recording(steady)]).rtt()
    assert share[-1] == 1.0
    assert (np.diff(values) > 0).all()


def test_lengths_of_time_are_read_with_their_units() -> None:
    assert [seconds(text) for text in ("10ms", "1.5us", "2s", "1min")] == [0.01, 1.5e-6, 2.0, 60.0]


def test_every_axis_of_every_figure_has_a_label_with_its_unit(stalled: Path) -> None:
    with style.styled():
        recording = Recording(stalled)
        for axes in (
            kinds.timeline(TIMELINE, [("", recording)]).axes,
            kinds.sequence(SEQUENCE, [("", recording)]).axes,
            kinds.distribution(DISTRIBUTION, [("", Pooled([recording]))]).axes,
        ):
            assert all("(" in a.get_ylabel() for a in axes)
            assert "(" in axes[-1].get_xlabel()


HOSTILE = "$\\frac{1}{$ \x1b[31m \u6f22 " + "long " * 60


@pytest.mark.parametrize(
    ("figure", "cases"),
    [
        (model.Timeline(kind="timeline", file="t", title=HOSTILE), 9),
        (model.Distribution(kind="distribution", file="d", title=HOSTILE), 26),
        (model.Sequence(kind="sequence", file="s", title=HOSTILE), 2),
    ],
    ids=lambda value: value.kind if isinstance(value, model.Panel) else "",
)
def test_many_cases_and_any_title_can_be_drawn(figure: model.Figure, cases: int, steady: Path) -> None:
    files = kinds.draw(figure, [(f"{HOSTILE} {n}", [steady]) for n in range(cases)])
    ET.fromstring(files["svg"])  # noqa: S314 - our own
    width, height = struct.unpack(">II", files["png"][16:24])
    assert width >= 900
    assert height <= 8_000


def test_a_timeline_of_nine_cases_has_three_bands_that_share_their_scales(steady: Path) -> None:
    figure = model.Timeline(kind="timeline", file="t", series=["throughput", "cwnd"])
    with style.styled():
        drawn = kinds.timeline(figure, [(str(n), Recording(steady)) for n in range(9)])
    assert len(drawn.axes) == 18
    rows = {axes.get_subplotspec().rowspan.start for axes in drawn.axes}
    assert rows == {0, 1, 2, 3, 4, 5}
    assert len({axes.get_ylim() for axes in drawn.axes[::2]}) == 1


def test_every_line_of_a_full_distribution_looks_different() -> None:
    assert len({style.line(index) for index in range(kinds.MOST_DISTRIBUTIONS)}) == 24


@pytest.mark.parametrize(
    ("figure", "most"),
    [
        (model.Timeline(kind="timeline", file="t", series=["rtt"]), 24),
        (
            model.Timeline(kind="timeline", file="t", series=["throughput", "flows", "rtt", "cwnd", "queue"]),
            9,
        ),
        (SEQUENCE, 12),
        (DISTRIBUTION, 24),
    ],
)
def test_a_figure_of_too_many_cases_says_how_many_it_shows(figure: model.Figure, most: int) -> None:
    assert kinds.left_out(figure, most) == ""
    assert kinds.left_out(figure, most + 1).startswith(f"the first {most} of {most + 1} cases are shown")


def test_a_panel_without_data_says_so_and_the_others_are_drawn(tmp_path: Path) -> None:
    folder = made.recording(tmp_path / "bare", stalls=False)
    index = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    index["header"]["bottleneck"] = None
    sealed.recording(folder, index)
    with style.styled():
        drawn = kinds.timeline(TIMELINE, [("", Recording(folder))])
    said = [[text.get_text() for text in axes.texts] for axes in drawn.axes]
    assert said[3] == ["no bottleneck"]
    assert "no bottleneck" not in said[0] + said[1] + said[2]


PLAN = """
name = "made"
[axes]
"stack.cc" = ["reno", "cubic"]
[[figure]]
kind = "distribution"
file = "first"
[[figure]]
kind = "distribution"
file = "second"
where = { "stack.cc" = "cubic" }
"""


def _results(tmp_path: Path, steady: Path, cases: int) -> tuple[Plan, Folder, set[tuple[str, int]]]:
    """A folder in which the first `cases` of a plan's cases have a recording."""
    plan = read(PLAN, tmp_path / "made.toml")
    folder = Folder.create(tmp_path / "results", replace=False)
    done = {(case.id, 1) for case in plan.cases[:cases]}
    for case, seed in done:
        shutil.copytree(steady, folder.recording(case, seed))
    return plan, folder, done


def test_any_error_of_drawing_is_a_sentence_and_the_other_figures_are_drawn(
    tmp_path: Path, steady: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, folder, done = _results(tmp_path, steady, 2)
    real = kinds.draw

    def failing(figure: model.Figure, shown: kinds.Shown) -> dict[str, bytes]:
        if figure.file == "first":
            raise MemoryError
        return real(figure, shown)

    monkeypatch.setattr(kinds, "draw", failing)
    drawn = figures.draw(plan, folder, done, [])
    assert drawn.files == ["figures/second.svg", "figures/second.png"]
    assert drawn.problems == ["figures/first was not drawn because of an internal error (MemoryError)"]


def test_a_folder_that_cannot_be_written_costs_the_figures_alone(tmp_path: Path, steady: Path) -> None:
    plan, folder, done = _results(tmp_path, steady, 2)
    (folder.made / "figures").write_text("", encoding="utf-8")
    drawn = figures.draw(plan, folder, done, [])
    assert drawn.files == []
    assert [problem.split(":")[0] for problem in drawn.problems] == [
        "figures/first was not drawn",
        "figures/second was not drawn",
    ]


def test_cases_without_a_recording_are_reported_with_what_to_do(tmp_path: Path, steady: Path) -> None:
    plan, folder, done = _results(tmp_path, steady, 1)
    drawn = figures.draw(plan, folder, done, [])
    assert drawn.files == ["figures/first.svg", "figures/first.png"]
    first, second = drawn.problems
    assert first.startswith("figures/first is not complete: 1 of its 2 cases do not have a recording;")
    assert second.startswith("figures/second was not drawn: none of its 1 cases has a recording;")
    assert second.endswith("or with --force")
