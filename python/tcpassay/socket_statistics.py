"""The state of each sender at the end of a run, in the form of `ss -ti` (iproute2).

Each flow has two lines as in `ss`: its ends, then the fields that the substrate provides, with the names, the order and
the units of `ss`: times in milliseconds, `cwnd` and `ssthresh` in segments, `retrans:0/TOTAL` (what is in flight at the
end of a run is not recorded).
"""

from collections.abc import Iterator

from tcpassay.recording import DamagedError, Recording, carried
from tcpassay.recording_format import Flow

MILLI = 1e-6
"""Milliseconds of a nanosecond."""


def lines(recording: Recording, flow: str | None = None) -> list[str]:
    """The lines of all flows that carried data, or of one. Without a line feed.

    Raises `DamagedError` if the recording lacks a field, or one has another type.
    """
    try:
        return list(_lines(recording, flow))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        why = f"its content is inconsistent: {type(error).__name__}: {error}"
        raise DamagedError(recording.folder / "recording.json", why) from error


def _lines(recording: Recording, flow: str | None) -> Iterator[str]:
    for one in recording.flows:
        if flow == one["name"] or (flow is None and carried(one)):
            yield f"{recording.hosts[one['from']]} -> {recording.hosts[one['to']]} {one['name']}"
            yield "\t " + " ".join(_fields(one))


def _fields(flow: Flow) -> Iterator[str]:
    tcp, mss = flow["tcp"], max(flow["mss_bytes"], 1)

    def ms(name: str, value: int | None) -> Iterator[str]:
        if value is not None:
            yield f"{name}:{value * MILLI:.6g}"

    def number(name: str, value: int | None) -> Iterator[str]:
        if value is not None:
            yield f"{name}:{value}"

    if flow["cc"]:
        yield flow["cc"]
    yield from ms("rto", tcp["rto_ns"])
    if (srtt := tcp["srtt_ns"]) is not None:
        variation = tcp["rttvar_ns"]
        yield f"rtt:{srtt * MILLI:.6g}" + ("" if variation is None else f"/{variation * MILLI:.6g}")
    yield f"mss:{flow['mss_bytes']}"
    for name, value in (("cwnd", tcp["cwnd_bytes"]), ("ssthresh", tcp["ssthresh_bytes"])):
        yield from number(name, None if value is None else value // mss)
    yield from number("bytes_sent", flow["counters"]["sent_bytes"])
    yield from number("bytes_retrans", flow["counters"]["retransmitted_bytes"] or None)
    yield from number("bytes_acked", tcp["bytes_acked"])
    yield from number("segs_out", tcp["segments_out"])
    yield from number("segs_in", tcp["segments_in"])
    yield from number("data_segs_out", flow["counters"]["sent_packets"])
    if limited := tcp["rwnd_limited_ns"]:
        yield f"rwnd_limited:{limited * MILLI:.0f}ms"
    if total := tcp["retransmits"]:
        yield f"retrans:0/{total}"
    yield from ms("minrtt", tcp["min_rtt_ns"])
