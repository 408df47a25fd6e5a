"""The difference of two clocks, estimated from exchanges of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_ENOUGH: Final = 6
"""The number of exchanges that `settled` compares with those before."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, in nanoseconds of two clocks."""

    sent: int
    """By the clock of this host."""
    remote: int
    """When the other host answered, by its clock."""
    received: int
    """By the clock of this host."""

    @property
    def round_trip(self) -> int:
        """Time between question and answer."""
        return self.received - self.sent


@dataclass(frozen=True, slots=True)
class Offset:
    """How much the clock of another host is ahead, in nanoseconds."""

    ahead: int
    error: int
    """The largest error of `ahead`: half of the shortest round trip, since either way may have taken all of it."""


def estimate(exchanges: Sequence[Exchange]) -> Offset:
    """The offset from the exchange with the shortest round trip, as NTP's clock filter (RFC 5905 section 10).

    Raises `ValueError` without an exchange, or if this host's clock went back.
    """
    if not exchanges:
        raise ValueError("an offset needs an exchange")
    best = min(exchanges, key=lambda one: one.round_trip)
    if best.round_trip < 0:
        raise ValueError("the clock of this host was set back")
    middle = best.sent + best.round_trip // 2
    return Offset(best.remote - middle, (best.round_trip + 1) // 2)


def settled(exchanges: Sequence[Exchange], known: int | None = None) -> bool:
    """Whether more exchanges would add little. `known` is the shortest round trip of earlier estimates.

    One exchange suffices that is at most a tenth longer than `known`. Otherwise the last ones must not have shortened
    the shortest round trip by a tenth, and it must not be twice as long as `known`, as it is while a host is busy.
    """
    trips = [one.round_trip for one in exchanges]
    if known is not None and 10 * min(trips) <= 11 * known:
        return True
    ended = len(trips) > _ENOUGH and 10 * min(trips[-_ENOUGH:]) > 9 * min(trips[:-_ENOUGH])
    return ended and (known is None or min(trips) <= 2 * known)


def known_after(exchanges: Sequence[Exchange], known: int | None) -> int:
    """The shortest known round trip after an estimate. It grows slowly if the path has become longer."""
    shortest = min(one.round_trip for one in exchanges)
    return shortest if known is None else min(shortest, known + known // 5)


def drift(before: Offset, after: Offset) -> int:
    """By how much the other clock has moved ahead between two estimates, in nanoseconds."""
    return after.ahead - before.ahead
