"""A note about jitter that reorders.

A packet overtakes the one before it if its delay is shorter by more than the time between them.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from tcpassay.plan import table
from tcpassay.plan.expand import Case, show
from tcpassay.plan.quantity import quantity

_JITTER: Final = "link.jitter"
_RATE: Final = "link.rate"
_PACKET: Final = 1500
"""Bytes of a full packet where the plan sets no size."""
_SIZES: Final = {"stack.mss": 40, "link.mtu": 0}
"""Parameters that limit a packet, and the bytes of its headers that they do not contain."""


def notes(cases: Iterable[Case]) -> list[str]:
    """A note if jitter lets full packets of a link overtake each other."""
    found: list[str] = []
    count = 0
    total = 0
    for case in cases:
        total += 1
        if case.script is None and case.expect == "done" and (said := _reorders(case)):
            count += 1
            found.append(said)
    if not found:
        return []
    which = "each case" if count == total else f"{count} of {total} cases"
    return [f"{found[0]}; so in {which} (`tcpassay params {_JITTER}`)"]


def _reorders(case: Case) -> str:
    """Why the jitter of a link in a case reorders; empty if none does."""
    for path, value in case.triples.items():
        address, _, plain = path.rpartition("/")
        if plain != _JITTER:
            continue
        named = f"{address}/{_RATE}" if address else _RATE
        said = case.triples.get(named, case.triples.get(_RATE, table.parameters()[_RATE].default))
        jitter, rate = quantity(show(value)).amount, quantity(show(said)).amount
        if not isinstance(jitter, Fraction) or not isinstance(rate, Fraction) or not rate:
            continue
        size = _packet(case)
        took = size * 8 * 10**9 / rate
        if 2 * jitter > took:
            return (
                f"`{path}` = `{show(value)}` reorders packets: twice the jitter is longer than the "
                f"{float(took) / 1000:.3g} us in which `{named}` = `{show(said)}` sends a packet of {size} bytes"
            )
    return ""


def _packet(case: Case) -> int:
    sizes = [_PACKET]
    for path, value in case.triples.items():
        if (headers := _SIZES.get(path.rpartition("/")[2])) is None:
            continue
        amount = quantity(show(value)).amount
        if isinstance(amount, Fraction):
            sizes.append(int(amount) + headers)
    return min(sizes)
