"""The commands `plot`, `log` and `packets`. As in `cli/__init__.py`, they contain no rules."""

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
    """Print the event log of a run as text: time, host, flow, event, reason and further fields."""
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
    """Write the packets of one capture point of a run as pcapng."""
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


def plot(
    folder: Folder,
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            help="Cases of the results, or the first characters of their ids; all by default.",
            metavar="[CASE]...",
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="timeline, sequence or distribution.", metavar="KIND")
    ] = "timeline",
    series: Annotated[
        list[str] | None,
        typer.Option(
            help="A row of a timeline: throughput, flows, rtt, cwnd, queue or marks; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Start of the time range, as in `10ms`.", metavar="TIME")
    ] = None,
    end: Annotated[str | None, typer.Option(help="End of the time range.", metavar="TIME")] = None,
    title: Annotated[str, typer.Option(help="Title of the figure.")] = "",
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write, .svg or .png.", show_default="KIND.png")
    ] = None,
) -> None:
    """Draw a figure of one or several runs, without a plan."""
    from tcpassay.source import sources  # noqa: PLC0415 - start-up time

    figure = _figure(kind, series, start, end, title)
    found = sources(folder, cases or [], seed)
    needed = "events" if kind == "sequence" else "latency" if kind == "distribution" else "series"
    for one in found:
        if not one.recording.has(needed):
            raise UserError(
                f"there is no {needed}.parquet, which this figure needs", Place(one.recording.folder)
            )
    target = out or Path(f"{kind}.png")
    suffix = target.suffix.removeprefix(".")
    if suffix not in {"svg", "png"}:
        raise UserError(f"`{target}`: the allowed formats are .svg and .png")
    from tcpassay.figures import kinds  # noqa: PLC0415 - importing matplotlib takes longest

    try:
        drawn = kinds.draw(figure, [(one.label, one.recording.folder) for one in found])
    except (Warning, RuntimeError) as error:
        raise UserError(
            f"the figure cannot be drawn: {error}; use fewer cases or a shorter time range"
        ) from error
    _write(drawn[suffix], target)
    typer.echo(str(target))
    if said := kinds.left_out(figure, len(found)):
        typer.echo(f"{target} is not complete: {said}", err=True)


def add(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (plot, log, packets):
        app.command()(command)


def _figure(kind: str, series: list[str] | None, start: str | None, end: str | None, title: str) -> Any:
    """Validates the options as a figure of a plan."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - start-up time

    from tcpassay.plan import model  # noqa: PLC0415 - start-up time

    said = {"kind": kind, "file": "plot", "title": title, "series": series, "start": start, "end": end}
    said = {name: value for name, value in said.items() if value or name == "title"}
    try:
        return TypeAdapter(model.Figure).validate_python(said)
    except ValidationError as error:
        first = error.errors()[0]
        name = next((str(step) for step in first["loc"][1:]), "kind")
        value = said.get(name, kind)
        raise UserError(f"`--{name}` = `{value}`: {first['msg'][0].lower()}{first['msg'][1:]}") from None


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
