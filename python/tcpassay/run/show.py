"""Terminal output of a run: progress on standard error, a summary on standard output."""

import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Self

import rich.progress
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from tcpassay import levels, levels_show, terminal
from tcpassay.interface import METRICS, EventKind
from tcpassay.pace import Pace
from tcpassay.plan.expand import show
from tcpassay.plan.fields import Scalar
from tcpassay.plan.model import Check, Search
from tcpassay.plural import plural
from tcpassay.quantile import quantile
from tcpassay.run import found, same
from tcpassay.run.checks import Verdict
from tcpassay.run.result import Result, Run
from tcpassay.search import show as search_show
from tcpassay.terminal import number

EVENTS = frozenset(EventKind)
# Maximum number of listed runs per failed check.
MOST_FAILING = 5
# Maximum number of runs in the table of runs.
MOST_RUNS = 60
# Maximum number of lines of an error message.
MOST_LINES = 24
# Maximum number of metrics shown by parameter.
MOST_GRIDS = 3
# Metrics shown for a plan that names none.
DEFAULT_METRICS = ("goodput", "saturation", "rtt_p50", "rtt_p99", "timeouts")
UNFINISHED = {
    "interrupted": "interrupted",
    "budget": "the time limit of the plan was reached",
    "paused": "paused because a host failed",
}


class Progress:
    """Shows progress, findings and remaining time on a terminal; elsewhere failed runs and a line every half minute."""

    def __init__(self, name: str, console: Console) -> None:
        self._console = console
        self._name = name
        self._pace = Pace(console)
        self._found = self._broken = 0
        self._messages: set[str] = set()
        self._said = ""
        """The best results of a search so far, in words."""
        self._bar = rich.progress.Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("runs, {task.fields[found]}"),
            _TimeLeft(),
            console=console,
            transient=True,
            refresh_per_second=4,  # drawing uses CPU time that the runs need
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(escape(name), start=False, total=None, found=self._words())

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, runs: Iterable[Run]) -> None:
        """Sets the list of runs; some may have ended before."""
        listed = list(runs)
        ended = [run for run in listed if run.begun]
        self._found = sum(len(run.findings) for run in ended)
        self._broken = sum(not run.as_expected for run in ended)
        self._bar.start_task(self._task)
        before = len(ended)
        self._bar.update(self._task, total=len(listed), completed=before, before=before, found=self._words())

    def finished(self, run: Run) -> None:
        """Updates the display after a run."""
        self._found += len(run.findings)
        if not run.as_expected:
            self._broken += 1
            label = f" ({escape(run.case.label)})" if run.case.label else ""
            name = f"case {run.case.id} seed {run.seed}{label}"
            said = f"[red]{run.outcome}[/]: {name}: {escape(self._message(run.message))}"
            self._console.print(said, highlight=False, soft_wrap=True)
        self._bar.update(self._task, advance=1, found=self._words())
        self._pace.say(self._line)

    def _line(self) -> str:
        """The progress, where there is no terminal."""
        task = self._bar.tasks[0]
        total = "" if task.total is None else f" of {task.total:,.0f}"
        said = self._said or plural(self._found, "finding")
        broken = f", {self._broken} broken" if self._broken else ""
        return f"{self._name}: {task.completed:,.0f}{total} runs, {said}{broken}"

    def _message(self, message: str) -> str:
        """The whole message of a run, or the first line if another run had the same one."""
        if "\n" not in message or message not in self._messages:
            self._messages.add(message)
            return _cut(message)
        return f"{message.splitlines()[0]} (as above)"

    def grown(self, most: int, said: str) -> None:
        """Shows how many runs there are or will be at most, and what a search has found so far."""
        self._said = said
        self._bar.update(self._task, total=most, found=self._words())

    def _words(self) -> str:
        if self._said:
            broken = f", [red]{self._broken} broken[/]" if self._broken else ""
            return escape(self._said) + broken
        found = plural(self._found, "finding")
        return f"[yellow]{found}[/]" + (f", [red]{self._broken} broken[/]" if self._broken else "")


