"""The commands `rtt` and `identify`, and `judge --as`. As in `cli/__init__.py`, it contains no rules."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tcpassay.captured.analyse import Limits, Wanted
    from tcpassay.captured.followed import FollowedCapture

NONE = 1
UNDECIDED = 3
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
PacketsOption = Annotated[
    int,
    typer.Option(
        "--max-packets",
        help="Maximum number of packets of a capture that are judged, about 400 B of memory each.",
        min=1,
        max=10**9,
        metavar="N",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        help="Follow the capture as this stack: linux-6.1, linux-7.3, linux-4.6, freebsd, freebsd-rack, rfc.",
        metavar="PROFILE",
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(
        help="With --as: the capture was taken at the host with this address. By default the times of answers show it.",
        metavar="ADDRESS",
    ),
]
WithinOption = Annotated[
    float | None,
    typer.Option(
        help="With --as: the time in milliseconds within which the end acts at once; by default 20 times its fastest "
        "answer, from 0.2 to 2 ms.",
        min=0.001,
        max=1000,
        metavar="MS",
    ),
]
CONNECTIONS = 100_000
EXPANDED = 4.0
PACKETS = 4_000_000

Place: TypeAlias = tuple[str | None, float | None, str | None, bool]
Bounds: TypeAlias = tuple[int, float, int]


def rtt(
    file: Annotated[
        Path,
        typer.Argument(
            help="A capture (pcap, pcapng) or a log of siftr, plain or compressed (gzip, zstd); - is standard input.",
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
    csv_: Annotated[
        bool, typer.Option("--csv", help="Print one row of figures for each flow.", show_default=False)
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
    from tcpassay.captured.analyse import Limits, Wanted  # noqa: PLC0415 - pydantic takes half of the start-up time
    from tcpassay.captured.piped import whole  # noqa: PLC0415 - start-up time

    if csv_ and json_:
        raise UserError("`--csv` and `--json` are two forms of the output: choose one")
    limits = Limits(connections=most_connections, expanded=round(most_expanded * 1e9))
    with whole(file) as readable:
        _rtt(readable, Wanted(flow, point, merge, limits), summary_only=summary_only, csv_=csv_, json_=json_)


def _rtt(file: Path, wanted: "Wanted", *, summary_only: bool, csv_: bool, json_: bool) -> None:
    from tcpassay.captured import csv_table, show  # noqa: PLC0415 - pydantic takes half of the start-up time
    from tcpassay.captured.analyse import Analysis, siftr_log  # noqa: PLC0415 - start-up time

    if (log := siftr_log(file, wanted.limits)) is not None:
        if wanted.flow is not None or wanted.point is not None or wanted.merge or csv_:
            raise UserError(
                f"`{file}` is a log of siftr: `--flow`, `--point`, `--merge` and `--csv` are for captures"
            )
        if json_:
            terminal.print_json(asdict(log))
        else:
            show.siftr(log, terminal.console())
        return
    analysis = Analysis(file, wanted)
    if csv_:
        for _ in analysis.rounds(json=False):
            pass
        summary = analysis.without_flows()
        flows = (one for part in analysis.flows(summary) for one in part)
        for text in csv_table.lines(flows, summary.unopened):
            typer.echo(text, nl=False)
        return
    if json_:
        for text in show.as_json(analysis, rounds=not summary_only):
            typer.echo(text, nl=False)
        return
    for text in show.lines(analysis, rounds=not summary_only):
        typer.echo(text, nl=False)
    show.show(analysis.summary(show.MOST), terminal.console())


def _follow(
    file: Path, names: "Sequence[str]", place: Place, bounds: Bounds
) -> "tuple[FollowedCapture, Limits]":
    from tcpassay.captured import followed  # noqa: PLC0415 - pydantic takes half of the start-up time
    from tcpassay.captured.analyse import Limits  # noqa: PLC0415 - start-up time

    host, within, point, merge = place
    where = followed.Where(point, merge, host, None if within is None else round(within * 1e6))
    limits = Limits(bounds[0], round(bounds[1] * 1e9), bounds[2])
    return followed.follow_capture(file, names, where, limits), limits


def differs(file: Path, profile: str, place: Place, bounds: Bounds, *, json_: bool) -> bool:
    """Follows a capture and prints the result. Returns whether an end differs from the profile."""
    from tcpassay.captured import followed, show_followed  # noqa: PLC0415 - pydantic takes half of the start-up time

    made, limits = _follow(file, [profile], place, bounds)
    if json_:
        terminal.print_json(followed.as_json(made, profile))
    else:
        show_followed.show(made, profile, limits, terminal.console())
    return any(end.profiles[profile].first is not None for end in made.ends)


def identify(
    file: Annotated[Path, typer.Argument(help="A capture (pcap, pcapng).", metavar="FILE")],
    host: HostOption = None,
    within: WithinOption = None,
    point: PointOption = None,
    merge: MergeOption = False,
    most_connections: ConnectionsOption = CONNECTIONS,
    most_expanded: ExpandedOption = EXPANDED,
    most_packets: PacketsOption = PACKETS,
    json_: JsonOption = False,
) -> None:
    """Rank the profiles of stacks by how far they follow a capture.

    Each profile of a real stack follows the ends at which the capture was taken (`judge --as`). The answer is the
    profile that follows all of them, several profiles if the capture does not tell them apart, `none fits`, or `too
    little`: only what an end sends for data that it received tells its stack.

    Exit code 0: a profile fits. 1: none fits. 3: too little.

    Example: `tcpassay identify capture.pcap`.
    """
    from tcpassay.captured import show_followed  # noqa: PLC0415 - pydantic takes half of the start-up time
    from tcpassay.captured.identify import STACKS, Answer  # noqa: PLC0415 - start-up time
    from tcpassay.captured.identify import identify as identified  # noqa: PLC0415 - start-up time

    made, limits = _follow(
        file, STACKS, (host, within, point, merge), (most_connections, most_expanded, most_packets)
    )
    found = identified(made)
    if json_:
        terminal.print_json(found.as_json())
    else:
        for note in made.notes(limits):
            terminal.console().print(f"note: {note}", style="yellow", highlight=False, markup=False)
        show_followed.identified(found, made, terminal.console())
    if found.answer is not Answer.FITS:
        raise typer.Exit(NONE if found.answer is Answer.NONE else UNDECIDED)


def add(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (rtt, identify):
        app.command()(command)
