"""Lines of a recording for the page of an experiment."""

from itertools import islice
from typing import Final

import polars as pl

from tcpassay import _native, socket_statistics
from tcpassay.captured.analyse import Analysis, Wanted
from tcpassay.experiments.measured import Numbers
from tcpassay.interface import EventKind
from tcpassay.plan import experiment_table
from tcpassay.recording import Recording, carried
from tcpassay.recording_format import Flow

PACKETS: Final = "packets.pcapng"


def lines(excerpt: experiment_table.Excerpt, numbers: Numbers) -> str:
    """The lines, or a note why there are none."""
    run = next((run for run in numbers.runs(excerpt.where) if run.get("recording")), None)
    if run is None:
        return "(no recording)"
    recording = Recording.open(numbers.results.place_of(run))
    flow = data_flow(recording, excerpt.flow)
    match excerpt.kind:
        case "rounds":
            return _rounds(recording, flow, excerpt.lines)
        case "ss":
            return "\n".join(socket_statistics.lines(recording, flow["name"]))
        case "arrivals":
            return _arrivals(recording, flow, excerpt.lines)
        case "siftr":
            text = _native.siftr_text(str(recording.folder), flow["from"])
        case "events":
            text = _native.event_text(str(recording.folder), None)
    said = text.decode().splitlines()
    if excerpt.kind == "events":
        both = [one["name"] for one in recording.flows if one["connection"] == flow["connection"]]
        said = [line for line in said if any(f" {name} " in line for name in both)]
    return _from(said, excerpt)


def data_flow(recording: Recording, number: int) -> Flow:
    """The flow with this number, from 1, of those that carried data."""
    data = [flow for flow in recording.flows if carried(flow)]
    return data[min(number, len(data)) - 1]


def _from(text: list[str], excerpt: experiment_table.Excerpt) -> str:
    first = 0
    if excerpt.after:
        found = next((n for n, line in enumerate(text) if excerpt.after in line), None)
        if found is None:
            return f"(no line with `{excerpt.after}`)"
        first = max(found - excerpt.before, 0)
    return "\n".join(line.rstrip() for line in text[first : first + excerpt.lines])


def _rounds(recording: Recording, flow: Flow, most: int) -> str:
    """The first round trips of the flow, from the packets captured at its sender."""
    point, file = recording.hosts[flow["from"]], recording.folder / PACKETS
    seen = Analysis(file, Wanted(point=point))
    for _ in seen.rounds(json=False):
        pass
    largest = max(seen.summary().flows, key=lambda one: one.counters.bytes, default=None)
    if largest is None:
        return "(no data)"
    wanted = Analysis(file, Wanted(flow=largest.flow, point=point))
    text = b"".join(wanted.rounds(json=False)).decode()
    return "\n".join(line.rstrip() for line in islice(text.splitlines(), most))


def _arrivals(recording: Recording, flow: Flow, most: int) -> str:
    """The order in which the stack of the receiver gets the first segments, numbered by their positions.

    A line holds what comes at one time, thus with one interrupt. `P3-P5` is a merged segment.
    """
    here = [place for place, one in enumerate(recording.flows) if one["connection"] == flow["connection"]]
    came = recording.events.filter(
        pl.col("flow").is_in(here),
        pl.col("kind") == EventKind.IN,
        pl.col("host") == flow["to"],
        pl.col("len") > 0,
    )
    mss = max(flow["mss_bytes"], 1)
    batches: dict[int, list[str]] = {}
    for at, seq, length in came.select("time_ns", "seq", "len").head(most).iter_rows():
        first, last = (seq - 1) // mss + 1, (seq + length - 2) // mss + 1
        batches.setdefault(at, []).append(f"P{first}" if first == last else f"P{first}-P{last}")
    return "\n".join(f"{at * 1e-9:.6f} {' '.join(names)}" for at, names in batches.items())
