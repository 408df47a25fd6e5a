"""The command `script`: reads arguments, runs packetdrill scripts, prints results. It contains no rules."""

from collections import Counter
from contextlib import nullcontext
from typing import Annotated

import typer

from tcpassay import output, terminal
from tcpassay.cli.options import JsonOption, JunitOption
from tcpassay.errors import UserError
from tcpassay.guard import took_all
from tcpassay.pace import Working
from tcpassay.script import batch
from tcpassay.script import files as script_files
from tcpassay.script import results as forms
from tcpassay.script.files import PLACES
from tcpassay.script.model import Wanted
from tcpassay.stacks.catalogue import checked_name

FAILED, USER, INTERRUPTED = 1, 2, 130


def script(
    files: Annotated[
        list[str], typer.Argument(help="Scripts, folders, options of packetdrill.", metavar="FILE...")
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            help="The stack: linux, linux-6.1, linux-7.3, linux-4.6, freebsd, freebsd-12, freebsd-rack or rfc. "
            "Default: the profile of the first line of the script (// profile: NAME), or linux.",
            metavar="NAME",
        ),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            help="The target: model; kernel (a guest in virtual time); host (the running kernel, as root); another TCP "
            "than the model (smoltcp, gvisor, lwip, pytcp, exec:COMMAND; docs/stacks.md).",
            metavar="WHERE",
        ),
    ] = "model",
    kernel: Annotated[
        str | None,
        typer.Option(help="The kernel for `--on kernel` (see `tcpassay kernel list`).", metavar="NAME"),
    ] = None,
    compare: Annotated[
        str,
        typer.Option(
            help="exact, or loose: window, PSH, SYN options and the padding of options are ignored.",
            metavar="MODE",
        ),
    ] = "exact",
    json_: JsonOption = False,
    junit: JunitOption = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table for documentation.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results without explanations.")] = False,
) -> None:
    """Run packetdrill scripts on the model, on another TCP or in a guest, in virtual time, or on the running kernel.

    FILE is a script or a folder with scripts. Options of packetdrill are given with the files:
    --tolerance_usecs=N (0 by default, since time is virtual), --ip_version, --local_ip, --remote_ip, --mtu,
    --tcp_ts_tick_usecs, --strict_segments, -D name=value. Shell commands of scripts are not executed: an unknown
    command makes a script unsupported, unless --allow-shell permits sh to execute it. With --on kernel or --on host
    the same runner tests a real Linux through a TUN device, with a network namespace per script; docs/scripts.md
    lists the time tolerances.

    Results: pass; time (only times differ); fail; unsupported; syntax; crashed (the process of the script died,
    exceeded the time limit or exceeded the memory limit). Exit code 0: all scripts pass. 1: not all pass. 2: an error
    in the input, such as a syntax error or a script without a test. 130: interrupted; the results so far are printed.

    Example: `tcpassay script --on kernel fails.pkt`.
    """
    _allowed("compare", compare, ("exact", "loose"))
    if on not in PLACES:
        _checked_stack(on)
    paths, options = script_files.arguments(files)
    if not paths:
        raise UserError("the script is missing; see `tcpassay script --help`")
    if junit is not None:
        output.check(junit, "the JUnit file")
    wanted = Wanted(profile, compare == "loose", tuple(options), on, kernel)
    results: list[forms.Result] = []

    def take(result: forms.Result) -> None:
        results.append(result)
        if working is None:
            _show(result, quiet=quiet)
        else:
            working.update(f"{len(results)} of {len(found)}")

    found = script_files.find(paths)
    status = Working(terminal.console(stderr=True), "Scripts") if json_ or markdown else nullcontext()
    with status as working:
        complete = took_all(batch.run(found, wanted), take)
    if junit is not None:
        output.write(junit, forms.junit(results), "the JUnit file")
    if json_:
        terminal.print_json(forms.as_json(results))
    elif markdown:
        typer.echo(forms.markdown(results), nl=False)
    else:
        _summary(results)
    _end({result.status for result in results}, complete=complete)


def _end(statuses: set[str], *, complete: bool) -> None:
    """Ends the command with the exit code of its results."""
    if not complete:
        typer.echo("interrupted: further scripts were not run", err=True)
        raise typer.Exit(INTERRUPTED)
    if "syntax" in statuses:
        raise typer.Exit(USER)
    if statuses != {"pass"}:
        raise typer.Exit(FAILED)


def _checked_stack(name: str) -> None:
    try:
        checked_name(name)
    except UserError as error:
        raise UserError(f"`--on {name}`: allowed are {', '.join(PLACES)} and other TCPs; {error}") from error


def _allowed(option: str, value: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise UserError(f"`--{option} {value}`: allowed are {', '.join(values)}")


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    settings = {"ignore_unknown_options": True}
    app.command(context_settings=settings)(script)


def _show(result: forms.Result, *, quiet: bool) -> None:
    reason = f"  {forms.shown(result.reason)}" if result.reason else ""
    if result.attempts > 1:
        reason += f"  (attempt {result.attempts})"
    typer.echo(f"{result.status:<11} {result.place}{reason}")
    if quiet:
        return
    for line in (*result.printed, *result.details):
        typer.echo(f"    {forms.shown(line)}")
    if result.status == "time":
        typer.echo(f"    passes with --tolerance_usecs={result.drift_usecs}")


def _summary(results: list[forms.Result]) -> None:
    folders = forms.counts(results)
    total = sum(folders.values(), Counter[str]())
    # A status without scripts has no column, except `pass`.
    statuses = [each for each in forms.STATUSES if total[each] or each == "pass"]
    width = max(len(folder) for folder in (*folders, "all"))
    typer.echo("")
    typer.echo(f"{'':<{width}}  " + "  ".join(f"{status:>11}" for status in statuses))
    if len(folders) > 1:
        folders["all"] = total
    for folder, found in folders.items():
        typer.echo(f"{folder:<{width}}  " + "  ".join(f"{found[status]:>11}" for status in statuses))
