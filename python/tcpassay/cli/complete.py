"""Completions of values in shells: metrics, parameters, cases and seeds of a folder, kernels, experiments.

A completion that cannot be computed is none: a shell must not show errors while the user types.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import typer

from tcpassay.interface import METRICS

Completion = Callable[[typer.Context, str], list[str]]


def _safe(names: Callable[[typer.Context], Iterable[str]]) -> Completion:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [name for name in names(ctx) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001 - see above
            return []

    return complete


def _words(*words: str) -> Completion:
    return _safe(lambda _: words)


def _parameters(_: typer.Context) -> Iterable[str]:
    from tcpassay.plan import table  # noqa: PLC0415 - start-up time

    return table.parameters()


def _runs(ctx: typer.Context) -> Iterable[tuple[str, dict[str, object]]]:
    """Case and varied values of the runs of the folder that the command line names."""
    from tcpassay.results import load  # noqa: PLC0415 - start-up time

    # While the value of an option is missing, the arguments before it have not been assigned.
    folder = ctx.params.get("folder") or ctx.params.get("a") or next(iter(ctx.args), ".")
    return [(str(run["case"]), dict(run.get("varied") or {})) for run in load(Path(str(folder))).runs]


def _varied(ctx: typer.Context) -> Iterable[str]:
    return dict.fromkeys(name for _, varied in _runs(ctx) for name in varied)


def _where(ctx: typer.Context) -> Iterable[str]:
    from tcpassay.results import as_text  # noqa: PLC0415 - start-up time

    return dict.fromkeys(
        f"{name}={as_text(value)}" for _, varied in _runs(ctx) for name, value in varied.items()
    )


def _cases(ctx: typer.Context) -> Iterable[str]:
    return dict.fromkeys(case for case, _ in _runs(ctx))


def _kernels(_: typer.Context) -> Iterable[str]:
    from tcpassay.kernel import store  # noqa: PLC0415 - start-up time

    return [one.name for one in store.kernels()]


def _oracles(_: typer.Context) -> Iterable[str]:
    from tcpassay.judge.registry import ORACLES  # noqa: PLC0415 - start-up time

    return ORACLES


def _experiments(_: typer.Context) -> Iterable[str]:
    from tcpassay.experiments import catalogue  # noqa: PLC0415 - start-up time

    return catalogue.names(catalogue.folder(None))


metrics, parameters, varied, where = (_safe(one) for one in (lambda _: METRICS, _parameters, _varied, _where))
cases, kernels, oracles, experiments = (_safe(one) for one in (_cases, _kernels, _oracles, _experiments))
_EVERYWHERE: Final[Mapping[str, Completion]] = {
    "metric": metrics,
    "by": varied,
    "group": varied,
    "between": varied,
    "ignore": varied,
    "where": where,
    "where_a": where,
    "where_b": where,
    "case": cases,
    "cases": cases,
    "against": cases,
    "oracle": oracles,
    "kernel": kernels,
    "format_": _words("text", "csv", "markdown", "latex"),
    "per": _words("host", "flow"),
    "of": _words("rtt", "completion"),
    "scale": _words("linear", "log"),
    "series": _words("throughput", "flows", "rtt", "cwnd", "queue", "marks"),
    "contract": _words("window", "rate", "any"),
    "shell": _words("bash", "zsh", "fish"),
}
"""The completion of an argument or option of this name, in any command."""
_OF_COMMAND: Final[Mapping[tuple[str, str], Completion]] = {
    ("params", "names"): parameters,
    ("metrics", "names"): metrics,
    ("compare", "base"): kernels,
    ("compare", "head"): kernels,
    ("remove", "names"): kernels,
    ("run", "names"): experiments,
    ("plot", "kind"): _words(
        "timeline", "sequence", "distribution", "diagram", "line", "bar", "box", "cdf", "heat"
    ),
}
"""The completion of an argument or option of one command, by the name of its function."""


def attach(app: typer.Typer) -> None:
    """Attaches the completions to the arguments and options of all commands."""
    for command in app.registered_commands:
        if command.callback is not None:
            _attach_to(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance)


def _attach_to(callback: Callable[..., object]) -> None:
    for name, annotation in callback.__annotations__.items():
        infos = [
            one
            for one in getattr(annotation, "__metadata__", ())
            if isinstance(one, typer.models.ParameterInfo) and annotation.__origin__ is not bool
        ]
        for info in infos:
            known = _OF_COMMAND.get((callback.__name__, name)) or _EVERYWHERE.get(name)
            if known is not None:
                info.autocompletion = known
