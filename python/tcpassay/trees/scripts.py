"""A packetdrill script that passes on one kernel and fails on another, from two runs of a case that differ.

What arrives at one end in the run on the first kernel is injected, and what this end sends there is expected
(`explain/packetdrill.py`). The script is run on both kernels. It ends with the line at which the second kernel fails.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tcpassay.errors import UserError
from tcpassay.explain import packetdrill
from tcpassay.explain.adapted import adapted
from tcpassay.explain.moments import Connection, End, connection
from tcpassay.explain.packetdrill import Side, Span, UnwritableError
from tcpassay.interface import EventKind
from tcpassay.judge.log import LogFile
from tcpassay.messages import Triples
from tcpassay.recording import Recording
from tcpassay.script import linux
from tcpassay.script.report import Report
from tcpassay.trees.groups import difference

OPTIONS: Final = (("tolerance_usecs", str(packetdrill.TOLERANCE_US)),)
_SPANS: Final = (3, 12, 50, None)
"""Segments before the difference that scripts begin with; `None`: with the handshake."""
_REST_NS: Final = 2_000_000_000
"""Silence after the difference that a script waits for at most."""
_ROUNDS: Final = 40
"""Largest number of corrections of a script by what the first kernel does in it."""
_MOST_ADAPTED: Final = 3
_AS_RUN: Final = "It expects what the first kernel did in the run."
_AS_SCRIPT: Final = "What arrives is from the run; it expects what the first kernel does in the script."

Run = Callable[[Sequence[str]], list[Report]]
"""Runs scripts on a kernel."""


@dataclass(frozen=True, slots=True)
class PairScript:
    """A script of one end that passes on the first kernel and fails on the second."""

    host: str
    text: str
    base: Report
    head: Report

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {"host": self.host, "base": dict(self.base), "head": dict(self.head)}


@dataclass(frozen=True, slots=True)
class Pair:
    """The recordings of a case on both kernels, with event logs."""

    base: Recording
    head: Recording
    triples: Triples
    folder: str
    """The folder in which file names of the case start."""
    title: str
    """The first line of the script."""


def on(kernel: str) -> Run:
    """Runs scripts in a guest of the kernel with this name."""

    def run(texts: Sequence[str]) -> list[Report]:
        asked = [
            linux.request(text, loose=True, options=OPTIONS, limit_s=linux.VIRTUAL_LIMIT_S) for text in texts
        ]
        return linux.on_kernel(asked, kernel=kernel) if asked else []

    return run


def script_of(pair: Pair, base: Run, head: Run) -> PairScript:
    """The shortest script that distinguishes the kernels. Raises `UserError` if there is none, with the reason."""
    written, why = _written(pair)
    if not written:
        raise UserError("; ".join(why))
    return distinguishing(written, base, head)


def distinguishing(written: Sequence[tuple[str, str]], base: Run, head: Run) -> PairScript:
    """The first of some scripts, each with its host, that passes on `base` and fails on `head`, cut at its failure.

    Raises `UserError` if there is none.
    """
    reports = base([text for _, text in written])
    passing = [one for one, report in zip(written, reports, strict=True) if report["status"] == "pass"]
    found = next(_failing(passing, base, head), None)
    if found is not None:
        return found
    failing = [one for one in written if one not in passing][:_MOST_ADAPTED]
    for host, text in failing:
        other = adapted(text, lambda one: base([one])[0], _ROUNDS)
        if other is not None:
            changed = [(host, other.replace(_AS_RUN, _AS_SCRIPT))]
            if (found := next(_failing(changed, base, head), None)) is not None:
                return found
    raise UserError("no end shows the difference alone: a script of it passes on both kernels, or on neither")


def _failing(passing: Sequence[tuple[str, str]], base: Run, head: Run) -> Iterator[PairScript]:
    """The scripts that fail on `head`, up to the failing line, if they then still distinguish the kernels."""
    reports = head([text for _, text in passing])
    for (host, text), report in zip(passing, reports, strict=True):
        if report["status"] not in {"fail", "time"} or report["line"] is None:
            continue
        short = "\n".join([*text.split("\n")[: report["line"]], ""])
        (of_base,), (of_head,) = base([short]), head([short])
        if of_base["status"] == "pass" and of_head["status"] in {"fail", "time"}:
            yield PairScript(host, short, of_base, of_head)


def _written(pair: Pair) -> tuple[list[tuple[str, str]], list[str]]:
    """The scripts of both ends of the connection that differs first, the short ones first; why others are missing."""
    at = _difference(pair)
    if at is None:
        return [], [
            "without timestamps, which a script does not have, the decisions of the stacks are identical"
        ]
    flow, from_ns, last_ns = at
    here = connection(pair.base, LogFile(pair.base), flow, timers_known=False)
    made: list[tuple[str, str]] = []
    why: list[str] = []
    for segments, end in itertools.product(_SPANS, (End.RECEIVER, End.SENDER)):
        name = here.names[end]
        try:
            side = _side(pair, here, end)
            span = Span(from_ns, _until(here, end, last_ns), segments)
            text = packetdrill.written(
                here, side, span, [pair.title, f"The script is of the host `{name}`. {_AS_RUN}"]
            )
        except UnwritableError as error:
            why.append(f"{name}: {error}")
            continue
        if text not in {other for _, other in made}:
            made.append((name, text))
    return made, list(dict.fromkeys(why))


def _side(pair: Pair, here: Connection, end: End) -> Side:
    host = pair.base.hosts.index(here.names[end])
    flow = next(one for one in pair.base.flows if one["name"] == here.flow)
    changes = packetdrill.changes(pair.triples, pair.folder, host)
    # A reader without a rate reads at once; the log of a kernel has no reads.
    logged = any(one.kind == EventKind.APP and one.why == "read" for one in here.moments)
    return Side(
        end, int(flow["mss_bytes"]), changes, reads=not logged and "app.read_rate" not in pair.triples
    )


def _difference(pair: Pair) -> tuple[str, int, int] | None:
    """The flow of the first event that differs, and the earlier and the later time of this event on the kernels."""
    found = difference(pair.base, pair.head)
    rows = [] if found is None else [row for row in (found.base, found.head) if row is not None]
    if not rows:
        return None
    number = next((int(one["flow"]) for one in rows if one["flow"] is not None), 0)
    flow = pair.base.flows[number]
    # Both directions of a connection have a flow; data are those of the first one.
    first = next(one for one in pair.base.flows if one["connection"] == flow["connection"])
    times = [int(one["time_ns"] or 0) for one in rows]
    return str(first["name"]), min(times), max(times)


def _until(here: Connection, end: End, last_ns: int) -> int:
    """To the segment of the end that follows the difference, or to the end of a silence."""
    after = [one.time_ns for one in here.moments if one.end == end and one.sent and one.time_ns > last_ns]
    return min([*after[:1], here.end_ns, last_ns + _REST_NS])
