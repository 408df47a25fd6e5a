"""The rounds and the summary of a capture as text and as JSON."""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from tcpassay import terminal
from tcpassay.captured.analyse import Analysis
from tcpassay.captured.model import FLOW, SUMMARY, FlowSummary, SiftrLog, Summary
from tcpassay.plural import plural

NANO = 1e-9
MOST = 20
"""Maximum number of flows that are printed in full; `--json` prints all."""

LEGEND = """\
RTT flow.round  end in s (duration)  out: bytes  rate  packets;
rtx: retransmitted, late: reordered, CE: packets with the mark,
ECE: ACKs with the flag, ACE: marked packets that accurate ECN reports,
rwnd: limited by the receive window"""


def as_json(analysis: Analysis, *, rounds: bool) -> Iterator[str]:
    """One JSON object in parts: `rounds`, and the fields of the summary."""
    begun = False
    for part in analysis.rounds(json=True):
        if rounds:
            yield (",\n" if begun else '{"rounds": [\n') + part.decode().rstrip("\n").replace("\n", ",\n")
            begun = True
    summary = analysis.without_flows()
    fields = SUMMARY.dump_json(summary, indent=2).decode().removeprefix("{\n").removesuffix("[]\n}")
    yield ("\n],\n" if begun else '{"rounds": [],\n') + fields
    before = "["
    for flows in analysis.flows(summary):
        for one in flows:
            yield f"{before}\n{FLOW.dump_json(one, indent=2).decode()}"
            before = ","
    yield "[]\n}\n" if before == "[" else "\n]\n}\n"


def lines(analysis: Analysis, *, rounds: bool) -> Iterator[str]:
    """The rounds as text, below a legend."""
    begun = False
    for part in analysis.rounds(json=False):
        if rounds:
            yield part.decode() if begun else f"{LEGEND}\n{part.decode()}"
            begun = True
    if begun:
        yield "\n"


def show(summary: Summary, console: Console) -> None:
    """Prints the summary of each flow."""
    for one in summary.flows[:MOST]:
        _flow(one, console, several=len(summary.interfaces) > 1)
    if summary.flows_with_data > MOST and len(summary.flows) >= MOST:
        rest = summary.flows_with_data - MOST
        console.print(f"... and {rest} more flows: `--flow N` shows one, `--json` all.\n", highlight=False)
    if summary.unopened:
        console.print("[bold]Not opened[/]", highlight=False)
        for failed in summary.unopened[:MOST]:
            where = f" at {failed.interface}" if len(summary.interfaces) > 1 else ""
            _line(console, f"{failed.words}{where}")
        if (rest := summary.unopened_connections - MOST) > 0:
            _line(console, f"... and {rest} more")
        console.print()
    for note in summary.notes:
        console.print(f"note: {escape(note)}", style="yellow", highlight=False)
    counts = summary.packets
    said = f"{counts.packets} packets, {counts.segments} TCP segments, {plural(summary.connections, 'connection')}, "
    console.print(f"{said}{plural(summary.flows_with_data, 'flow')} with data", highlight=False)


def siftr(log: SiftrLog, console: Console) -> None:
    """Prints the summary of a log of siftr."""
    for number, one in enumerate(log.flows[:MOST], 1):
        console.print(f"[bold]Flow {number}[/]: {escape(one.local)} - {escape(one.foreign)}", highlight=False)
        for text in one.words:
            _line(console, text)
        console.print()
    for note in log.notes:
        console.print(f"note: {escape(note)}", style="yellow", highlight=False)
    console.print(f"{log.lines} lines of siftr, {plural(len(log.flows), 'connection')}", highlight=False)


def _flow(one: FlowSummary, console: Console, *, several: bool) -> None:
    where = f" at {escape(one.interface)}" if several else ""
    inside = f" in {escape(one.tunnel)}" if one.tunnel else ""
    console.print(
        f"[bold]Flow {one.flow}[/]: {escape(one.sender)} > {escape(one.receiver)}{inside}{where}",
        highlight=False,
    )
    seconds = one.duration_ns * NANO
    sent = terminal.number(one.counters.bytes, "B")
    rate = terminal.number(8 * one.counters.bytes / seconds, "bit/s") if seconds else "-"
    size = f"{one.counters.packets} data packets of up to {one.largest_packet} B"
    _line(console, f"{sent} in {terminal.number(seconds, 's')} ({rate}), {size}.")
    for text in one.words:
        _line(console, text)
    for text in one.unknown:
        _line(console, text, style="yellow")
    console.print()


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Padding(escape(text), (0, 0, 0, 2), expand=False), style=style, highlight=False)
