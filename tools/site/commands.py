"""The reference of the commands, from the program itself."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import typer

from tcpassay.cli.assemble import assembled

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECIAL: Final = re.compile(r"`[^`]*`|[<*_\[]")

HEAD: Final = """# Commands

<!-- Generated from the program by tools/site. -->

`tcpassay COMMAND --help` prints the same text. Exit code 2 is an error in the input, 70 a bug of tcpassay; the
other exit codes are stated with each command.
"""


def reference() -> str:
    """Returns the page in Markdown."""
    os.environ["COLUMNS"] = "200"
    root = typer.main.get_command(assembled())
    return HEAD + "".join(_sections(root, typer.Context(root, info_name="tcpassay"), 2))


def _sections(command: Any, context: typer.Context, level: int) -> Iterator[str]:
    """Returns the sections of a command, or of the commands of a group."""
    if not hasattr(command, "list_commands"):
        yield from _command(command, context, level)
        return
    if context.parent is not None:
        yield f"\n{'#' * level} `{context.command_path}`\n\n{_text(command.help)}\n"
        level += 1
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if not child.hidden:
            yield from _sections(child, typer.Context(child, info_name=name, parent=context), level)


def _command(command: Any, context: typer.Context, level: int) -> Iterator[str]:
    usage = command.get_usage(context).partition("Usage: ")[2]
    yield f"\n{'#' * level} `{context.command_path}`\n\n{_text(command.help)}\n\n"
    yield "    " + " ".join(usage.split()) + "\n"
    rows = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [row for row in rows if row is not None and not row[0].startswith(("-h", "--help"))]
    if rows:
        yield "\n| argument or option | meaning |\n| --- | --- |\n"
        yield from (f"| `{_cell(name)}` | {_escaped(_cell(text))} |\n" for name, text in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Returns a text in which Markdown reads no HTML and no emphasis outside of code."""
    return SPECIAL.sub(lambda found: found[0] if found[0].startswith("`") else f"\\{found[0]}", text)


def _text(text: str | None) -> str:
    """Returns a help text; a form feed ends what `--help` prints."""
    return "\n\n".join(
        _escaped(" ".join(part.split())) for part in (text or "").partition("\f")[0].split("\n\n")
    )
