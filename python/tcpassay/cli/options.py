"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
JunitOption = Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.", metavar="FILE")]
