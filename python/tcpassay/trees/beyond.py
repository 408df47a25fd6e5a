"""Random cases beyond the values of a plan, for changed lines that none of its combinations executes.

A case begins with settings of a case of the plan, each of which stays with a probability of a half, and gets some
further settings of the parameter table. What both kernels refuse is drawn again.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from tcpassay import _native
from tcpassay.plan import fields, stated, table
from tcpassay.plan.expand import Case
from tcpassay.plan.read import Plan

_SUBSTRATE: Final = "kernel"
_LEFT_OUT: Final = frozenset({
    "topology", "rack.hosts", "rack.uplink", "switch.buffers", "link.rate", "link.delay", "nic.rate", "queue.rate",
    "app.duration", "app.start", "app.flows", "app.mix", "app.background", "app.blocking", "stack.profile",
    "stack.cc_engine", "stack.implementation",
})  # fmt: skip
"""What decides how long a run takes, and what no guest has."""
_MOST: Final = 6
"""Largest number of further settings."""
_TRIES: Final = 200
"""Draws for one case, after which there is none."""

Drawn = tuple[dict[str, fields.Scalar], list[Case]]
"""The settings of a case, and the case on each substrate."""


def settings() -> dict[str, list[str]]:
    """The parameters that a drawn case may set, with their typical levels."""
    return {
        row.path: row.levels
        for row in table.parameters().values()
        if row.levels and _SUBSTRATE in row.substrates and row.path not in _LEFT_OUT
    }


def draws(plan: Plan, among: Sequence[Case], random: Random) -> Iterator[Drawn]:
    """Cases that begin with some of those of `among`, without end, unless hardly any draw is accepted."""
    known, names = settings(), sorted(settings())
    base = plan.file.parent
    while True:
        for _ in range(_TRIES):
            kept = random.choice(among).triples
            made = {
                path: value
                for path, value in kept.items()
                if plan.spec.fixed.get(path) != value and random.random() < 0.5  # noqa: PLR2004 - a half
            }
            made |= {
                path: random.choice(known[path]) for path in random.sample(names, random.randint(1, _MOST))
            }
            try:
                yield made, list(stated.made(made, plan.spec, base))
            except _native.CaseError:
                continue
            break
        else:
            return
