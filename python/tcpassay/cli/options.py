"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay.errors import UserError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobsOption = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Number of parallel runs; by default one per core.")
]
SeedOption = Annotated[
    int | None, typer.Option(min=0, max=2**63 - 1, help="Use this seed instead of those of the plan.")
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", help="Only cases with this value or id; may be given several times.", metavar="PATH=VALUE"
    ),
]
AllowCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Accept the code files of the folder, which are executed with your rights (docs/strangers.md).",
    ),
]
TestbedOption = Annotated[
    list[str] | None,
    typer.Option(
        help="The file of a testbed that the plan names, by default of each; may be given several times.",
        metavar="[NAME=]FILE",
    ),
]
SeriesOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="A series of patches in order, on --source or Debian's 6.1: a file or a folder; may be given several "
        "times.",
        metavar="FILE",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing results.")]
JunitOption = Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.", metavar="FILE")]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Only runs with this value; may be given several times, also with several values of a parameter.",
        metavar="PATH=VALUE",
    ),
]


def pairs(
    option: str, texts: list[str] | None, what: str = "a parameter", example: str = "stack.cc=cubic"
) -> list[tuple[str, str]]:
    """The names and values of an option `NAME=VALUE` that may be repeated. Raises `UserError`."""
    made = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"`{option} {text}`: give {what} and its value, as in `{example}`")
        made.append((name, value))
    return made


def share(option: str, text: str, most: float = 1e9) -> float:
    """The share of an option, written as `5%` or `0.05`. Raises `UserError`."""
    number = text.removesuffix("%").strip()
    try:
        made = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        made = -1.0
    if not 0 <= made <= most:
        raise UserError(f"`{option} {text}`: give a share as `5%` or `0.05`, at most {100 * most:g}%")
    return made
