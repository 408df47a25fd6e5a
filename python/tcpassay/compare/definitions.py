"""Metrics whose definition differs between two results and which are therefore not compared.

Some metrics depend on the collection settings of the plan: means over the intervals of the series depend on the
interval, and a warm-up changes the excluded time. Such a difference is not caused by TCP.
"""

import tomllib
from dataclasses import dataclass
from typing import Final

from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.plan.quantity import quantity
from tcpassay.results import Results

BY_SERIES: Final = frozenset(
    (
        "alpha_mean",
        "cwnd_mean",
        "longest_silence",
        "oscillation_period",
        "oscillation_strength",
        "queue_peak_mean",
        "rto_mean",
        "srtt_mean",
        "ssthresh_mean",
    )
)
"""Metrics that are computed over the intervals of the series."""
WHOLE: Final = "in the whole run"
"""Text in the table of metrics for metrics that do not depend on the warm-up."""
_DEFAULTS: Final = {"series": "10ms", "warmup": "0s"}


@dataclass(frozen=True, slots=True)
class Skipped:
    """Metrics that are not compared, and the reason."""

    metrics: tuple[str, ...]
    why: str


def skipped(a: Results, b: Results, names: list[str]) -> list[Skipped]:
    """The metrics among `names` whose definition differs between two results."""
    made: list[Skipped] = []
    left, right = _collect(a), _collect(b)
    for key, changes in (("series", _by_series), ("warmup", _by_warmup)):
        one, other = left[key], right[key]
        if one is None or other is None:
            why = f"plan.toml of {(a if one is None else b).folder} does not say `collect.{key}`"
        elif not _same(one, other):
            why = f"`collect.{key}` is {one} in a and {other} in b"
        else:
            continue
        gone = {name for before in made for name in before.metrics}
        if concerned := tuple(name for name in names if changes(name) and name not in gone):
            made.append(Skipped(concerned, why))
    return made


def _by_series(name: str) -> bool:
    return name in BY_SERIES


def _by_warmup(name: str) -> bool:
    row = METRICS.get(name)
    return row is None or WHOLE not in row.doc


def _collect(results: Results) -> dict[str, str | None]:
    """The settings of [collect] that change metrics; `None` if the plan cannot be read."""
    try:
        said: object = tomllib.loads(results.plan).get("collect", {})
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not results.plan:
        return dict.fromkeys(_DEFAULTS)
    return {key: str(said.get(key, default)) for key, default in _DEFAULTS.items()}


def _same(a: str, b: str) -> bool:
    try:
        return quantity(a) == quantity(b)
    except UserError:
        return a == b


def versions(a: Results, b: Results) -> list[str]:
    """Differences between the plans and the program versions of two results, each as a sentence."""
    said = []
    for name, what in (("tcpassay", "tcpassay"), ("tables", "tables of parameters and metrics")):
        one, other = a.environment.get(name), b.environment.get(name)
        if one and other and one != other:
            said.append(f"{what}: {one} in a, {other} in b")
    ours, theirs = _dict(a.environment.get("substrates")), _dict(b.environment.get("substrates"))
    # Plans with different kernels are distinguished by the substrate of their runs.
    said += [
        f"Linux of the substrate `{name}`: {ours[name]} in a, {theirs[name]} in b"
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]
    one, other = _dict(a.index.get("plan")), _dict(b.index.get("plan"))
    if one and other and one.get("sha256") != other.get("sha256"):
        named = [str(plan.get("name")) for plan in (one, other)]
        differ = (
            f"{named[0]} in a, {named[1]} in b" if named[0] != named[1] else f"{named[0]}, in two versions"
        )
        said.append(f"plans: {differ}")
    return said


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
