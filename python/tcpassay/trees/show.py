"""A comparison of two kernels or stacks as text."""

from typing import TYPE_CHECKING, Final, Protocol

from rich.console import Console
from rich.markup import escape

from tcpassay.interface import METRICS
from tcpassay.judge.words import ms
from tcpassay.plural import plural
from tcpassay.terminal import number
from tcpassay.trees.comparison import TreeComparison
from tcpassay.trees.examples import Example
from tcpassay.trees.first import First

if TYPE_CHECKING:
    from tcpassay.trees.causes import TreeCause
    from tcpassay.trees.groups import Group
    from tcpassay.trees.pairs import Shift


class Say(Protocol):
    """A function that prints a line."""

    def __call__(self, text: str, style: str = "") -> None:
        """Prints a line."""


MODEL: Final = "linux-6.1"
"""The stack that the profile `linux` of the model is."""
_PAIRS: Final = 8
_METRICS: Final = 12
"""Maximum numbers of listed pairs and of listed metrics."""


def show(told: TreeComparison, console: Console) -> None:
    """Prints the verdict, the causes, the first differences, and the commands that repeat runs."""

    def say(text: str, style: str = "") -> None:
        console.print(escape(text), highlight=False, style=style, soft_wrap=True)

    _heading(told, say)
    if told.different:
        _differences(told, say)
    elif not told.pairs:
        say("No pair of runs has ended.", "bold yellow")
    else:
        said = f"No difference in {plural(told.cases, 'case')} ({plural(len(told.pairs), 'pair')} of runs)"
        if told.executed is not None and told.executed.missed:
            say(
                f"{said}, of which none executed {plural(len(told.executed.missed), 'changed place')}.",
                "bold yellow",
            )
        else:
            say(f"{said}.", "bold green")


def _heading(told: TreeComparison, say: Say) -> None:
    """What was compared, what is missing, and the changed lines that were executed."""
    for side, compared in (("base", told.base), ("head", told.head)):
        say(f"{side}: {compared.words}")
    for note in told.notes:
        say(f"   {note}", "yellow")
    if told.unfinished:
        said = "did not end for a reason outside of what is compared; `--resume` repeats them"
        say(f"{plural(told.unfinished, 'run')} {said}", "yellow")
    if told.interrupted:
        say(
            "interrupted: the result so far; `--resume` continues, with the searches that were not done",
            "yellow",
        )
    if told.executed is not None:
        for text, style in told.executed.lines_of_text():
            say(text, style)
    elif told.uncounted:
        say(f"Changed lines: it is not known which of them were executed: {told.uncounted}")


def _differences(told: TreeComparison, say: Say) -> None:
    _summary(told, say)
    for place, cause in enumerate(told.causes.found, 1):
        _cause(place, cause, say)
        for example in told.examples:
            if example.cause is cause:
                _example(example, say)
    if told.causes.left:
        why = f" ({told.causes.stopped})" if told.causes.stopped else ""
        say(f"{plural(len(told.causes.left), 'pair')} without a cause{why}", "bold yellow")
    for place, group in enumerate(told.groups, 1):
        _group(place, group, told, say)
    for example in told.examples:
        if example.cause is None and example.group is None:
            _example(example, say)
    _commands(told, say)


def _summary(told: TreeComparison, say: Say) -> None:
    different = told.different
    say(
        f"{plural(len(told.pairs), 'pair')} of runs: {len(told.pairs) - len(different)} identical, "
        f"{len(different)} different",
        "bold",
    )
    packets = sum(one.packets for one in different)
    say(f"   packets differ in {packets}, metrics in {sum(bool(one.metrics) for one in different)}")
    if told.separation is not None:
        say(f"   settings of the different pairs: {told.separation.text}")
    _findings(told, say)
    _metrics(told, say)


def _cause(place: int, cause: "TreeCause", say: Say) -> None:
    say(f"Cause {place}: {cause.text}", "bold")
    say(f"   explains {plural(len(cause.explains), 'pair')}")
    _proof(cause, "identical", "still different", say)


def _proof(cause: "TreeCause", gone: str, still: str, say: Say) -> None:
    """Whether the settings are the smallest, and what is different with each of them reset."""
    if not cause.complete:
        say("   not the smallest set: the budget was used up", "yellow")
    for row in cause.proof:
        also = f" (with {', '.join(one.path for one in row.also)})" if row.also else ""
        said = gone if row.gone else still if row.rate.runs else f"not run: {row.rate.problem}"
        say(f"   {row.triple.path} = {row.value}{also}: {said}")


