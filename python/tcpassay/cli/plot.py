"""The command `plot`. As in `cli/__init__.py`, it contains no rules."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from tcpassay import levels, listing, output
from tcpassay.cli.options import WhereOption, pairs
from tcpassay.cli.recording import Folder, SeedOption
from tcpassay.errors import Place, UserError
from tcpassay.plan.document import suggest
from tcpassay.plan.quantity import quantity
from tcpassay.plural import plural

if TYPE_CHECKING:
    from tcpassay.figures.measured import Wanted
    from tcpassay.source import Source

OF_RUNS = ("timeline", "sequence", "distribution", "diagram")
OF_METRICS = ("line", "bar", "box", "cdf", "heat")
FORMATS = (".svg", ".pdf", ".png")
NEEDED = {"timeline": "series", "sequence": "events", "distribution": "latency", "diagram": "events"}
BELONGS = {
    "timeline": ("series", "flow", "start", "end"),
    "sequence": ("flow", "start", "end"),
    "distribution": ("of",),
    "diagram": ("flow",),
}
"""The options of each kind of figure of runs."""
WORDS = {
    "series": ("throughput", "flows", "rtt", "cwnd", "queue", "marks"),
    "of": ("rtt", "completion"),
    "scale": ("linear", "log"),
}
"""The words that options accept."""
COLUMNS = 2
TIME = quantity("1s").kind


class OfRuns(TypedDict):
    """The options of figures of runs; `None` is not given."""

    series: list[str] | None
    start: str | None
    end: str | None
    of: str | None
    flow: int | None
    title: str


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
        str | None,
        typer.Option(
            help="Of runs: timeline, sequence, distribution or diagram. Of a metric: line, bar, box, cdf or heat.",
            metavar="KIND",
            show_default="timeline; with --metric line or bar",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Draw this metric by the values of parameters.", metavar="NAME")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Parameter of the horizontal axis; of the rows of a heat map.", metavar="PATH"),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Parameter of the lines, bars or boxes beside each other; of the columns of a heat map.",
            metavar="PATH",
        ),
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            help="Of a metric of each sending host or flow, as in `table`, from the recordings of runs.",
            metavar="host|flow",
        ),
    ] = None,
    where: WhereOption = None,
    columns: Annotated[
        int | None,
        typer.Option(
            help="Width of a figure of a metric: one column of a page (3.35 in) or both (7 in).",
            min=1,
            max=COLUMNS,
            show_default="1",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Of the metric: linear or log.",
            metavar="SCALE",
            show_default="log if the shown values differ by more than a factor of 50",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Text for a metric, parameter or value in the figure; may be given several times.",
            metavar="NAME=TEXT",
        ),
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(
            help="A row of a timeline: throughput, flows, rtt, cwnd, queue or marks; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(help="The distribution: rtt or completion.", metavar="NAME", show_default="rtt"),
    ] = None,
    flow: Annotated[
        int | None,
        typer.Option(
            help="The flow of a sequence, a diagram or of `cwnd`, among those with data.",
            min=1,
            show_default="the one with most timeouts; the windows of up to four flows",
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Start of the time range, as in `10ms`.", metavar="TIME")
    ] = None,
    end: Annotated[str | None, typer.Option(help="End of the time range.", metavar="TIME")] = None,
    title: Annotated[str, typer.Option(help="Title of the figure.")] = "",
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write, .svg, .pdf or .png.", show_default="KIND.png")
    ] = None,
) -> None:
    """Draw a figure of runs over time, or of a metric by the values of parameters.

    With `--metric` and `--by` it shows means with 95 % confidence intervals, boxes or distributions over the runs of
    all seeds, for papers. Without them it shows the recordings of runs; a distribution pools the seeds of a case, and
    the other kinds show one run of each case.

    Examples: `tcpassay plot DIR --metric rtt_p99 --by queue.limit --group stack.cc --out rtt.pdf`;
    `tcpassay plot DIR --series cwnd --series queue --out cwnd.svg`.
    """
    _known(kind)
    options: OfRuns = {"series": series, "start": start, "end": end, "of": of, "flow": flow, "title": title}
    if metric is None and kind not in OF_METRICS:
        given = {
            "--by": by,
            "--group": group,
            "--per": per,
            "--where": where,
            "--columns": columns,
            "--scale": scale,
            "--label": label,
        }
        for option, value in given.items():
            if value is not None:
                raise UserError(f"`{option}` belongs to figures of a metric: give `--metric NAME`")
        _of_runs(folder, cases or [], kind or "timeline", options, seed, out)
        return
    if metric is None or by is None:
        missing = "--metric NAME" if metric is None else "--by PATH"
        hint = "; `--kind distribution` shows round-trip or completion times" if kind == "cdf" else ""
        raise UserError(f"a figure of kind {kind or 'line'} needs `{missing}`{hint}")
    if kind in OF_RUNS:
        raise UserError(f"`--metric` belongs to the kinds {', '.join(OF_METRICS)}; `{kind}` shows runs")
    for option, chosen in options.items():
        if chosen is not None and option != "title":
            raise UserError(f"`--{option}` belongs to figures of runs, without `--metric`")
    if cases or seed is not None:
        raise UserError("a figure of a metric is of all runs: select some with `--where PATH=VALUE`")
    if scale is not None:
        _word("scale", scale)
    labels = dict(pairs("--label", label, "a name", "stack.cc=Controller"))
    from tcpassay.figures.measured import Wanted  # noqa: PLC0415 - importing matplotlib takes longest

    wanted: Any = {"kind": kind, "columns": columns or 1, "scale": scale}
    _of_metric(folder, Wanted(metric, by, group, title=title, labels=labels, **wanted), per, where, out)


def _of_metric(
    folder: Path, wanted: "Wanted", per: str | None, where: list[str] | None, out: Path | None
) -> None:
    from tcpassay.cli.table import runs_of  # noqa: PLC0415 - start-up time
    from tcpassay.figures import measured, style  # noqa: PLC0415 - importing matplotlib takes longest
    from tcpassay.results import load  # noqa: PLC0415 - polars is most of the start-up time

    target, suffix = _target(out, wanted.metric)
    results = load(folder)
    runs, known = runs_of(results, per)
    for problem in results.noted:
        typer.echo(f"tcpassay: damaged: {problem}", err=True)
    if not runs:
        raise UserError(f"no run in this folder has {'a recording' if per else 'metrics'}", Place(folder))
    found = listing.chosen(known, [wanted.metric], "metric")
    if len(found) > 1:
        raise UserError(
            f"`--metric {wanted.metric}`: a figure shows one metric; which of {', '.join(found)}?"
        )
    runs = levels.selected(runs, pairs("--where", where))
    exact = replace(
        wanted,
        metric=found[0],
        by=levels.parameter("--by", wanted.by, runs),
        group=None if wanted.group is None else levels.parameter("--group", wanted.group, runs),
    )
    if exact.by == exact.group:
        raise UserError(f"`--by` and `--group` are both `{exact.by}`; leave out one")
    with style.styled():
        drawn = measured.draw(runs, exact)
        content = style.save(drawn.figure, [suffix])[suffix]
    output.write(target, content)
    typer.echo(f"{target}: {drawn.caption}")


def _of_runs(
    folder: Path, cases: list[str], kind: str, options: OfRuns, seed: int | None, out: Path | None
) -> None:
    from tcpassay.source import sources  # noqa: PLC0415 - start-up time

    figure = _figure(kind, options)
    target, suffix = _target(out, kind)
    pooled = kind == "distribution"
    found = sources(folder, cases, seed, every_seed=pooled)
    needed = "completions" if options["of"] == "completion" else NEEDED[kind]
    for one in found:
        if not one.recording.has(needed):
            how = f"; `{needed} = true` in [collect] of the plan records it" if needed == "events" else ""
            raise UserError(
                f"there is no {needed}.parquet, which this figure needs{how}", Place(one.recording.folder)
            )
    _within(options["start"], found)
    from tcpassay.figures import kinds  # noqa: PLC0415 - importing matplotlib takes longest

    shown = [(one.label, [each.folder for each in one.seeds]) for one in found]
    try:
        drawn = kinds.draw(figure, shown, [suffix])
    except (Warning, RuntimeError) as error:
        raise UserError(
            f"the figure cannot be drawn: {error}; use fewer cases or a shorter time range"
        ) from error
    output.write(target, drawn[suffix])
    typer.echo(f"{target}: {_which(found, seed, pooled=pooled)}")
    absent = 0 if cases else found[0].of_cases - len(found)
    if absent > 0:
        left = f"{plural(absent, 'case')} without a recording"
        typer.echo(f"{target} is not complete: {left} ([keep] of the plan)", err=True)
    if said := kinds.left_out(figure, len(found)):
        typer.echo(f"{target} is not complete: {said}", err=True)


def _which(found: "list[Source]", seed: int | None, *, pooled: bool) -> str:
    """The runs in a figure."""
    recordings, runs = sum(len(one.seeds) for one in found), sum(one.runs for one in found)
    if recordings == runs:
        return plural(runs, "run")
    if pooled and seed is None:
        return f"{recordings} of {plural(runs, 'run')}, those with a recording"
    seeds = ", ".join(dict.fromkeys(str(one.recording.header["seed"]) for one in found))
    other = "" if seed is not None else "; --seed selects another one"
    return f"one run of each case, of seed {seeds}{other}"


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(plot)


def _known(kind: str | None) -> None:
    if kind is not None and kind not in OF_RUNS + OF_METRICS:
        raise UserError(
            f"`--kind {kind}`: the kinds of runs are {', '.join(OF_RUNS)}, those of a metric (--metric, --by) "
            f"{', '.join(OF_METRICS)}{suggest(kind, OF_RUNS + OF_METRICS)}"
        )


def _word(option: str, word: str) -> None:
    known = WORDS[option]
    if word not in known:
        raise UserError(f"`--{option} {word}`: allowed are {', '.join(known)}{suggest(word, known)}")


def _target(out: Path | None, name: str) -> tuple[Path, str]:
    """The file of a figure and its format. Raises `UserError`."""
    target = out or Path(f"{name}.png")
    if target.suffix not in FORMATS:
        raise UserError(f"`--out {target}`: the name of the file ends with {', '.join(FORMATS)}")
    output.check(target, "the figure")
    return target, target.suffix.removeprefix(".")


def _figure(kind: str, options: OfRuns) -> Any:
    """Validates the options as a figure of a plan."""
    from tcpassay.plan import model  # noqa: PLC0415 - start-up time

    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name != "title" and name not in BELONGS[kind]:
            owners = ", ".join(owner for owner, names in BELONGS.items() if name in names)
            raise UserError(f"`--{name}` belongs to {owners}, not to {kind}")
    for option, words in (
        ("series", options["series"] or []),
        ("of", [options["of"]] if options["of"] else []),
    ):
        for word in words:
            _word(option, word)
    for option, time in (("start", options["start"]), ("end", options["end"])):
        if time is not None and not _is_time(time):
            raise UserError(f"`--{option} {time}`: give a time with its unit, as in `10ms` or `1.5s`")
    kinds: dict[str, type[model.Panel]] = {
        "timeline": model.Timeline,
        "sequence": model.Sequence,
        "distribution": model.Distribution,
        "diagram": model.Diagram,
    }
    return kinds[kind].model_validate({"kind": kind, "file": "plot", **given})


def _is_time(text: str) -> bool:
    meaning = quantity(text)
    return meaning.kind == TIME and not text.startswith("-")


def _within(start: str | None, found: "list[Source]") -> None:
    """Raises `UserError` if a time range starts after all runs."""
    from tcpassay.figures.data import seconds  # noqa: PLC0415 - start-up time

    if start is None:
        return
    longest = max(one.recording.header["duration_ns"] for one in found) / 1e9
    if seconds(start) >= longest:
        raise UserError(f"`--start {start}`: the runs end at {longest:g} s")
