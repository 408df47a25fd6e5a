"""Random cases beyond the values of a plan, for changed lines that none of its combinations executes.

A case begins with settings of a case of the plan, each of which stays with a probability of a half, and gets some
further settings of the parameter table. These are dealt like cards, so that each value of each parameter occurs before
one occurs again; first come those whose words occur in the names of the changed files and functions (`bbr` in
`tcp_bbr.c`).
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
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
_TRIES: Final = 30
"""Attempts to find a case with a value; most need one, some (as `dctcp`) need others that they depend on."""
_COMMON: Final = frozenset({
    "net", "ipv4", "tcp", "c", "h", "include", "sock", "skb", "rcv", "snd", "send", "on", "off", "a", "is", "in", "of",
    "to", "set", "get", "init", "update", "check", "all", "data", "ack", "max", "min", "1", "2", "3", "4", "6",
})  # fmt: skip
"""Words of so many names that they say nothing about a change."""
_WORD: Final = re.compile(r"[a-z0-9]+")

Drawn = tuple[dict[str, fields.Scalar], list[Case]]
"""The settings of a case, and the case on each substrate."""


def settings() -> dict[str, list[str]]:
    """The parameters that a drawn case may set, with their typical levels and words."""
    return {
        row.path: list(dict.fromkeys((*row.levels, *row.choices)))
        for row in table.parameters().values()
        if row.levels and _SUBSTRATE in row.substrates and row.path not in _LEFT_OUT
    }


def draws(
    plan: Plan, among: Sequence[Case], words: Container[str], kept: Container[str], random: Random
) -> Iterator[Drawn]:
    """Cases that begin with some of those of `among`, without end, unless no value is accepted.

    Values with one of the `words` come first. The parameters `kept` have the values of the case.
    """
    known = settings()
    while True:
        cards = [(path, value) for path, values in known.items() if path not in kept for value in values]
        random.shuffle(cards)
        cards.sort(key=lambda card: not any(word in words for word in _words(card)))
        some = False
        while cards:
            path, value = cards.pop(0)
            for attempt in range(_TRIES):
                made = _kept(plan, random.choice(among), kept, random) | {path: value}
                # If further cards do not fit, others are tried, and sometimes none.
                further = (
                    random.sample(cards, min(len(cards), random.randrange(_MOST))) if attempt % 2 == 0 else []
                )
                made |= {name: text for name, text in further if name != path}
                try:
                    found = list(stated.made(made, plan.spec, plan.file.parent))
                except _native.CaseError:
                    continue
                cards = [card for card in cards if card not in further]
                some = True
                yield made, found
                break
        if not some:
            return


def _kept(plan: Plan, case: Case, kept: Container[str], random: Random) -> dict[str, fields.Scalar]:
    settings_: Mapping[str, fields.Scalar] = case.triples
    return {
        path: value
        for path, value in settings_.items()
        if plan.spec.fixed.get(path) != value and (path in kept or random.random() < 0.5)  # noqa: PLR2004 - a half
    }


def words_of(texts: Sequence[str]) -> frozenset[str]:
    """The words in names of files and functions, without those that all have."""
    return frozenset(word for text in texts for word in _WORD.findall(text.lower())) - _COMMON


def _words(card: tuple[str, str]) -> list[str]:
    """The words of a setting: those of its value, and the last part of its path."""
    path, value = card
    return [*_WORD.findall(value.lower()), *_WORD.findall(path.rpartition(".")[2].lower())]