def _cut(message: str) -> str:
    """The first and the last lines of an error; the row of the run contains all of it."""
    lines = message.splitlines()
    if len(lines) <= MOST_LINES:
        return "\n    ".join(lines)
    half = MOST_LINES // 2
    left_out = f"... {len(lines) - 2 * half} lines ..."
    return "\n    ".join([*lines[:half], left_out, *lines[-half:]])


class _TimeLeft(ProgressColumn):
    """The remaining time, extrapolated from the time since the start of the command."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """`1:23 left`."""
        ran = task.completed - task.fields.get("before", 0)
        if not ran or task.total is None or not task.elapsed:
            return Text("", style="progress.remaining")
        left = round((task.total - task.completed) * task.elapsed / ran)
        hours, rest = divmod(left, 3600)
        clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
        return Text(f"{clock} left", style="progress.remaining")


def summary(result: Result, console: Console) -> None:
    """Prints title, table of runs, checks, findings, and the location of the results."""
    spec = result.plan.spec
    console.print(f"[bold]{escape(spec.name)}[/]  {escape(' '.join(spec.doc.split()))}", highlight=False)
    _tables(result, console)
    if result.search is not None:
        cases = {case.id: case for case in result.plan.cases}
        search_show.show(result.search, cases, result.folder.path, console)
    if result.verdicts:
        console.print(_checks(result))
        _failing(result, console)
    if result.judged:
        found.show(result, console)
        for line in _unjudged(result.runs):
            console.print(f"[yellow]not judged[/]: {line}", highlight=False)
    for line in same.sentences(result.runs):
        console.print(f"[yellow]note[/]: {escape(line)}", highlight=False, soft_wrap=True)
    for line in _reached(result):
        console.print(line, highlight=False)
    if alike := _alike(result.runs):
        said = (
            f"each of the {alike} cases gave the same run with every seed, because it has no random events; one "
            "seed is enough"
        )
        console.print(f"[yellow]note[/]: {said}", highlight=False)
    for one in result.undetermined[:MOST_FAILING]:
        said = f"case {one['case']} seed {one['seed']}: repetition {one['repetition']} differs from the first one"
        console.print(f"[red]not deterministic[/]: {said}", highlight=False)
    colour = "green" if result.ok else "yellow" if result.status in UNFINISHED else "red"
    console.print(f"[{colour}]{'; '.join(_words(result))}[/]", highlight=False)
    _where_to_look(result, console)


def _where_to_look(result: Result, console: Console) -> None:
    """Prints the folder, the figures, and the next command."""
    path = result.folder.path
    lines = [f"Results: {escape(str(path))}"]
    lines += [
        f"Figure:  {escape(str(path / figure))}" for figure in result.figures if figure.endswith(".svg")
    ]
    lines += [f"[yellow]Figure[/]:  {escape(problem)}" for problem in result.figure_problems]
    if result.reason:
        lines.append(f"[red]Paused[/]:  {escape(result.reason)}")
    if result.status in UNFINISHED:
        lines.append(f"Resume:  tcpassay run --resume {escape(shlex.quote(str(path)))}")
    elif result.status == "complete":
        lines.append(f"Report:  tcpassay report {escape(shlex.quote(str(path)))}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _alike(runs: Iterable[Run]) -> int:
    """The number of cases with several seeds if all seeds of each case gave the same run; otherwise 0."""
    traces: dict[str, list[str]] = {}
    for run in runs:
        if run.done and run.trace:
            traces.setdefault(run.case.id, []).append(run.trace)
    several = [of_case for of_case in traces.values() if len(of_case) > 1]
    return len(several) if all(len(set(of_case)) == 1 for of_case in several) else 0


def _reached(result: Result) -> list[str]:
    """Prints how many runs reached each regime, and the required behaviours that were not reached."""
    runs = Counter(name for run in result.runs for name in run.reached)
    # Kinds of events with their reasons are many; the rows of the runs have them.
    shown = [f"{escape(name)} ({runs[name]})" for name in sorted(runs) if name.split(" ")[0] not in EVENTS]
    lines = [f"Reached, in runs: {', '.join(shown)}; {len(runs)} behaviours in all"] if runs else []
    return lines + [f"[red]not reached[/]: {escape(one)}" for one in result.unreached]


def _unjudged(runs: Iterable[Run]) -> list[str]:
    """The oracles that could not evaluate runs, with the number of runs; those with the same reason in one line."""
    counted = Counter((run.case.substrate, *one) for run in runs for one in run.unjudged.items())
    alike: dict[tuple[str, str, int], list[str]] = {}
    for (substrate, oracle, why), count in counted.items():
        alike.setdefault((substrate, why, count), []).append(oracle)
    return [
        f"{', '.join(oracles)} in {count} run{'s' * (count != 1)} on `{substrate}`: {why}"
        for (substrate, why, count), oracles in alike.items()
    ]


def _words(result: Result) -> list[str]:
    """The result in one line."""
    ended = sum(run.as_expected for run in result.runs)
    cpu = sum(run.cpu_s for run in result.runs)
    words = [f"{ended} of {len(result.runs)} runs finished ({cpu:.1f} s of CPU)"]
    broken = Counter(run.outcome for run in result.runs if run.begun and not run.as_expected)
    words += [f"{number} {outcome}" for outcome, number in broken.items()]
    if result.verdicts:
        held = sum(verdict.holds for verdict in result.verdicts)
        words.append(f"{held} of {len(result.verdicts)} checks hold")
    if result.judged:
        number = sum(len(run.findings) for run in result.runs)
        words.append(f"{number or 'no'} finding{'' if number == 1 else 's'}")
    return [UNFINISHED[result.status], *words] if result.status in UNFINISHED else words


def _shown(result: Result) -> list[str]:
    """The metrics of the plan, or those of its checks."""
    spec = result.plan.spec
    searched = [spec.strategy.metric] if isinstance(spec.strategy, Search) and spec.strategy.metric else []
    wanted = spec.metrics or [*searched, *(check.metric for check in spec.check)]
    if not wanted:
        wanted = [
            name for name in DEFAULT_METRICS if any(run.metrics.get(name) is not None for run in result.runs)
        ]
    return list(dict.fromkeys(wanted))


def _tables(result: Result, console: Console) -> None:
    """A table of the runs; for many runs, a table of the cases or of metrics by parameter."""
    if result.search is not None:  # values between levels have no table of their own
        console.print(_distributions(result))
        return
    if len(result.runs) <= MOST_RUNS:
        console.print(_runs(result, console.width))
        return
    console.print(_distributions(result))
    done = result.measured()
    shown = _shown(result)
    if len(result.plan.spec.seeds) > 1 and len(levels.by_case(done)) <= MOST_RUNS:
        levels_show.cases(done, shown[:MOST_GRIDS], console)
    for name in shown[:MOST_GRIDS]:
        if pair := levels_show.choose(done, name):
            levels_show.grid(levels.grid(done, name, *pair), console)


def _failing(result: Result, console: Console) -> None:
    """Some of the runs in which checks fail, with the commands that repeat them."""
    runs = {(run.case.id, run.seed): run for run in result.runs}
    for check in result.plan.spec.check:
        failing = [one for one in result.verdicts if one.check is check and not one.holds]
        if not failing:
            continue
        console.print(f"[red]{check.metric} {check.op} {_limits(failing)} fails in[/]", highlight=False)
        for verdict in failing[:MOST_FAILING]:
            observed = verdict.note or f"observed {_range([verdict.observed], check.metric)}"
            run = runs.get((verdict.case, verdict.seed or 0))
            console.print(f"  {escape(verdict.subject)}: {escape(observed)}", highlight=False)
            if run is not None:
                console.print(f"    {escape(result.replay(run))}", highlight=False, soft_wrap=True)
        if len(failing) > MOST_FAILING:
            console.print(f"  and {len(failing) - MOST_FAILING} more; result.json has all", highlight=False)


def _distributions(result: Result) -> Table:
    """A table with one row per metric, for many runs."""
    known = METRICS
    done = [run for run in result.runs if run.done]
    grid = terminal.grid()
    for name in ("metric", "runs", "min", "25 %", "median", "75 %", "max"):
        grid.add_column(name, justify="left" if name == "metric" else "right")
    for name in _shown(result):
        values = sorted(value for run in done if (value := run.metrics.get(name)) is not None)
        if len(values) > 1:
            low, middle, high = (quantile(values, share) for share in (0.25, 0.5, 0.75))
            marks = [number(v, known[name].unit) for v in (values[0], low, middle, high, values[-1])]
            grid.add_row(name, str(len(values)), *marks)
    return grid


def _runs(result: Result, width: int) -> Table:
    """A table with one row per run. If the columns of all parameters exceed the width, one column has all settings."""
    factors = list(dict.fromkeys(name for case in result.plan.cases for name in case.varied))
    heads, rows = _rows(result, factors)
    widths = [max(len(head), *(len(row[n]) for row in rows)) for n, head in enumerate(heads)] if rows else []
    compact = sum(widths) + 2 * len(widths) > width and len(factors) > 1
    grid = terminal.grid()
    if compact:
        grid.add_column("case", no_wrap=True)
        grid.add_column("settings", overflow="fold", ratio=1)
        heads = heads[len(factors) :]
    for place, name in enumerate(heads):
        left = not compact and place < len(factors)
        grid.add_column(name, overflow="fold", justify="left" if left else "right")
    for run, row in zip(result.runs, rows, strict=True):
        cells = [run.case.id, run.case.label, *row[len(factors) :]] if compact else row
        grid.add_row(*map(escape, cells), style=None if run.as_expected else "red")
    return grid


def _rows(result: Result, factors: list[str]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table of runs: varied parameters, seed, metrics, findings."""
    plan, known = result.plan, METRICS
    # Scripts have no metrics.
    wanted = _shown(result) if any(run.metrics for run in result.runs) else []
    seeds = len(plan.spec.seeds) > 1 or not factors
    heads = [*factors, *(["seed"] if seeds else []), *wanted, *(["findings"] if result.judged else [])]
    rows = []
    for run in result.runs:
        cells = [show(run.case.varied[name]) if name in run.case.varied else "" for name in factors]
        cells += [str(run.seed)] if seeds else []
        if run.done:
            cells += [number(run.metrics.get(name), known[name].unit) for name in wanted]
            cells += [str(len(run.findings) or "")] if result.judged else []
        else:
            cells.append(run.outcome)
        rows.append(cells + [""] * (len(heads) - len(cells)))
    return heads, rows


