"""The commands `log` and `packets`. As in `cli/__init__.py`, they contain no rules."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcpassay import _native, output, terminal
from tcpassay.errors import Place, UserError

if TYPE_CHECKING:
    from tcpassay.recording import Recording

Folder = Annotated[Path, typer.Argument(help="A recording, or the results of a plan.", metavar="DIR")]
CaseArgument = Annotated[
    str | None,
    typer.Argument(help="A case of the results, or the first characters of its id.", metavar="[CASE]"),
]
SeedOption = Annotated[int | None, typer.Option(help="The run with this seed.", show_default="the first")]
OutOption = Annotated[Path | None, typer.Option(help="Write to this file.", show_default="standard output")]


def log(
    folder: Folder,
    case: CaseArgument = None,
    seed: SeedOption = None,
    flow: Annotated[
        str | None, typer.Option(help="Only the rows of this flow, `flow.0`.", metavar="NAME")
    ] = None,
    siftr: Annotated[
        str | None,
        typer.Option(help="The log of this host in the format of FreeBSD's siftr(4).", metavar="HOST"),
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--ss", help="The state of each sender at the end, in the form of `ss -ti`.")
    ] = False,
    out: OutOption = None,
) -> None:
    """Print the event log of a run as text: time, host, flow, event, reason and further fields.

    Example: `tcpassay log results/demo 1a2b --flow flow.0`.
    """
    from tcpassay.source import source  # noqa: PLC0415 - start-up time

    recording = source(folder, case, seed).recording
    if statistics:
        from tcpassay import socket_statistics  # noqa: PLC0415 - start-up time

        if siftr is not None:
            raise UserError("`--ss` and `--siftr` exclude each other")
        if flow is not None:
            _place(flow, [one["name"] for one in recording.flows], "flow")
        _write("".join(f"{line}\n" for line in socket_statistics.lines(recording, flow)).encode(), out)
        return
    if not recording.has("events"):
        raise UserError(
            "the run has no event log; its plan needs `events = true` in [collect]", Place(recording.folder)
        )
    if siftr is not None and flow is not None:
        raise UserError("`--siftr` writes all flows of a host and excludes `--flow`")
    path = str(recording.folder)
    if siftr is not None:
        text = _read(recording, lambda: _native.siftr_text(path, _place(siftr, recording.hosts, "host")))
    else:
        names = [one["name"] for one in recording.flows]
        place = None if flow is None else _place(flow, names, "flow")
        text = _read(recording, lambda: _native.event_text(path, place))
    _write(text, out)


def packets(
    folder: Folder,
    case: CaseArgument = None,
    seed: SeedOption = None,
    point: Annotated[
        str | None,
        typer.Option(help="The capture point; without this option the points are listed.", metavar="NAME"),
    ] = None,
    out: OutOption = None,
) -> None:
    """Write the packets of one capture point of a run as pcapng.

    Example: `tcpassay packets results/demo 1a2b --point sender --out sender.pcapng`.
    """
    from tcpassay import capture  # noqa: PLC0415 - start-up time
    from tcpassay.source import source  # noqa: PLC0415 - start-up time

    recording = source(folder, case, seed).recording
    file = recording.folder / "packets.pcapng"
    if not recording.holds("packets.pcapng"):
        raise UserError(
            "the run has no captured packets; its plan needs `packets = true` in [collect]",
            Place(recording.folder),
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"it cannot be read: {error.strerror}", Place(file)) from error
    points = recording.index.get("interfaces") or []
    names = [one["name"] for one in points]
    if point is not None:
        _write(capture.one_point(content, _place(point, names, "capture point")), out)
        return
    counts = capture.counted(content)
    grid = terminal.grid("point", "packets", "where")
    for place, one in enumerate(points):
        grid.add_row(one["name"], str(counts.get(place, 0)), one.get("description", ""))
    terminal.console().print(grid)


def add(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (log, packets):
        app.command()(command)


def _place(name: str, names: list[str], what: str) -> int:
    if name not in names:
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")  # noqa: PLR2004 - what fits a screen
        raise UserError(f"`{name}`: there is no such {what}; existing: {shown}")
    return names.index(name)


def _read(recording: "Recording", made: Any) -> bytes:
    try:
        text: bytes = made()
    except ValueError as error:
        raise UserError(str(error), Place(recording.folder)) from None
    return text


def _write(content: bytes, out: Path | None) -> None:
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    output.write(out, content)
