"""The flows of a capture as a table for scripts: one row for each flow, with all figures of the summary."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from io import StringIO
from typing import Final

from tcpassay.captured.model import FlowSummary, TimeShares
from tcpassay.interface import StallCause

_PLAIN: Final = (
    "flow", "connection", "interface", "tunnel", "sender", "receiver", "place", "start_ns", "duration_ns",
    "largest_packet", "rounds",
)  # fmt: skip
_TRIPS: Final = ("min_ns", "mean_ns", "median_ns", "p99_ns", "max_ns")


def _row(one: FlowSummary) -> dict[str, object]:
    """The row of a flow; what is not known is empty."""
    made: dict[str, object] = {name: getattr(one, name) for name in _PLAIN}
    made |= asdict(one.counters)
    made["unnecessary_retransmissions"] = one.spurious.total
    made |= {f"rtt_{name}": getattr(one.round_trips, name, "") for name in _TRIPS}
    made |= {name: getattr(one.time_shares, name, "") for name in TimeShares.__dataclass_fields__}
    stalls = {stall.cause: stall for stall in one.stalls}
    for cause in StallCause:
        stall = stalls.get(cause)
        made |= {
            f"stalls_{cause}": stall.count if stall else 0,
            f"stalls_{cause}_ns": stall.total_ns if stall else 0,
        }
    made |= {f"ending_{name}": "" if value is None else value for name, value in asdict(one.ending).items()}
    made["black_hole_length"] = one.black_hole.length if one.black_hole else ""
    return made


def lines(flows: Iterable[FlowSummary]) -> Iterator[str]:
    """The header and the rows, each with its newline; nothing without flows."""
    for number, one in enumerate(flows):
        row = _row(one)
        text = StringIO()
        writer = csv.DictWriter(text, row, lineterminator="\n")
        if number == 0:
            writer.writeheader()
        writer.writerow(row)
        yield text.getvalue()
