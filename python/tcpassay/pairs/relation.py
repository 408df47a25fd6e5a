"""The settings of the path whose change in one direction must not degrade a result."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tcpassay.plan.quantity import Value, quantity


@dataclass(frozen=True, slots=True)
class Relation:
    """A setting of the path, and the direction in which it makes the path easier."""

    path: str
    default: str
    fewer: bool
    """Whether a smaller value makes the path easier (delay, loss); otherwise a larger one does (a buffer)."""
    kind: str
    """The kind of its values, in the words of `quantity`."""
    why: str
    partner: Callable[[Fraction], str]
    """Returns an easier value than an amount above zero."""

    def amount(self, value: Value) -> Fraction | None:
        """The amount of a value; `None` for a word or another kind of amount."""
        known = quantity(value)
        return known.amount if isinstance(known.amount, Fraction) and known.kind == self.kind else None

    def easier(self, one: Value, other: Value) -> bool:
        """Whether `other` makes the path easier than `one`. False where the two cannot be compared."""
        first, second = self.amount(one), self.amount(other)
        if first is None or second is None:
            return False
        return second < first if self.fewer else second > first


RELATIONS: Final = (
    Relation(
        "link.delay",
        "50us",
        fewer=True,
        kind="a length of time",
        why="a shorter delay gives every control loop faster feedback",
        partner=lambda ns: f"{max(round(ns / 2), 1)}ns",
    ),
    Relation(
        "link.loss",
        "0",
        fewer=True,
        kind="a number",
        why="a path without loss needs no retransmissions",
        partner=lambda _: "0",
    ),
    Relation(
        "queue.limit",
        "auto",
        fewer=False,
        kind="a number of bytes",
        why="a larger buffer drops less",
        partner=lambda size: f"{round(size * 4)}B",
    ),
)
"""Settings of a stack are not listed, because none has a direction that is always better."""
