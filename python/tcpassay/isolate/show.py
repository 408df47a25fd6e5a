"""An isolation as text: cause, effects, proof, smallest run, cost."""

import shlex

from rich.console import Console
from rich.markup import escape

from tcpassay import terminal
from tcpassay.isolate.cause import Cause
from tcpassay.isolate.experiment import Rate
from tcpassay.isolate.isolation import Isolation
from tcpassay.isolate.ran import Effect
from tcpassay.plan.expand import show as value_text
from tcpassay.plural import plural

_STYLES = {"error": "bold red", "warning": "yellow"}


def show(isolation: Isolation, console: Console) -> None:
    """Prints the result of an isolation."""
    for note in isolation.notes:
        console.print(f"note: {escape(note)}", style="yellow", highlight=False)
    for number, cause in enumerate(isolation.causes, 1):
        _cause(cause, number, len(isolation.causes), console)
    for effect, runs in isolation.everywhere:
        said = (
            f"{effect.title} ({effect.oracle}): all {runs} runs have it, so that no varied setting of the plan "
            "causes it. It is not isolated; --force isolates it from all settings of the plan."
        )
        console.print(f"[yellow]{escape(said)}[/]\n", highlight=False)
    for one in isolation.unreproduced:
        said = f"{one.case}-{one.seed}/{one.effect.oracle} does not reproduce: {one.why}"
        console.print(f"[yellow]{escape(said)}[/]\n", highlight=False)
    if isolation.stopped:
        left = f"; {len(isolation.left)} findings are left" if isolation.left else ""
        then = "the same command begins again" if isolation.again else "the same command continues from here"
        said = f"{isolation.stopped}{left}: {then}"
        console.print(f"[yellow]{escape(said)}[/]", highlight=False)
    elif not (isolation.causes or isolation.everywhere or isolation.unreproduced):
        console.print("The runs there have no findings.", highlight=False)
        return
    earlier = isolation.runs - isolation.made
    before = f", {earlier} of them made before" if earlier else ""
    cost = (
        f"{plural(isolation.runs, 'run')}{before}; {isolation.cpu_s:.1f} s of CPU, {isolation.seconds:.1f} s"
    )
    console.print(cost, style="dim", highlight=False)


def _cause(cause: Cause, number: int, of: int, console: Console) -> None:
    style = _STYLES.get(cause.effect.severity, "bold")
    counted = f"Cause {number} of {of}: " if of > 1 else "Cause: "
    console.print(
        f"[{style}]{counted}{escape(cause.effect.title)}[/] ({cause.effect.oracle})", highlight=False
    )
    if cause.why_not:
        what = "there is no proof yet" if cause.complete else "a smaller set may have the finding, too"
        said = f"{cause.why_not}: this is the smallest set so far; {what}"
        console.print(f"  [yellow]{escape(said)}[/]", highlight=False)
    if not cause.triples:
        console.print("  no setting: it occurs with every parameter at its default", highlight=False)
    grid = terminal.grid("  entity", "parameter", "value", "reset to" if cause.baseline else "default")
    for one in cause.triples:
        grid.add_row(
            f"  {escape(one.entity)}",
            escape(one.parameter),
            f"[bold]{escape(one.text)}[/]",
            escape(cause.reset_value(one)),
        )
    if cause.triples:
        console.print(grid)
    if cause.required:
        named = ", ".join(sorted(one.path for one in cause.required))
        console.print(
            f"  {escape(named)}: other values have the same effect; the default contradicts the other settings",
            highlight=False,
        )
    for line in _rest(cause):
        console.print(f"  {escape(line)}", highlight=False, style="dim")
    _effects(cause, console)
    _proof(cause, console)
    if cause.smallest is not None:
        changed = ", ".join(f"{path}={value_text(value)}" for path, value in cause.smallest.changed.items())
        console.print(
            f"\n  Smallest run: {escape(changed or 'that of the cause')}; it shows in {_runs(cause.smallest.rate)}",
            highlight=False,
        )
    console.print(f"  tcpassay run {escape(shlex.quote(cause.plan))}", highlight=False, soft_wrap=True)
    console.print(
        f"  {plural(cause.runs, 'run')}, {cause.cpu_s:.1f} s of CPU\n", highlight=False, style="dim"
    )


def _rest(cause: Cause) -> tuple[str, str]:
    run = ", ".join(f"{one.path}={one.text}" for one in sorted(cause.run, key=str))
    beside = f" ({run})" if run else ""
    where = "" if cause.substrate == "model" else f" on {cause.substrate}"
    return (
        f"all other parameters at their defaults{beside}",
        f"isolated from case {cause.case} seed {cause.seed}{where}",
    )


def _effects(cause: Cause, console: Console) -> None:
    console.print(f"\n  It produces, in {_runs(cause.rate)}:", highlight=False)
    for effect in sorted(cause.effects):
        _effect(effect, console)
    if cause.consequences:
        console.print("  With further settings of the plan it is also necessary for:", highlight=False)
        for effect in sorted(cause.consequences):
            _effect(effect, console)
    if cause.explains:
        runs = {(case, seed) for case, seed, _ in cause.explains}
        console.print(f"  It explains findings of {plural(len(runs), 'run')} of the plan.", highlight=False)


def _effect(effect: Effect, console: Console) -> None:
    style = _STYLES.get(effect.severity, "bold")
    console.print(f"    [{style}]{effect.severity}[/] {escape(effect.title)}", highlight=False)


def _proof(cause: Cause, console: Console) -> None:
    if not cause.proof:
        return
    said = "With any one triple reset the finding is gone:" if cause.proven else "With one triple reset:"
    if cause.proven and not all(row.gone for row in cause.proof):
        said = "With any one triple reset to its default the finding is gone:"
    console.print(f"\n  {said}", highlight=False)
    grid = terminal.grid("  triple", "reset to", "finding in")
    for row in cause.proof:
        also = f" (resets {', '.join(one.parameter for one in row.also)}, too)" if row.also else ""
        colour = "green" if row.gone else "red"
        grid.add_row(
            f"  {escape(str(row.triple))}",
            escape(row.value + also),
            f"[{colour}]{escape(rate_text(row.rate))}[/]",
        )
    console.print(grid)
    if any(row.rate.alike for row in cause.proof):
        said = "all, none: a case without random events is the same with every seed."
        console.print(f"  {said}", highlight=False, style="dim")
    if cause.miss:
        said = f"Probability that a reset only seems to remove the finding: at most {cause.miss:.1%}."
        console.print(f"  {said}", highlight=False, style="dim")


def rate_text(rate: Rate) -> str:
    """In how many runs a finding occurs."""
    if not rate.runs:
        return rate.problem or "not run"
    if rate.alike:
        return "all" if rate.shown else "none"
    return f"{rate.shown} of {rate.runs} runs"


def _runs(rate: Rate) -> str:
    return "every run" if rate.alike else rate_text(rate)
