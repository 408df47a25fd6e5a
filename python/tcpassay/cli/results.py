"""The commands `judge`, `oracles` and `compare`. As in `cli/__init__.py`, they contain no rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import output, terminal
from tcpassay.cli import capture
from tcpassay.cli.capture import (
    EXPANDED,
    PACKETS,
    ExpandedOption,
    HostOption,
    MergeOption,
    PacketsOption,
    PointOption,
    ProfileOption,
    WithinOption,
)
from tcpassay.cli.options import AllowCodeOption, JsonOption, JunitOption, WhereOption, pairs, share
from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.pace import Working

if TYPE_CHECKING:
    from tcpassay.compare import Options
    from tcpassay.results import Results

FAILED = 1
CONNECTIONS = 20_000
USER = 2
UNDECIDED = 3


def judge(
    folder: Annotated[
        Path,
        typer.Argument(help="Results of a plan, one recording, or a packet capture.", metavar="DIR|FILE"),
    ],
    oracle: Annotated[
        list[str] | None,
        typer.Option(help="Call only this oracle; may be given several times.", metavar="NAME"),
    ] = None,
    profile: ProfileOption = None,
    host: HostOption = None,
    within: WithinOption = None,
    point: PointOption = None,
    merge: MergeOption = False,
    most_connections: Annotated[
        int,
        typer.Option(
            "--max-connections",
            help="Maximum number of connections of a capture that are judged, about 17 KB of memory each.",
            min=1,
            max=10**8,
            metavar="N",
        ),
    ] = CONNECTIONS,
    most_expanded: ExpandedOption = EXPANDED,
    most_packets: PacketsOption = PACKETS,
    junit: JunitOption = None,
    json_: JsonOption = False,
    allow_code: AllowCodeOption = False,
) -> None:
    """Call the oracles on recordings with an event log, or on a capture. Exit code 1: there are findings.

    On a capture (pcap, pcapng) each oracle judges the ends of connections of which the capture shows what it needs:
    both directions, all packets, the place of an end. The output names what was not judged, and why. `--point` and
    `--merge` are for captures.

    With `--as PROFILE` a profile of the model follows each end at which the capture was taken, instead of the oracles:
    it gets what the end received, and must acknowledge as the end did. The first difference of each end is printed; it
    means "differs from PROFILE", not "violates an RFC". The sender of the end is judged only for what it may not send,
    because the calls of its application are not in a capture (docs/follow.md).

    Example: `tcpassay judge capture.pcap`, `tcpassay judge capture.pcap --as linux-6.1`.
    """
    from tcpassay.judge import folders, show  # noqa: PLC0415 - polars is most of the start-up time
    from tcpassay.judge.junit import junit as xml  # noqa: PLC0415 - start-up time

    output.check(junit, "the JUnit file")
    if profile is not None:
        if not folder.is_file() or oracle or junit:
            raise UserError("`--as` is for captures, and excludes `--oracle` and `--junit`")
        if capture.differs(
            folder,
            profile,
            (host, within, point, merge),
            (most_connections, most_expanded, most_packets),
            json_=json_,
        ):
            raise typer.Exit(FAILED)
        return
    if host is not None or within is not None:
        raise UserError("`--host` and `--within` belong to `--as`")
    if folder.is_file():
        from tcpassay.captured.analyse import Limits  # noqa: PLC0415 - start-up time
        from tcpassay.captured.judge import judge_capture  # noqa: PLC0415 - start-up time

        judged = judge_capture(
            folder,
            oracles=oracle,
            point=point,
            merge=merge,
            limits=Limits(most_connections, round(most_expanded * 1e9), most_packets),
        )
    elif point is not None or merge:
        raise UserError(f"`--point` and `--merge` are for captures, and `{folder}` is not a capture")
    else:
        from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

        ask.folder(folder, allow=allow_code)
        with Working(terminal.console(stderr=True), "Judging") as working:
            judged = folders.judge_folder(folder, oracles=oracle, watch=working.update)
    if junit is not None:
        output.write(junit, xml(judged, oracle), "the JUnit file")
    if json_:
        terminal.print_json(judged.as_json())
    else:
        show.show(judged, terminal.console())
    if judged.findings:
        raise typer.Exit(FAILED)


def oracles(
    json_: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/oracles.md.")] = False,
) -> None:
    """List the oracles: assertion, reason, evidence, and cases in which they are wrong.

    Example: `tcpassay oracles`.
    """
    from tcpassay.judge import registry, show  # noqa: PLC0415 - start-up time

    if markdown:
        typer.echo(registry.markdown(), nl=False)
    elif json_:
        terminal.print_json([one.as_json() for one in registry.ORACLES.values()])
    else:
        show.oracles(terminal.console())


def compare(
    a: Annotated[Path, typer.Argument(help="The first results (before a change).", metavar="DIR")],
    b: Annotated[
        Path | None,
        typer.Argument(help="The second results (after a change); not with --between.", metavar="DIR"),
    ] = None,
    threshold: Annotated[
        str,
        typer.Option(
            help="A metric is a regression if it is significantly worse by at least this share.",
            metavar="SHARE",
        ),
    ] = "5%",
    each: Annotated[
        str | None,
        typer.Option(
            help="A single run that is worse by at least this share is a regression, too.", metavar="SHARE"
        ),
    ] = None,
    confidence: Annotated[
        str, typer.Option(help="Confidence level of intervals and tests.", metavar="SHARE")
    ] = "95%",
    correction: Annotated[
        str, typer.Option(help="Correction for multiple testing: holm, bh or none.", metavar="METHOD")
    ] = "holm",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare this metric; may be given several times. By default those that the plan names.",
            metavar="NAME",
        ),
    ] = None,
    where_a: Annotated[
        list[str] | None,
        typer.Option(help="Only runs of the first results with this value.", metavar="PATH=VALUE"),
    ] = None,
    where_b: Annotated[
        list[str] | None,
        typer.Option(help="Only runs of the second results with this value.", metavar="PATH=VALUE"),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Ignore this parameter when pairing runs.", metavar="PATH")
    ] = None,
    between: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare the values of this parameter or group in one result with each other, for each metric; of "
            "several (PATH,PATH), their combinations.",
            metavar="PATH",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="With --between: at each level of this parameter or group, or of several (PATH,PATH).",
            metavar="PATH",
        ),
    ] = None,
    where: WhereOption = None,
    per: Annotated[
        str | None,
        typer.Option(
            help="host, flow or cc: compare the results of each sending host, flow or controller, as in `table`.",
            metavar="host|flow|cc",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compare all metrics.")] = False,
    relevant: Annotated[
        str, typer.Option(help="A change below this share is not relevant.", metavar="SHARE")
    ] = "1%",
    identical: Annotated[
        bool,
        typer.Option("--identical", help="Any pair of deterministic runs that differs is a regression."),
    ] = False,
    junit: JunitOption = None,
    unpaired: Annotated[
        bool,
        typer.Option(
            "--allow-unpaired", help="Accept runs without a counterpart and runs that did not complete."
        ),
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Compare two results. Runs with the same parameters and the same seed are compared as pairs.

    Runs on the model and on `kernel` are deterministic. The command first shows how many pairs are identical, which
    pairs differ, and their common values. Then each metric has its effect with an interval and a corrected test, whose
    unit is the seed: the differences of several cases with one seed are averaged.
    Metrics whose definition depends on `collect` are omitted if `collect` differs.

    Exit code 0: no regression. 1: regression: a metric is significantly worse, a finding is new, or a run did not
    complete. 2: the results cannot be compared: a damaged file, an unknown metric, runs without a counterpart (see
    --allow-unpaired). 3: the seeds cannot decide about a metric; the output says how many would.

    With `--between PATH` (and `--by PATH`) the values of a parameter in one result are compared with each other; the
    exit code is 0, or 3 if the runs cannot decide about two of them. With `--per host`, `flow` or `cc` also `host`,
    `flow`, `from`, `to` and `cc` are parameters, so that the flows of a run can be compared with each other.

    Examples: `tcpassay compare results/cubic results/bbr --metric goodput`;
    `tcpassay compare results/beside --per cc --between cc`.
    """
    from tcpassay import compare as comparing  # noqa: PLC0415 - start-up time

    output.check(junit, "the JUnit file")
    options = comparing.Options(
        confidence=share("--confidence", confidence, most=0.9999),
        correction=comparing.method(correction),
        threshold=share("--threshold", threshold),
        each=None if each is None else share("--each", each),
        metrics=tuple(dict.fromkeys(metric)) if metric else None,
        everything=everything,
        relevant=share("--relevant", relevant),
        identical=identical,
    )
    if everything and metric:
        raise UserError("`--all` compares all metrics; it excludes `--metric`")
    if between:
        if b is not None or where_a or where_b or ignore or junit:
            raise UserError(
                "`--between` compares values within one result; it excludes a second result, --where-a, --where-b, "
                "--ignore, --junit"
            )
        _ranked(
            _loaded(a, per, metric),
            _split(between),
            _split(by),
            pairs("--where", where),
            options,
            json_=json_,
        )
        return
    if b is None:
        raise UserError("give two results, or one and `--between PATH`")
    if by is not None or where is not None:
        raise UserError(f"`{'--by' if by else '--where'}` belongs to `--between`")
    left, right = _loaded(a, per, metric), _loaded(b, per, metric)
    sides = comparing.Sides(
        {comparing.named(left, "--where-a", name): value for name, value in pairs("--where-a", where_a)},
        {comparing.named(right, "--where-b", name): value for name, value in pairs("--where-b", where_b)},
        frozenset(ignore or ()),
    )
    comparison = comparing.compare(left, right, options, sides)
    if json_:
        terminal.print_json(comparison.as_json())
    else:
        comparing.show(comparison, terminal.console(), _units())
    if junit is not None:
        output.write(junit, comparing.junit(comparison), "the JUnit file")
    if comparison.problems or (comparison.incomplete and not unpaired):
        raise typer.Exit(USER)
    if comparison.regressions or comparison.undecided:
        raise typer.Exit(FAILED if comparison.regressions else UNDECIDED)


