"""A profile of the model follows the ends of a capture: how far, and what differs first."""

from collections.abc import Sequence
from dataclasses import asdict
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from tcpassay import _native
from tcpassay.captured.analyse import Limits, readable, unreadable
from tcpassay.errors import Place, UserError
from tcpassay.first_difference import FirstDifference

_EXACT: Final = ConfigDict(extra="forbid")
FEW: Final = 10
"""An end that differs after fewer judged segments than this hardly follows the profile."""
SEVERAL: Final = 3
"""So many such ends, and no other, show that the profile is the wrong one."""


@dataclass(frozen=True, slots=True, config=_EXACT)
class First(FirstDifference):
    """The first difference of an end of a capture from a profile."""

    frame: int
    """The packet that differs, or the last one before something that is missing."""


@dataclass(frozen=True, slots=True, config=_EXACT)
class Stop:
    """Why an end was not followed any further, although it does not differ."""

    frame: int | None
    why: str


@dataclass(frozen=True, slots=True, config=_EXACT)
class Outcome:
    """How far a profile follows an end."""

    packets: int
    followed: int
    """Packets before the first difference or the stop."""
    acks: int
    """ACKs without payload among them."""
    carriers: int
    """Segments with payload or FIN that left, among them."""
    arrivals: int
    """Segments with payload that arrived."""
    first: First | None
    stop: Stop | None
    setting: str | None = None
    """A setting of the end that its packets show, other than the default of the profile."""
    syn_order: bool = True
    """The options of the SYN are in the order of this profile, as far as the capture tells."""

    @property
    def whole(self) -> bool:
        """The profile follows the end to the end of the capture."""
        return self.first is None and self.stop is None

    @property
    def is_refused(self) -> bool:
        """The end cannot be followed at all."""
        return self.stop is not None and self.stop.frame is None


@dataclass(frozen=True, slots=True, config=_EXACT)
class End:
    """An end of a connection."""

    name: str
    """Its address and that of its peer."""
    acts_within_ns: int
    """The time within which it does what it should do at once."""
    lacks: list[str]
    """Options that every profile offers by default, and that its SYN does not offer."""
    acks: int
    """ACKs without payload that it sent."""
    arrivals: int
    """Segments with payload that arrived."""
    profiles: dict[str, Outcome]

    @property
    def is_refused(self) -> bool:
        """No profile can follow it at all."""
        return all(outcome.is_refused for outcome in self.profiles.values())

    def is_at(self, host: str) -> bool:
        """Whether the end has this IP address."""
        own = self.name.split(" > ", 1)[0].rsplit(":", 1)[0].strip("[]")
        return ip_address(own) == ip_address(host)


@dataclass(frozen=True, slots=True, config=_EXACT)
class FollowedCapture:
    """The ends of a capture, followed with some profiles."""

    cut: bool
    """The capture has more packets than are followed."""
    error: str | None
    """Why the capture could not be read to its end."""
    ends: list[End]

    def notes(self, limits: Limits) -> list[str]:
        """What was not followed of the capture."""
        said = []
        if self.error:
            said.append(f"the capture was not read to its end: {self.error}")
        if self.cut:
            said.append(f"only the first {limits.packets} packets are followed: `--max-packets` raises it")
        return said


FOLLOWED: Final = TypeAdapter(FollowedCapture)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a capture was taken, and by which clock."""

    point: str | None = None
    """The interface."""
    merge: bool = False
    """All interfaces are one capture point."""
    host: str | None = None
    """The address of the host of the capture; by default the times of answers show it."""
    within_ns: int | None = None
    """The time within which an end acts at once; by default it follows from its fastest answer."""


def profiles() -> list[str]:
    """The names of the profiles that can follow a capture."""
    return _native.capture_profiles()


def follow_capture(file: Path, names: Sequence[str], where: Where, limits: Limits) -> FollowedCapture:
    """Follow the ends of a capture with the named profiles.

    Raises `UserError` for an unknown profile, a file that is not a capture, or one without a TCP connection.
    """
    if unknown := [name for name in names if name not in profiles()]:
        allowed = ", ".join(profiles())
        raise UserError(f"`--as {unknown[0]}`: there is no such profile; allowed are {allowed}")
    place = (where.point, where.merge, where.host, where.within_ns)
    try:
        text = _native.follow_capture(
            readable(file), list(names), place, (limits.connections, limits.expanded, limits.packets)
        )
    except ValueError as error:
        if str(error).startswith("`--host"):
            raise UserError(str(error)) from None
        raise unreadable(file, error) from None
    except OSError as error:
        raise unreadable(file, error) from None
    made = FOLLOWED.validate_json(text)
    if where.host is not None and made.ends and not any(end.is_at(where.host) for end in made.ends):
        raise UserError(
            f"`--host {where.host}`: no TCP connection of the capture has this address", Place(file)
        )
    if not made.ends:
        why = "".join(f": {note}" for note in made.notes(limits))
        raise UserError(f"the capture has no TCP connection to follow{why}", Place(file))
    return made


def as_json(made: FollowedCapture, name: str) -> dict[str, object]:
    """The result for one profile, for machines."""
    ends = [
        {
            "end": end.name,
            "acts_within_ns": end.acts_within_ns,
            "lacks": end.lacks,
            **asdict(end.profiles[name]),
        }
        for end in made.ends
    ]
    return {"profile": name, "cut": made.cut, "error": made.error, "ends": ends}
