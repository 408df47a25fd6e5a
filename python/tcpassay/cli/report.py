"""The command `report`. As in `cli/__init__.py`, it contains no rules."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from tcpassay.plural import plural


def report(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="DIR/report.html")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the file in the browser.")] = False,
) -> None:
    """Write the results as one HTML file for offline use.

    Example: `tcpassay report results/two-controllers --open`.
    """
    from tcpassay import terminal  # noqa: PLC0415 - start-up time
    from tcpassay.pace import Working  # noqa: PLC0415 - start-up time
    from tcpassay.report import write_report  # noqa: PLC0415 - start-up time

    console = terminal.console(stderr=True)
    with Working(console, "Reading the results") as status:
        written = write_report(
            folder, out, progress=lambda done, of: status.update(f"Drawing recording {done} of {of}")
        )
    for problem in written.problems:
        typer.echo(f"tcpassay: damaged: {problem}", err=True)
    # A device or a pipe has no size.
    size = f" ({written.file.stat().st_size / 1e6:.1f} MB)" if written.file.is_file() else ""
    said = f"{written.file}{size}: {plural(written.runs, 'run')}, {plural(written.findings, 'finding')}"
    typer.echo(said, err=not written.file.is_file())
    if written.drawn < written.recorded:
        typer.echo(
            f"with the curves of {written.drawn} of {written.recorded} recordings, those with findings first"
        )
    if open_ and not webbrowser.open(written.file.resolve().as_uri()):
        typer.echo("tcpassay: no browser was found", err=True)
        sys.exit(2)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(report)
