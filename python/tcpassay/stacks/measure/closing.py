"""Probes of the end of a connection."""

from tcpassay.stacks.measure.peer import USUAL, Peer
from tcpassay.stacks.measure.segment import Flag
from tcpassay.stacks.measure.words import Make, answer, data, repeated

_LONGEST = 600


def _closed(make: Make) -> Peer:
    """The stack has closed its direction, and its FIN is acknowledged."""
    peer = make()
    peer.open(USUAL)
    peer.close()
    peer.wait(0.3)
    peer.send(1, 2)
    return peer


def time_wait(make: Make) -> str:
    """How long a FIN that is repeated gets an ACK, in seconds."""

    def answers(seconds: float) -> bool:
        peer = _closed(make)
        peer.send(1, 2, Flag.FIN | Flag.ACK)
        peer.wait(seconds)
        return answer(peer.send(1, 2, Flag.FIN | Flag.ACK)) == "ACK"

    if answers(_LONGEST):
        return f"above {_LONGEST} s"
    low, high = 0.0, float(_LONGEST)
    while high - low > 0.5:  # noqa: PLR2004 - seconds; the timers of stacks are coarser
        middle = (low + high) / 2
        low, high = (middle, high) if answers(middle) else (low, middle)
    return f"{high:.0f} s"


def half_close(make: Make) -> str:
    """Whether data of the peer are accepted after the own FIN."""
    peer = _closed(make)
    sent = peer.send(1, 2, data=500) + peer.wait(1)
    return "accepted" if any(peer.acked(one) == 501 for one in sent) else answer(sent)  # noqa: PLR2004


def after_fin(make: Make) -> str:
    """Whether data are sent after the FIN of the peer."""
    peer = make()
    peer.open(USUAL)
    peer.send(1, 1, Flag.FIN | Flag.ACK)
    peer.wait(0.5)
    return "sent" if data([*peer.write(500), *peer.wait(0.5)]) else "not sent"


def fin_repeats(make: Make) -> str:
    """How often a FIN is sent again that gets no ACK."""
    peer = make()
    peer.open(USUAL)
    mark = len(peer.log)
    peer.close()
    peer.wait(_LONGEST)
    times = [one.at for one in peer.since(mark) if one.segment.flags & Flag.FIN]
    return repeated(times, peer.seconds, failed=peer.state.failed)