def _split(given: list[str] | None) -> list[str]:
    """The names of an option that may be given several times, each with several names."""
    return [name.strip() for text in given or () for name in text.split(",")]


def _loaded(folder: Path, per: str | None, metrics: list[str] | None) -> "Results":
    """The results of a folder, or those of its hosts, flows or controllers."""
    from tcpassay.results import load  # noqa: PLC0415 - start-up time

    results = load(folder)
    if per is None:
        return results
    from tcpassay import entities, levels  # noqa: PLC0415 - start-up time

    of = entities.results_of(results, per)
    if wrong := next((name for name in metrics or () if name not in levels.OF_ENTITIES), None):
        raise UserError(f"`--metric {wrong}`: with `--per` the metrics are {', '.join(levels.OF_ENTITIES)}")
    for note in of.notes:
        typer.echo(f"tcpassay: {note}", err=True)
    return of


def _ranked(
    results: "Results",
    names: list[str],
    by: list[str],
    where: list[tuple[str, str]],
    options: "Options",
    *,
    json_: bool,
) -> None:
    from tcpassay import compare as comparing  # noqa: PLC0415 - start-up time

    rankings = comparing.between(results, names, by, options, where=where)
    if json_:
        terminal.print_json(rankings.as_json())
    else:
        comparing.show_between(rankings, terminal.console(), _units())
    if rankings.undecided:
        raise typer.Exit(UNDECIDED)


def _units() -> dict[str, str]:
    from tcpassay import levels  # noqa: PLC0415 - start-up time

    return levels.OF_ENTITIES | {name: metric.unit for name, metric in METRICS.items()}


def add(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (judge, oracles, compare):
        app.command()(command)