def _checks(result: Result) -> Table:
    """A table with one row per check."""
    grid = terminal.grid()
    for name in ("check", "in", "observed", "", "why"):
        grid.add_column(name, overflow="fold", justify="right" if name == "observed" else "left")
    for check in result.plan.spec.check:
        verdicts = [verdict for verdict in result.verdicts if verdict.check is check]
        if not verdicts:  # none of its runs were selected
            continue
        failing = [verdict for verdict in verdicts if not verdict.holds]
        word = "[green]holds[/]" if not failing else "[bold red]FAILS[/]"
        if failing and len(verdicts) > 1:
            word += f" {len(failing)} of {len(verdicts)}"
        grid.add_row(
            f"{check.metric} {check.op} {_limits(verdicts)}",
            _where(check, verdicts),
            _range([verdict.observed for verdict in verdicts], check.metric),
            word,
            escape(" ".join(check.why.split())),
        )
    return grid


def _where(check: Check, verdicts: list[Verdict]) -> str:
    named = [f"{name.split('.')[-1]}={_values(wanted)}" for name, wanted in check.where.items()]
    runs = (
        f"{check.over} of runs"
        if check.over != "each"
        else f"{len(verdicts)} run{'s' * (len(verdicts) != 1)}"
    )
    return ", ".join([*named, runs])


def _values(wanted: Scalar | list[Scalar]) -> str:
    return "|".join(map(show, wanted)) if isinstance(wanted, list) else show(wanted)


def _limits(verdicts: list[Verdict]) -> str:
    check = verdicts[0].check
    limits = _range([verdict.limit for verdict in verdicts], check.metric)
    return limits if check.times is None else f"{limits} ({check.limit:g} x {_partner(check)})"


def _partner(check: Check) -> str:
    return ", ".join(f"{name.split('.')[-1]}={_values(value)}" for name, value in (check.times or {}).items())


def _range(values: list[float | None], metric: str) -> str:
    """The smallest and the largest value, or one if their texts are equal."""
    unit = METRICS[metric].unit
    known = [value for value in values if value is not None]
    ends = [number(value, unit) for value in (min(known), max(known))] if known else ["-"]
    return " to ".join(dict.fromkeys(ends))
