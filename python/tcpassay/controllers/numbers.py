"""The random numbers of a controller."""

from random import Random
from typing import Any, Self


class Numbers(Random):
    """A generator with the numbers of `Random` that is copied quickly.

    The conformance kit copies a controller several times for each event, and `copy.deepcopy` copies each of the 625
    numbers of the state of a `Random` by itself. A copy of this class shares the state until it draws a number.
    """

    _shared: tuple[Any, ...] | None = None
    """The state, if a copy may have the same one; otherwise it is that of the base class."""

    def random(self) -> float:
        """Returns the next number, from 0 to below 1."""
        if self._shared is not None:
            self.setstate(self._shared)
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        """Returns `k` random bits."""
        if self._shared is not None:
            self.setstate(self._shared)
        return super().getrandbits(k)

    def getstate(self) -> tuple[Any, ...]:
        """Returns the state, as of `Random`."""
        return super().getstate() if self._shared is None else self._shared

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Continues as the generator with this state."""
        self._shared = None
        super().setstate(state)

    def seed(self, *args: Any, **named: Any) -> None:
        """Begins again with another seed."""
        self._shared = None
        super().seed(*args, **named)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """A generator whose further numbers are the same."""
        made = type(self)(0)
        self._shared = self.getstate()
        # With the number that `gauss` keeps for its next call.
        made.__dict__.update(self.__dict__)
        return made
