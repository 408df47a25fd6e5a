"""The command `explain`. As in `cli/__init__.py`, it contains no rules."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay import drawings, output, terminal
from tcpassay.cli.options import AllowCodeOption, JsonOption, TestbedOption


def explain(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    finding: Annotated[
        str, typer.Argument(help="CASE-SEED/ORACLE, its beginning, or an oracle.", metavar="FINDING")
    ],
    lines: Annotated[int, typer.Option(min=10, max=100_000, help="Approximate number of lines.")] = 60,
    svg: Annotated[
        Path | None,
        typer.Option(
            help="Also write the sequence diagram to this file; the report shows it in any case.",
            metavar="FILE",
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            help="Write a packetdrill script of one end into this file, and run it on the model and on Linux.",
            metavar="FILE",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a page for the maintainers of the TCP into this folder, with a script and a capture.",
            metavar="FOLDER",
        ),
    ] = None,
    json_: JsonOption = False,
    testbed: TestbedOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Show what happened on the connection of a finding: segments, decisions, timers, and what each side waits for.

    If `isolate` has found the cause, the run is compared with the same run with one triple of the cause reset, and the
    first event that differs is marked.

    Example: `tcpassay explain results/demo late-ack --svg late-ack.svg`.
    """
    from tcpassay.explain import explain as explained  # noqa: PLC0415 - start-up time
    from tcpassay.explain.show import show  # noqa: PLC0415 - start-up time
    from tcpassay.explain.svg import drawn  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    ask.testbeds(testbed or ())
    ask.folder(folder, allow=allow_code)
    done = explained(folder, finding, most=lines)
    if json_:
        terminal.print_json(done.as_json())
    else:
        show(done, terminal.console())
    drawing = drawn(done)
    if svg is not None:
        output.write(svg, drawing)
        typer.echo(str(svg), err=json_)
    if script is not None:
        from tcpassay.explain.scripted import scripted, told  # noqa: PLC0415 - start-up time

        made = scripted(folder, finding)
        output.write(script, made.text)
        for line in [*told(made), str(script)]:
            typer.echo(line, err=json_)
    if report is not None:
        from tcpassay.explain.page import page  # noqa: PLC0415 - start-up time

        for file in page(done).write(report):
            typer.echo(str(file), err=json_)
    if problem := drawings.keep(folder, done.of, drawing):
        typer.echo(problem, err=True)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(explain)
