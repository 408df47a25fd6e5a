"""Comparison of two TCPs, or of two versions of one: the same cases with each, and what differs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from tcpassay import trees
from tcpassay.errors import UserError
from tcpassay.plan.read import Plan, read_file
from tcpassay.results import load
from tcpassay.run.execute import Watch
from tcpassay.stacks.catalogue import checked_name, column
from tcpassay.trees.comparison import evaluate, ran
from tcpassay.trust import consent

DEFAULT: Final = Path(__file__).with_name("compare.toml")
"""The plan that is run if none is given."""


@dataclass(frozen=True, slots=True)
class StackSide:
    """One of the two TCPs."""

    name: str
    """The value of `stack.implementation`."""
    release: str
    """Name and version, as it reports them."""

    @property
    def substrate(self) -> str:
        """The substrate on which plans run with it."""
        return f"model:{self.name}"

    @property
    def words(self) -> str:
        """Name and version."""
        return f"{self.name} ({self.release})"

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return asdict(self)


def read_plan(file: Path | None, base: str, head: str) -> Plan:
    """The plan with both TCPs. Raises `UserError`."""
    if base == head:
        raise UserError(f"`{base}` is given twice; give two values of `stack.implementation`")
    for name in (base, head):
        checked_name(name)
        if (command := consent.command(name)) is not None:
            consent.grant([consent.digest(consent.command_code(command))])
    return read_file(file or DEFAULT, substrates=[f"model:{base}", f"model:{head}"])


def compare(  # noqa: PLR0913, PLR0917 - what is compared, where, how, and who is told
    base: str,
    head: str,
    plan: Plan,
    folder: Path,
    options: trees.Options,
    progress: Watch | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> trees.TreeComparison:
    """Runs a plan of `read_plan` with both TCPs and compares the runs. Raises `UserError`.

    Versions of one TCP are compared packet by packet unless the options say otherwise, different ones by metrics,
    outcomes and findings.
    """
    sides = StackSide(base, column(base)), StackSide(head, column(head))
    alike = base.partition("@")[0] == head.partition("@")[0]
    chosen = replace(options, by=options.by or ("packets" if alike else "metrics"))
    result = ran(plan, folder, options, progress)
    missing = sum(not run.begun for run in result.runs)
    interrupted = result.status == "interrupted"
    return evaluate(sides, plan, load(folder), chosen, missing, watch, interrupted=interrupted)
