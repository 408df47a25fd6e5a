"""The command `rtt`. As in `cli/__init__.py`, it contains no rules."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError

PointOption = Annotated[
    str | None,
    typer.Option(help="Only packets of this capture point (the name of an interface).", metavar="NAME"),
]
MergeOption = Annotated[
    bool, typer.Option("--merge", help="Treat all interfaces as one capture point.", show_default=False)
]

ConnectionsOption = Annotated[
    int,
    typer.Option(
        "--max-connections",
        help="Maximum number of connections of a capture in memory, about 4 KB each.",
        min=1,
        max=10**8,
        metavar="N",
    ),
]
ExpandedOption = Annotated[
    float,
    typer.Option(
        "--max-expanded",
        help="Maximum size in GB to which a compressed capture may expand, if that is more than fifty times its size.",
        min=0.001,
        max=10**6,
        metavar="GB",
    ),
]
CONNECTIONS = 100_000
EXPANDED = 4.0


def rtt(
    file: Annotated[
        Path,
        typer.Argument(
            help="A capture (pcap, pcapng) or a log of siftr, plain or compressed with gzip or zstd.",
            metavar="FILE",
        ),
    ],
    flow: Annotated[int | None, typer.Option(help="Only this flow, from 1.", min=1, metavar="N")] = None,
    point: PointOption = None,
    merge: MergeOption = False,
    most_connections: ConnectionsOption = CONNECTIONS,
    most_expanded: ExpandedOption = EXPANDED,
    summary_only: Annotated[
        bool, typer.Option("--summary", help="Do not print the rounds.", show_default=False)
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Analyse the TCP connections of a packet capture, round trip by round trip; or a log of FreeBSD's siftr.

    A flow is one direction of a connection that carries data. Each round trip has one line: the time of its end
    since the first packet of the connection, its duration, the bytes that were sent in it, and their rate. The lines
    are followed by round-trip times, stalls and what the connection waited for, retransmissions, reordering, marks, and
    what the capture cannot show.

    Example: `tcpassay rtt capture.pcap --summary`.
    """
    from tcpassay.captured import show  # noqa: PLC0415 - pydantic takes half of the start-up time
    from tcpassay.captured.analyse import Analysis, Limits, Wanted, siftr_log  # noqa: PLC0415 - start-up time

    limits = Limits(connections=most_connections, expanded=round(most_expanded * 1e9))
    if (log := siftr_log(file, limits)) is not None:
        if flow is not None or point is not None or merge:
            raise UserError(f"`{file}` is a log of siftr: `--flow`, `--point` and `--merge` are for captures")
        if json_:
            terminal.print_json(asdict(log))
        else:
            show.siftr(log, terminal.console())
        return
    analysis = Analysis(file, Wanted(flow, point, merge, limits))
    if json_:
        for text in show.as_json(analysis, rounds=not summary_only):
            typer.echo(text, nl=False)
        return
    for text in show.lines(analysis, rounds=not summary_only):
        typer.echo(text, nl=False)
    show.show(analysis.summary(show.MOST), terminal.console())


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(rtt)
