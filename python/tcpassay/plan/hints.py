"""Hints for what people type: other names of parameters, other spellings of units, case and typing errors of words."""

import re
from typing import Final

from tcpassay.plan import table
from tcpassay.plan.document import suggest
from tcpassay.plan.quantity import quantity

_OTHER_NAMES: Final = {
    "bandwidth": "link.rate",
    "bw": "link.rate",
    "capacity": "link.rate",
    "speed": "link.rate",
    "rtt": "link.delay",
    "latency": "link.delay",
    "owd": "link.delay",
    "plr": "link.loss",
    "drop": "link.loss",
    "buffer": "queue.limit",
    "size": "queue.limit",
    "length": "queue.limit",
    "qlen": "queue.limit",
    "bdp": "queue.limit",
    "qdisc": "queue.kind",
    "aqm": "queue.kind",
    "discipline": "queue.kind",
    "threshold": "queue.ecn_threshold",
    "marking": "queue.ecn_threshold",
    "k": "queue.ecn_threshold",
    "congestion": "stack.cc",
    "congestion_control": "stack.cc",
    "controller": "stack.cc",
    "algorithm": "stack.cc",
    "tcp": "stack.cc",
    "variant": "stack.cc",
    "initcwnd": "stack.initial_window",
    "iw": "stack.initial_window",
    "rto": "stack.initial_rto",
    "rto_min": "stack.min_rto",
    "delack": "stack.delayed_ack",
    "time": "app.duration",
    "runtime": "app.duration",
    "seconds": "app.duration",
    "streams": "app.flows",
    "connections": "app.flows",
    "parallel": "app.flows",
    "traffic": "app.workload",
    "bytes": "app.flow_size",
    "hosts": "topology",
    "mahimahi": "link.rate",
    "parking": "topology",
    "fat-tree": "topology",
    "clos": "topology",
    "cdf": "app.flow_size",
    "distribution": "app.flow_size",
    "facebook": "app.flow_size",
    "memcached": "app.flow_size",
    "cache": "app.flow_size",
}
"""Names of parameters elsewhere (tc, iperf, ns-3, textbooks), by the last part of a path."""
_NOTES: Final = {"rtt": " (in one direction: half of the round-trip time)", "bdp": " (in bytes)"}
_OF_METRICS: Final = {
    "bandwidth": "throughput",
    "fairness": "jain",
    "latency": "delay",
    "fct": "completion",
    "drops": "dropped",
    "tail": "99th percentile",
}
_UNITS: Final = {
    **dict.fromkeys(("bps", "bit/s", "bits/s", "b/s"), "bit"),
    **dict.fromkeys(("kbps", "kbit/s", "kbits/s", "kb/s", "kbit"), "Kbit"),
    **dict.fromkeys(("mbps", "mbit/s", "mbits/s", "mb/s", "mbit"), "Mbit"),
    **dict.fromkeys(("gbps", "gbit/s", "gbits/s", "gb/s", "gbit", "g"), "Gbit"),
    **dict.fromkeys(("byte", "bytes", "octets", "b"), "B"),
    **{
        name.lower(): name
        for name in ("KB", "MB", "GB", "KiB", "MiB", "GiB", "ns", "us", "ms", "s", "min", "h")
    },
    **dict.fromkeys(("nsec", "nanoseconds"), "ns"),
    **dict.fromkeys(("usec", "µs", "μs", "microseconds"), "us"),
    **dict.fromkeys(("msec", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("packets", "pkts", "pkt"), "p"),
    **dict.fromkeys(("percent", "pct"), "%"),
}
"""Spellings of units in lower case. `mb/s` is taken as a rate, because sizes have no time."""
_NUMBER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµμ%/]*)")


def other_name(path: str) -> str:
    """`; did you mean ...?` for the name of a parameter elsewhere, or a similar name; otherwise empty."""
    address, slash, plain = path.rpartition("/")
    last = plain.rpartition(".")[2].lower()
    found = _OTHER_NAMES.get(last)
    if found in table.parameters():
        return f"; did you mean `{address}{slash}{found}`{_NOTES.get(last, '')}?"
    return suggest(plain, table.parameters())


def spelling(path: str, value: str) -> str:
    """`; write ...` for a value in another spelling, or a word that is nearly allowed; otherwise empty."""
    match = _NUMBER.fullmatch(value.strip())
    row = table.parameters().get(path.rpartition("/")[2])
    if match:
        unit = _UNITS.get(match[2].lower())
        written = f"{match[1]}{unit}"
        wanted = {quantity(text).kind for text in (*row.levels, row.default)} if row else set()
        fits = unit is not None and quantity(written).kind in wanted
        return f"; write `{written}`" if fits and written != value else ""
    return suggest(value, row.choices) if row and value not in row.choices else ""


def searched(words: list[str]) -> list[str]:
    """The parameters that have other names among these words."""
    found = (_OTHER_NAMES.get(word.lower()) for word in words)
    return [path for path in dict.fromkeys(found) if path in table.parameters()]


def meant(word: str) -> str:
    """The word of tcpassay's descriptions of metrics for a word of others."""
    return _OF_METRICS.get(word, word)
