"""Pairs of deterministic runs, which are identical or not, without statistics.

On the model and on `kernel` a run is a function of case, seed and version. Any pair that differs is therefore a result.
"""

from dataclasses import dataclass

from tcpassay.compare.pairing import SUBSTRATE, Pair, Pairing
from tcpassay.compare.separate import Separation, separate
from tcpassay.result_format import RunRow

_REAL_TIME = ("host", "remote")


@dataclass(frozen=True, slots=True)
class Exact:
    """The number of identical pairs of deterministic runs, and the pairs that differ."""

    identical: int
    different: tuple[tuple[str, int], ...]
    """Case and seed of the second side."""
    common: str
    """The smallest settings that separate them from the identical pairs, in words; empty if none differs."""
    separation: Separation | None
    """The same as data; `None` if no pair differs."""
    expected: bool
    """Whether differences are expected, because a parameter distinguishes the two sides."""

    @property
    def failed(self) -> bool:
        """Whether runs differ that should be identical."""
        return bool(self.different) and not self.expected


def exact(pairing: Pairing, equal: dict[tuple[str, int], bool]) -> Exact | None:
    """The result over the pairs; `None` if some runs were made in real time.

    `equal` contains by case and seed of the second side whether all compared metrics are equal.
    """
    if not pairing.pairs or any(_real_time(run) for two in pairing.pairs for run in (two.a, two.b)):
        return None
    same = [_identical(two, equal) for two in pairing.pairs]
    different = [two.b for two, alike in zip(pairing.pairs, same, strict=True) if not alike]
    names = set(pairing.compared)
    apart = [_varied(run, names) for run in different]
    others = [_varied(two.b, names) for two, alike in zip(pairing.pairs, same, strict=True) if alike]
    separation = separate(apart, others) if different else None
    return Exact(
        len(same) - len(different),
        tuple((str(run["case"]), int(run["seed"])) for run in different),
        separation.text if separation else "",
        separation,
        any(not _kernels(name, values) for name, values in pairing.compared.items()),
    )


def _kernels(name: str, values: tuple[str | None, str | None]) -> bool:
    """Whether the sides are two kernels, whose comparison is the purpose of the plan."""
    return name == SUBSTRATE and all((value or "").partition(":")[0] == "kernel" for value in values)


def _real_time(run: RunRow) -> bool:
    return str(run.get("substrate", "model")).partition(":")[0] in _REAL_TIME


def _identical(two: Pair, equal: dict[tuple[str, int], bool]) -> bool:
    if two.a.get("outcome") != two.b.get("outcome"):
        return False
    traces = two.a.get("trace"), two.b.get("trace")
    alike = traces[0] == traces[1] if all(traces) else True
    return alike and equal.get((str(two.b["case"]), int(two.b["seed"])), True)


def _varied(run: RunRow, apart: set[str]) -> dict[str, str]:
    return {name: str(value) for name, value in (run.get("varied") or {}).items() if name not in apart}
