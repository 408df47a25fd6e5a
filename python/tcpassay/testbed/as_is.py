"""Links that are used as they are: a case has no link of its own, and measured values describe the path."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.messages import Triples

PING: Final[Triples] = {
    "topology": "pair",
    "nic.tso": True,
    "nic.gro": True,
    "stack.cc": "cubic",
    "app.workload": "rpc",
    "app.flows": 1,
    "app.request": "100B",
    "app.response": "100B",
    "app.duration": "200ms",
}
"""The round-trip time of a path: small requests one after the other."""
_OF_PATH: Final = ("link.", "queue.")
_WHY: Final = "the testbed uses its links as they are (`links`), so that nothing makes this"


@dataclass(frozen=True, slots=True)
class AsIs:
    """The path between the hosts."""

    rate: int
    """The lowest rate that the drivers of the test interfaces report, in bit/s."""
    delay_ns: int | None = None
    """Half of the shortest measured round-trip time."""

    @classmethod
    def of(cls, rates: Sequence[tuple[str, int | None]]) -> Self:
        """The path over hosts whose test interfaces have these rates. Raises `UserError` for an unknown rate."""
        known = [rate for _, rate in rates if rate is not None]
        if len(known) < len(rates):
            name = next(name for name, rate in rates if rate is None)
            raise UserError(
                f'host `{name}`: the driver of its test interface reports no rate, which `links = "as-is"` needs'
            )
        return cls(min(known))

    def case(self, triples: Triples) -> Triples:
        """The case with the properties of the path. Raises `CaseError` if it has properties of its own."""
        asked = [path for path in triples if path.rpartition("/")[2].startswith(_OF_PATH)]
        if asked:
            raise _native.CaseError([(path, None, str(triples[path]), _WHY) for path in asked])
        delay = 0 if self.delay_ns is None else self.delay_ns
        return {**triples, "link.rate": f"{self.rate}bit", "link.delay": f"{delay}ns"}
