"""An explanation in the terminal: the two ends side by side, as in a sequence diagram."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tcpassay.explain.explanation import Explanation
from tcpassay.explain.lines import Gap, Line, Look, Omitted
from tcpassay.explain.moments import End
from tcpassay.explain.words import marks, neighbour_words, run_words
from tcpassay.judge.words import ms

_RIGHT, _LEFT = "──▶", "◀──"
_STYLES = {Look.DATA: "", Look.ACK: "", Look.INNER: "dim", Look.BAD: "bold red"}
_DIFFERENCE = "bold magenta"


def show(explanation: Explanation, console: Console) -> None:
    """Print an explanation."""
    finding = explanation.finding
    console.print(Text.assemble((f"{explanation.name}: ", "bold"), finding.title))
    if explanation.cause:
        console.print(Text("Cause, by isolation:", "bold"))
        for triple in explanation.cause:
            console.print(Text(f"  {triple['path']} = {triple['value']}"))
    if said := run_words(explanation):
        console.print(Text(said))
    console.print()
    console.print(Text(finding.text))
    console.print()
    console.print(diagram(explanation))
    console.print(Text(marks(explanation), "dim"))
    console.print()
    for line in neighbour_words(explanation):
        console.print(Text(line))
    for note in explanation.notes:
        console.print(Text(f"Note: {note}"))


def diagram(explanation: Explanation) -> Table:
    """The two ends side by side."""
    names = explanation.connection.names
    grid = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    grid.add_column("ms", justify="right", no_wrap=True)
    grid.add_column(f"{names[End.SENDER]} (sends {explanation.connection.flow})", ratio=1, min_width=24)
    grid.add_column("", no_wrap=True, width=3)
    grid.add_column(names[End.RECEIVER], ratio=1, min_width=24)
    last = None
    for one in explanation.shown:
        if isinstance(one, Line):
            time = f"{one.time_ns / 1e6:.3f}"
            grid.add_row(*_cells(one, "" if time == last else time))
            last = time
        else:
            grid.add_row(*_between(one))
            last = None
    return grid


def _cells(one: Line, time: str) -> tuple[Text, Text, Text, Text]:
    style = _DIFFERENCE if one.first_difference else _STYLES[one.look]
    text = Text(one.text + (" *" if one.first_difference else ""), style)
    arrow = ""
    if one.segment:
        arrow = _RIGHT if one.sent == (one.end == End.SENDER) else _LEFT
    left, right = (text, Text()) if one.end == End.SENDER else (Text(), text)
    return Text(time), left, Text(arrow, style), right


def _between(one: Gap | Omitted) -> tuple[Text, Text, Text, Text]:
    if isinstance(one, Gap):
        return (
            Text("···", "dim"),
            Text(one.waits[End.SENDER], "italic"),
            Text("···", "dim"),
            Text(f"{ms(one.end_ns - one.start_ns)} of silence: {one.waits[End.RECEIVER]}", "italic"),
        )
    return Text("···", "dim"), Text(f"{one.count} lines left out", "dim"), Text(), Text()
