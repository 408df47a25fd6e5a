"""Bisection: the first of several ordered states of a kernel that behaves differently from the first one.

This module knows neither kernels nor runs. A state is built and observed by a function that it is given; states that
cannot be built are skipped, as `git bisect skip` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tcpassay.errors import UserError
from tcpassay.guard import Stop

Observe = Callable[[str], str]
"""Builds a state, runs the case on it and returns its behaviour; equal texts mean equal behaviour.

Raises `UnbuildableError` if the state cannot be built.
"""

_MOST_SKIPPED: Final = 20


class UnbuildableError(Exception):
    """A state that cannot be built; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Step:
    """A state that was tried."""

    state: str
    shown: str
    """Its behaviour, or why it could not be built."""
    kind: str
    """`good`, `bad` (differs from the good one) or `skipped`."""

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {"state": self.state, "kind": self.kind, "shown": self.shown}


@dataclass
class Bisection:
    """The result."""

    first: tuple[str, ...] = ()
    """The first state that behaves differently; several if states cannot be built; none if GOOD and BAD are equal."""
    steps: list[Step] = field(default_factory=list)
    interrupted: bool = False
    """Whether an interrupt ended the search; `first` then has all states that are left."""

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "first": list(self.first),
            "steps": [one.as_json() for one in self.steps],
            "interrupted": self.interrupted,
        }


class History(Protocol):
    """Ordered states between a good and a bad one."""

    @property
    def good(self) -> str:
        """The state before the change."""

    @property
    def bad(self) -> str:
        """The state after the change."""

    def candidates(self, good: Sequence[str], bad: str) -> list[str]:
        """The states that may be the first bad one, without `bad` itself, the most informative ones first."""


@dataclass
class Line:
    """States in a row: a series of patches or a list of kernels."""

    states: Sequence[str]

    @property
    def good(self) -> str:
        """The first state."""
        return self.states[0]

    @property
    def bad(self) -> str:
        """The last state."""
        return self.states[-1]

    def candidates(self, good: Sequence[str], bad: str) -> list[str]:
        """The states between the last good one and `bad`, those in the middle first."""
        low, high = max(self.states.index(one) for one in good), self.states.index(bad)
        middle = (low + high) / 2
        return sorted(self.states[low + 1 : high], key=lambda one: abs(self.states.index(one) - middle))


def bisect(history: History, observe: Observe, watch: Callable[[str], None] = lambda _: None) -> Bisection:
    """The first state that behaves differently from the good one. Raises `UserError` if an end cannot be built.

    After an interrupt the result has the steps so far and the states among which the first different one is.
    """
    made = Bisection()
    with Stop():
        try:
            _search(made, history, observe, watch)
        except KeyboardInterrupt:
            made.interrupted = True
    return made


def _search(made: Bisection, history: History, observe: Observe, watch: Callable[[str], None]) -> None:
    shown = {}
    for state in (history.good, history.bad):
        watch(f"running {state}")
        try:
            shown[state] = observe(state)
        except UnbuildableError as error:
            raise UserError(
                f"`{state}` cannot be built, so that nothing can be compared with it:\n{error}"
            ) from None
        same = shown[state] == shown[history.good]
        made.steps.append(Step(state, shown[state], "good" if same else "bad"))
    if shown[history.good] == shown[history.bad]:
        return
    good, bad, skipped = [history.good], history.bad, set[str]()
    while True:
        left = history.candidates(good, bad)
        open_ = [one for one in left if one not in skipped]
        made.first = (*left, bad)
        if not open_ or len(skipped) > _MOST_SKIPPED:
            return
        watch(f"{len(left)} states left, running {open_[0]}")
        try:
            now = observe(open_[0])
        except UnbuildableError as error:
            skipped.add(open_[0])
            made.steps.append(Step(open_[0], str(error), "skipped"))
            continue
        alike = now == shown[history.good]
        made.steps.append(Step(open_[0], now, "good" if alike else "bad"))
        if alike:
            good.append(open_[0])
        else:
            bad = open_[0]
