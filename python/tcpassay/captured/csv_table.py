"""The flows of a capture as a table for scripts: one row for each flow, with all figures of the summary.

Connections that were not opened have a row, too.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from io import StringIO
from itertools import chain
from typing import Final

from tcpassay.captured.model import Counters, Ending, FlowSummary, IcmpErrors, TimeShares, Unopened
from tcpassay.interface import StallCause

_PLAIN: Final = (
    "flow", "connection", "interface", "tunnel", "sender", "receiver", "place", "start_ns", "duration_ns",
    "largest_packet", "rounds",
)  # fmt: skip
_TRIPS: Final = ("min_ns", "mean_ns", "median_ns", "p99_ns", "max_ns")


def _icmp(errors: Sequence[IcmpErrors]) -> dict[str, object]:
    """ICMP errors about the segments: their number, their kinds, and the smallest MTU that they state."""
    mtus = [one.mtu for one in errors if one.mtu > 0]
    return {
        "icmp_errors": sum(one.count for one in errors),
        "icmp_kinds": "+".join(sorted({one.kind for one in errors})),
        "icmp_mtu": min(mtus, default=""),
    }


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
    made |= _icmp(one.icmp)
    return made


_COLUMNS: Final = (
    *_PLAIN,
    *Counters.__dataclass_fields__,
    "unnecessary_retransmissions",
    *(f"rtt_{name}" for name in _TRIPS),
    *TimeShares.__dataclass_fields__,
    *(f"stalls_{cause}{unit}" for cause in StallCause for unit in ("", "_ns")),
    *(f"ending_{name}" for name in Ending.__dataclass_fields__),
    "black_hole_length",
    *_icmp(()),
)


def _unopened_row(one: Unopened) -> dict[str, object]:
    """The row of a connection that was not opened: it has no flow."""
    return {
        "connection": one.connection,
        "interface": one.interface,
        "sender": one.opener,
        "receiver": one.other,
        "start_ns": one.start_ns,
        "duration_ns": one.duration_ns,
        "syn_retransmissions": one.syns - 1,
        "ending_how": "refused" if one.refused else "no_answer",
    } | _icmp(one.icmp)


def lines(flows: Iterable[FlowSummary], unopened: Iterable[Unopened] = ()) -> Iterator[str]:
    """The header and the rows, each with its newline; nothing without rows."""
    rows = chain(map(_row, flows), map(_unopened_row, unopened))
    for number, row in enumerate(rows):
        text = StringIO()
        writer = csv.DictWriter(text, _COLUMNS, restval="", lineterminator="\n")
        if number == 0:
            writer.writeheader()
        writer.writerow(row)
        yield text.getvalue()
