"""Tables as text for a terminal, CSV, Markdown and LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from rich.console import Console
from rich.markup import escape

from tcpassay import terminal

Format = Literal["text", "csv", "markdown", "latex"]
FORMATS: Final = get_args(Format)
_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "µ": r"\textmu{}",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: texts for readers, and the same numbers without rounding."""

    title: str
    """In the form `NAME: what it shows`."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int
    """The number of columns at the left that name a row; the others contain values."""
    records: tuple[Mapping[str, object], ...]
    """The rows of CSV: numbers in the unit of the metric, names in a fixed order."""


def show(sheet: Sheet, console: Console) -> None:
    """Prints a table to a terminal."""
    name, colon, text = sheet.title.partition(":")
    if sheet.title:
        console.print(f"[bold]{escape(name)}[/]{escape(colon + text)}", highlight=False)
    drawn = terminal.grid()
    for number, column in enumerate(sheet.header):
        drawn.add_column(escape(column), justify="left" if number < sheet.left else "right", overflow="fold")
    for row in sheet.rows:
        drawn.add_row(*map(escape, row))
    console.print(drawn)


def written(sheets: Sequence[Sheet], form: Format) -> str:
    """The text of tables in a format other than `text`."""
    if form == "csv":
        return _csv(sheets)
    one = _markdown if form == "markdown" else _latex
    return "\n".join(one(sheet) for sheet in sheets)


def _csv(sheets: Sequence[Sheet]) -> str:
    """All tables as one, because a file of CSV has one header."""
    records = [record for sheet in sheets for record in sheet.records]
    names = list(dict.fromkeys(name for record in records for name in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _markdown(sheet: Sheet) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---" if number < sheet.left else "---:" for number in range(len(sheet.header))]
    title = [sheet.title, ""] if sheet.title else []
    return "\n".join([*title, line(sheet.header), line(rule), *map(line, sheet.rows)]) + "\n"


def _latex(sheet: Sheet) -> str:
    """A table for the package `booktabs`, whose title is a comment: papers have their own captions."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

    columns = "l" * sheet.left + "r" * (len(sheet.header) - sheet.left)
    return "\n".join(
        [
            f"% {sheet.title} (needs \\usepackage{{booktabs}})".replace("\n", " "),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            line(sheet.header),
            r"\midrule",
            *map(line, sheet.rows),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