def _group(place: int, group: "Group", told: TreeComparison, say: Say) -> None:
    say(f"Group {place}, first difference: {group.words}", "bold")
    say(f"   {plural(len(group.pairs), 'case')}: {group.separation.text}")
    if group.smallest is not None:
        say(f"   smallest settings of {group.example.head['case']}: {group.smallest.text}")
        _proof(group.smallest, "no such first difference", "the same first difference", say)
    for example in told.examples:
        if example.group is group:
            _example(example, say)


def _commands(told: TreeComparison, say: Say) -> None:
    different = told.different
    say("Pairs that differ:", "bold")
    for pair in different[:_PAIRS]:
        say(f"   {pair.head['case']} seed {pair.seed}: {pair.label}")
        for command in told.command(pair):
            say(f"      {command}")
    if len(different) > _PAIRS:
        say(f"   ... and {len(different) - _PAIRS} more (--json lists all)")


def _findings(told: TreeComparison, say: Say) -> None:
    for word, found in (
        ("new on head", [name for one in told.different for name in one.new]),
        ("gone on head", [name for one in told.different for name in one.gone]),
    ):
        for oracle in dict.fromkeys(found):
            say(f"   findings of {oracle} {word} in {plural(found.count(oracle), 'run')}")


def _metrics(told: TreeComparison, say: Say) -> None:
    """The metrics that differ by more than between seeds; the largest change of each."""
    if told.seeds < 2:  # noqa: PLR2004 - one seed shows no variation
        say("   metrics: one seed does not show the variation between seeds; use at least two")
        return
    by_metric: dict[str, list[Shift]] = {}
    for one in told.shifts:
        by_metric.setdefault(one.metric, []).append(one)
    ordered = sorted(by_metric.items(), key=lambda item: -len(item[1]))
    for metric, among in ordered[:_METRICS]:
        unit = METRICS[metric].unit
        most = max(among, key=lambda one: max(one.change, 1 / one.change if one.change else 0.0))
        before, after = sum(most.base) / len(most.base), sum(most.head) / len(most.head)
        say(
            f"   {metric} differs by more than between seeds in {plural(len(among), 'case')}; "
            f"most in {most.case}: {number(before, unit)} to {number(after, unit)}"
        )
    if len(ordered) > _METRICS:
        say(f"   ... and {len(ordered) - _METRICS} more metrics")


def _example(example: Example, say: Say) -> None:
    pair, first = example.pair, example.first
    say(f"   first difference in case {pair.head['case']} seed {pair.seed} ({pair.label}):")
    if first.note:
        say(f"      {first.note}")
    if first.packets is not None:
        say(f"      {first.packets.same} packets are identical, the last ones being")
        for text in first.packets.before:
            say(f"        {text}")
        for side, texts in (("base", first.packets.base), ("head", first.packets.head)):
            say(f"      {side}:")
            for text in texts or ("no further packet",):
                say(f"        {text}")
    elif not first.note:
        say("      all captured packets are identical")
    _events(first, say)
    _followed(first, say)
    for command in example.commands:
        say(f"      {command}")
    say(f"      packets and event logs: {example.recordings[0]}, {example.recordings[1]}")
    _script(example, say)


def _events(first: First, say: Say) -> None:
    """The first events that differ."""
    if first.events is not None:
        here, there = first.events.here, first.events.there
        say(f"      event logs: {first.events.same} rows are identical, then")
        say(f"        base: {here.text if here else 'no further event'}")
        say(f"        head: {there.text if there else 'no further event'}")
    if first.decisions is not None:
        say("      apart from advertised windows, PSH flags and writes of applications:")
        for side, text in zip(("base", "head"), first.decisions, strict=True):
            say(f"        {side}: {text}")


def _followed(first: First, say: Say) -> None:
    """What the model says about the second kernel, with the first one as the baseline."""
    if first.followed is None:
        return
    for ends, word in ((first.followed.new, "new"), (first.followed.earlier, "earlier than on base")):
        for one in ends:
            if one.first is None:
                continue
            say(
                f"      {one.host} {one.flow} differs from {MODEL} ({word}), row {one.first.row} of {one.rows}:"
            )
            say(f"        {one.first.kind} at {ms(one.first.time_ns)}")
            say(f"        sent:  {one.first.sent}")
            say(f"        model: {one.first.expected}")
            if reason := ", ".join(part for part in (one.first.why, one.first.source) if part):
                say(f"        why:   {reason}")


def _script(example: Example, say: Say) -> None:
    """The packetdrill script that shows the difference, or why there is none."""
    if example.script is None:
        if example.no_script:
            say(f"      no packetdrill script: {example.no_script}")
        return
    made = example.script.made
    lines = plural(len(made.text.splitlines()), "line")
    where = f" at line {made.head['line']}" if made.head["line"] is not None else ""
    say(f"      packetdrill script of {made.host}, {lines}: {example.script.file}")
    say(f"        base: {made.base['status']}")
    say(f"        head: {made.head['status']}{where}: {made.head['reason']}")
