"""Which profile follows a capture furthest: one, several that it cannot tell apart, none, or too little to say."""

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from tcpassay.captured.followed import End, FollowedCapture

STACKS: Final = ("linux-6.1", "linux-7.3", "linux-4.6", "freebsd", "freebsd-rack")
"""The profiles of real stacks."""
LEAST: Final = 10
"""ACKs without payload, and segments with payload that arrived, that a capture has to show before anything is said. Of
a profile that fits as many ACKs have to be judged."""
ALLOWED: Final = 0.02
"""Share of the ends that a profile which fits may differ from."""


class Answer(StrEnum):
    """What a capture tells about its stack."""

    FITS = "fits"
    """One profile follows it, or several that it cannot tell apart."""
    NONE = "none fits"
    TOO_LITTLE = "too little"


@dataclass(frozen=True, slots=True)
class Ranked:
    """How far a profile follows the ends at which a capture was taken."""

    profile: str
    ends: int
    differing: int
    packets: int
    followed: int
    """Packets before the first differences and stops."""
    acks: int
    """ACKs without payload among them: what was judged."""
    disordered: int
    """Ends whose SYN has its options in another order than the profile."""

    @property
    def share(self) -> float:
        """Share of the packets that the profile follows."""
        return self.followed / self.packets if self.packets else 0.0

    @property
    def fits(self) -> bool:
        """The profile follows the ends, but for a share that faults of the model may explain."""
        return self.ends > 0 and not self.disordered and self.differing <= ALLOWED * self.ends


@dataclass(frozen=True, slots=True)
class Identified:
    """The profiles, the one that follows furthest first, and the answer."""

    answer: Answer
    names: list[str]
    """The profiles that fit."""
    why: str
    ranked: list[Ranked]

    def as_json(self) -> dict[str, object]:
        """For machines."""
        ranked = [asdict(one) for one in self.ranked]
        return {"answer": str(self.answer), "profiles": self.names, "why": self.why, "ranked": ranked}


def identify(made: FollowedCapture) -> Identified:
    """Rank the profiles by how far they follow the ends at which the capture was taken."""
    ends = [end for end in made.ends if not end.is_refused]
    ranked = sorted(
        (_ranked(ends, name) for name in STACKS),
        key=lambda one: (one.disordered > 0, one.differing, -one.acks, -one.share),
    )
    receiving = [end for end in ends if end.arrivals]
    acks, arrivals = sum(end.acks for end in receiving), sum(end.arrivals for end in receiving)
    if min(acks, arrivals) < LEAST:
        said = f"{acks} ACKs without data for {arrivals} segments that arrived"
        why = f"the ends at which the capture was taken sent {said}; {LEAST} of each are needed"
        return Identified(Answer.TOO_LITTLE, [], why, ranked)
    best = ranked[0]
    if lacking := sorted({name for end in ends for name in end.lacks}):
        why = f"its SYN offers no {', no '.join(lacking)}, which every profile offers unless it is set otherwise"
        return Identified(Answer.NONE, [], why, ranked)
    if fitting := [one.profile for one in ranked if one.fits and one.acks >= LEAST]:
        judged = max(one.acks for one in ranked if one.profile in fitting)
        every = f"the {acks} ACKs" if judged >= acks else f"{judged} of {acks} ACKs"
        why = f"{every} without data are what {' and '.join(fitting)} would have sent"
        if others := [one.profile for one in ranked if one.disordered]:
            why += f", and the order of the options of its SYN is not that of {' and '.join(others)}"
        return Identified(Answer.FITS, fitting, why, ranked)
    if best.fits:
        said = f"of {acks} ACKs without data only {best.acks} could be judged; {LEAST} are needed"
        why = f"{said}{_stops(ends, best.profile)}"
        return Identified(Answer.TOO_LITTLE, [], why, ranked)
    if best.disordered:
        return Identified(Answer.NONE, [], "the options of its SYN are in an order of no profile", ranked)
    why = f"{best.profile} goes furthest and differs in {best.differing} of {best.ends} ends"
    return Identified(Answer.NONE, [], why, ranked)


def _stops(ends: list[End], name: str) -> str:
    """The most frequent reason for which ends were not followed any further."""
    stops = Counter(stop.why for end in ends if (stop := end.profiles[name].stop) is not None)
    return f": {stops.most_common(1)[0][0]}" if stops else ""


def _ranked(ends: list[End], name: str) -> Ranked:
    done = [end.profiles[name] for end in ends]
    return Ranked(
        name,
        len(done),
        sum(outcome.first is not None for outcome in done),
        sum(outcome.packets for outcome in done),
        sum(outcome.followed for outcome in done),
        sum(outcome.acks for outcome in done),
        sum(not outcome.syn_order for outcome in done),
    )
