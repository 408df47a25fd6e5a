"""A comparison as text."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tcpassay.compare.comparison import Comparison
from tcpassay.compare.effect import Effect, Verdict, describe
from tcpassay.compare.exact import Exact
from tcpassay.compare.power import POWER
from tcpassay.plural import plural
from tcpassay.terminal import number

_MOST = 8
"""Maximum number of listed pairs that differ."""
_WIDE = 110
"""Minimum width of the table."""
_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.UNDECIDED: "yellow"}


def show(comparison: Comparison, console: Console, units: Mapping[str, str]) -> None:
    """Prints what is compared, each metric with its effect, and the verdict; `units` are those of the metrics."""
    pairing = comparison.pairing
    console.print(f"a: {escape(comparison.a)}\nb: {escape(comparison.b)}", highlight=False)
    for name, (a, b) in pairing.compared.items():
        console.print(
            f"   {escape(name)}: a {escape(a or 'default')}, b {escape(b or 'default')}", highlight=False
        )
    for said in comparison.versions:
        console.print(f"   {escape(said)}", highlight=False)
    console.print(plural(len(pairing.pairs), "pair") + " of runs", highlight=False)
    if comparison.exact:
        _exact(comparison.exact, console)
    if comparison.repeated:
        said = (
            f"the statistics leave out {plural(comparison.repeated, 'pair')} whose runs equal those of "
            "another seed, because no case has random events"
        )
        console.print(said, highlight=False, style="yellow")
    for one in comparison.skipped:
        said = f"not compared: {', '.join(one.metrics)}, because {one.why} and their definition depends on it"
        console.print(escape(said), highlight=False, style="yellow")
    tested = [e for e in comparison.effects if e.pairs]
    if tested:
        console.print(f"metrics: {comparison.family}; {_level(comparison)}", highlight=False)
        _effects(tested, units, console)
        if comparison.exact and any(e.verdict is Verdict.DIFFERS for e in tested):
            said = (
                "differs: runs of one seed, which are the same in each repetition; there is nothing to test"
            )
            console.print(f"   {said}", highlight=False)
        _averaged(tested, console)
        _power(tested, units, console)
    for change in comparison.findings:
        console.print(
            f"findings of {change.oracle}: new in {plural(len(change.new), 'run')}, gone from {len(change.gone)}",
            highlight=False,
        )
    for said in comparison.incomplete:
        console.print(f"[yellow]incomplete[/]: {escape(said)}", highlight=False)
    _verdict(comparison, console)


def _level(comparison: Comparison) -> str:
    options = comparison.options
    corrected = "" if options.correction == "none" else f", corrected for all metrics ({options.correction})"
    return (
        f"tests and intervals at {100 * options.confidence:g} %{corrected}; "
        f"a change below {100 * options.relevant:g} % is not relevant"
    )


def _averaged(effects: list[Effect], console: Console) -> None:
    """Prints over how many cases the value of a seed is the mean."""
    several = [e for e in effects if e.unit == "seed" and e.cases > 1 and e.estimate is not None]
    if several:
        most = max(several, key=lambda e: e.cases)
        said = f"a seed counts once, with the mean of its {most.cases} cases that differ (the geometric one of ratios)"
        if any(e.cases != most.cases for e in several):
            said += f" in {most.metric} (fewer in other metrics)"
        console.print(f"   {said}", highlight=False)


def _power(effects: list[Effect], units: Mapping[str, str], console: Console) -> None:
    """Prints which changes the test finds, of the metrics that are undecided."""
    told = []
    told_of = "seed"
    for e in effects:
        if e.verdict is Verdict.UNDECIDED:
            told_of = e.unit
            size = "none, whatever its size" if e.detectable is None else _size(e, units)
            told.append(f"{e.metric} {size}")
    if told:
        more = f" and {len(told) - _MOST} more (--json)" if len(told) > _MOST else ""
        said = (
            f"with these {told_of}s the test finds, with a probability of {100 * POWER:.0f} %, a change of: "
        )
        console.print(f"   {said}{', '.join(told[:_MOST])}{more}", highlight=False)


def _size(e: Effect, units: Mapping[str, str]) -> str:
    if e.detectable is None:
        return ""
    if e.scale == "ratio":
        change = 100 * (e.detectable - 1)
        return f"{change:.0f} %" if change >= 10 else f"{change:.2g} %"  # noqa: PLR2004 - two digits
    return number(e.detectable, units.get(e.metric, ""))


def _exact(exact: Exact, console: Console) -> None:
    """Prints the number of identical pairs of deterministic runs, and the pairs that differ."""
    console.print(f"   {exact.identical} identical, {len(exact.different)} different", highlight=False)
    if not exact.different:
        return
    console.print(f"   settings of the different pairs: {escape(exact.common)}", highlight=False)
    listed = [f"{case} (seed {seed})" for case, seed in exact.different[:_MOST]]
    more = f" and {len(exact.different) - _MOST} more" if len(exact.different) > _MOST else ""
    console.print(f"   different: {escape(', '.join(listed))}{more}", highlight=False)


def _verdict(comparison: Comparison, console: Console) -> None:
    if comparison.regressions:
        console.print("[bold red]REGRESSION[/]")
        for line in comparison.regressions:
            console.print(f"  {escape(line)}", highlight=False)
    if comparison.undecided:
        console.print("[bold yellow]these runs cannot decide about:[/]")
        for line in comparison.undecided:
            console.print(f"  {escape(line)}", highlight=False)
    if comparison.regressions or comparison.undecided:
        return
    share = f"{100 * comparison.options.threshold:g} %"
    worse = f"no compared metric is worse by {share} or more"
    if comparison.differs:
        console.print(f"[bold]different[/]: {escape(comparison.differs)}; {worse}", highlight=False)
    elif comparison.same and comparison.exact and not comparison.exact.different:
        console.print("[bold]identical[/]")
    elif comparison.same:
        console.print("[bold]no relevant difference[/]")
    elif comparison.incomplete:
        console.print("[bold yellow]the comparison is not complete[/]")
    else:
        console.print(f"no regression: {worse}", highlight=False)


_COLUMNS = ("b against a (interval)", "median a", "median b", "up", "down", "of", "p")


def _effects(effects: list[Effect], units: Mapping[str, str], console: Console) -> None:
    """Prints a table, or two lines per metric on a narrow terminal."""
    if console.width < _WIDE:
        for e in effects:
            cells = _cells(e, units)
            console.print(f"{e.metric}: {_verdict_of(e)}, {cells[0]}", highlight=False)
            told = [f"{side} {cell}" for side, cell in zip("ab", cells[1:3], strict=True) if cell]
            told.append(f"up {e.up}, down {e.down} of {cells[5]}")
            told += [f"p {cells[-1]}"] if cells[-1] else []
            console.print(f"  {'; '.join(told)}", highlight=False)
        return
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("metric", "verdict"):
        grid.add_column(column, overflow="fold")
    for column in _COLUMNS:
        grid.add_column(column, justify="right")
    for e in effects:
        grid.add_row(e.metric, _verdict_of(e), *_cells(e, units))
    console.print(grid)


def _verdict_of(e: Effect) -> str:
    return f"[{_STYLES.get(e.verdict, 'default')}]{e.verdict}[/]"


def _cells(e: Effect, units: Mapping[str, str]) -> list[str]:
    unit = units.get(e.metric, "")
    return [
        describe(e, unit),
        "" if e.median_a is None else number(e.median_a, unit),
        "" if e.median_b is None else number(e.median_b, unit),
        str(e.up),
        str(e.down),
        plural(e.pairs, e.unit),
        "" if e.p_adjusted is None else f"{e.p_adjusted:.2g}",
    ]
