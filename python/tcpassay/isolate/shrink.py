"""Reduction of a run that still shows an effect: duration, number of flows, rates and bytes."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from tcpassay.isolate.ddmin import ddmin
from tcpassay.isolate.triples import DURATION, Triple, Triples
from tcpassay.plan.fields import Scalar
from tcpassay.plan.quantity import Quantity, quantity

Shows = Callable[[Triples], bool]
"""Whether a run with these settings shows the effect."""

LIST: Final = "list:"
"""The prefix of values of `link.loss_model` that list the lost packets."""
SHORTEST: Final = Fraction(10**6)
"""Minimum duration of a reduced run in nanoseconds."""
FEWEST_BYTES: Final = Fraction(1000)
SLOWEST: Final = Fraction(10**6)
"""Bits a second."""
_UNITS: Final = {
    "a length of time": ("ns", "us", "ms", "s"),
    "a number of bytes": ("B", "KB", "MB", "GB"),
    "a rate": ("bit", "Kbit", "Mbit", "Gbit"),
}


def ladder(low: Fraction, high: Fraction) -> list[Fraction]:
    """The numbers 1, 2 and 5 times a power of ten above `low` and below `high`, rising; `low` may be 0."""
    if high <= 0 or low >= high:
        return []
    floor = low if low > 0 else high / 1000
    power = Fraction(1)
    while power > floor:
        power /= 10
    while power * 10 <= floor:
        power *= 10
    made = []
    while power < high:
        made += [power * step for step in (1, 2, 5) if floor < power * step < high]
        power *= 10
    return made


def written(amount: Fraction, kind: str, like: Scalar) -> Scalar:
    """An amount in the format of a plan; a share as a percentage if `like` is one."""
    if kind in _UNITS:
        units = _UNITS[kind]
        scale = max((n for n in range(len(units)) if amount >= 1000**n and not amount % 1000**n), default=0)
        if amount.denominator != 1:
            return f"{float(amount):g}{units[0]}"
        return f"{int(amount / 1000**scale)}{units[scale]}"
    if kind == "a number of packets":
        return f"{int(amount)}p"
    if isinstance(like, str) and like.endswith("%"):
        return f"{float(amount * 100):g}%"
    return int(amount) if amount.denominator == 1 else float(amount)


def least(steps: Sequence[Triples], shows: Shows) -> Triples | None:
    """The first of these rising steps that shows the effect, if the later ones do as well; `None` if none does.

    It halves the steps, so that a step which shows the effect below one that does not may be missed; what is returned
    does show it.
    """
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if shows(steps[middle]):
            high = middle
        else:
            low = middle + 1
    return steps[low] if low < len(steps) else None


def simpler_values(cause: Triples, shows: Callable[[Triples], bool]) -> Triples:
    """The cause with each amount replaced by the round number nearest to the default that still shows the effect."""
    current = cause
    for triple in sorted(cause, key=lambda one: one.path):
        steps = [(current - {triple}) | {Triple(triple.path, value)} for value in _towards_default(triple)]
        if found := least(steps, shows):
            current = found
    return current


def shorter_lists(cause: Triples, shows: Shows) -> Triples:
    """The cause with the fewest packets in each list of lost packets that still show the effect."""
    current = cause
    for triple in sorted(cause, key=lambda one: one.path):
        if not str(triple.value).startswith(LIST):
            continue
        rest = current - {triple}
        lost = [int(packet) for packet in str(triple.value).removeprefix(LIST).split(",")]

        def first(
            candidates: Sequence[frozenset[int]], rest: Triples = rest, path: str = triple.path
        ) -> int | None:
            for place, packets in enumerate(candidates):
                if packets and shows(rest | {_listed(path, packets)}):
                    return place
            return None

        current = rest | {_listed(triple.path, frozenset(ddmin(lost, first)))}
    return current


def _listed(path: str, packets: frozenset[int]) -> Triple:
    return Triple(path, f"{LIST}{','.join(map(str, sorted(packets)))}")


def _towards_default(triple: Triple) -> list[Scalar]:
    """Round values between a parameter's default and this one, those near the default first."""
    value, default = quantity(triple.value), quantity(triple.default)
    here = value.amount
    # If the default is a word (`auto`, `none`), the smallest value is nearest.
    there = default.amount if default.kind == value.kind or default.amount == 0 else Fraction(0)
    if not isinstance(here, Fraction) or not isinstance(there, Fraction):
        return []
    whole = value.kind != "a number" or (here.denominator == 1 and there.denominator == 1)
    if whole and value.kind == "a number" and abs(here - there) <= 16:  # noqa: PLR2004 - few enough to try each
        between = [Fraction(n) for n in range(int(min(here, there)) + 1, int(max(here, there)))]
    else:
        between = [
            one for one in ladder(min(here, there), max(here, there)) if not whole or one.denominator == 1
        ]
    ordered = between if there < here else between[::-1]
    return [written(one, value.kind, triple.value) for one in ordered]


def shorter(cause: Triples, run: Triples, shows: Shows) -> Triples:
    """The run with reduced duration, rates and bytes.

    The parameters of the cause keep their values.
    """
    named = {one.path for one in cause}
    current = run
    for path, floor, unit in (
        (DURATION, SHORTEST, "a length of time"),
        ("link.rate", SLOWEST, "a rate"),
        (DURATION, SHORTEST, "a length of time"),
        ("app.flow_size", FEWEST_BYTES, "a number of bytes"),
    ):
        if path in named:
            continue
        set_ = next((one for one in current | cause if one.path == path), None)
        current = _less(path, floor, unit, set_, current, shows)
    return current


def _less(path: str, floor: Fraction, unit: str, set_: Triple | None, run: Triples, shows: Shows) -> Triples:  # noqa: PLR0913, PLR0917
    default = Triple(path, "").default
    limit: Quantity = quantity(set_.value if set_ else default)
    top = limit.amount if isinstance(limit.amount, Fraction) else None
    if path == "app.flow_size":
        top = Fraction(10**9) if top is None and (set_ is None or set_.text == "endless") else top
    if top is None:
        return run
    rest = frozenset(one for one in run if one.path != path)
    # Other rates than powers of ten are not simpler than the default.
    amounts = [
        one for one in ladder(floor / 2, top) if unit != "a rate" or str(one.numerator).strip("0") == "1"
    ]
    steps = [rest | {Triple(path, written(one, unit, ""))} for one in amounts]
    return least(steps, shows) or run
