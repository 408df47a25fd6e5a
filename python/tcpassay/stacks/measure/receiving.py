"""Probes of a receiver."""

from tcpassay import _native
from tcpassay.stacks.measure.peer import FULL, USUAL, Option, Peer, Sent, stamps
from tcpassay.stacks.measure.segment import CE, Flag
from tcpassay.stacks.measure.words import Make, answer, span

_WARM = 20
_PATIENCE = 5.0
_HOLES = 40


def _opened(make: Make, options: list[Option] = USUAL) -> Peer:
    peer = make()
    peer.open(options)
    return peer


def _warm(peer: Peer) -> int:
    """Some segments in sequence, so that ACKs at the begin of a connection are over: the next position."""
    at = 1
    for _ in range(_WARM):
        peer.send(at, 1, data=FULL)
        at += FULL
        peer.wait(0.01)
    peer.wait(1)
    return at


def _delay(peer: Peer, at: int, length: int = FULL) -> str:
    begin = peer.seconds
    sent = peer.send(at, 1, data=length) or peer.wait(_PATIENCE, until=1)
    return span(sent[0].at - begin) if sent else "never"


def first_delay(make: Make) -> str:
    """When the first data of a connection are acknowledged."""
    return _delay(_opened(make), 1)


def delay(make: Make) -> str:
    """When a single segment is acknowledged later."""
    peer = _opened(make)
    return _delay(peer, _warm(peer))


def every(make: Make) -> str:
    """ACKs of ten full segments that arrive at once."""
    peer = _opened(make)
    at, mark = _warm(peer), len(peer.log)
    for _ in range(10):
        peer.send(at, 1, data=FULL)
        at += FULL
    at_once = len(peer.since(mark))
    peer.wait(_PATIENCE)
    return f"{at_once} at once, {len(peer.since(mark)) - at_once} later"


def _out_of_order(peer: Peer, at: int, count: int, step: int = 2, length: int = 100) -> list[list[Sent]]:
    """`count` segments, each `step` segments after the one before; the answers."""
    return [peer.send(at + length * (1 + step * n), 1, data=length) for n in range(count)]


def out_of_order(make: Make) -> str:
    """What data beyond a hole cause."""
    peer = _opened(make)
    sent = _out_of_order(peer, _warm(peer), 1)[0]
    later = peer.wait(_PATIENCE, until=1) if not sent else []
    return f"{answer(sent or later)}, {'at once' if sent else 'later'}"


def blocks(make: Make) -> str:
    """SACK blocks of an ACK with six holes below."""
    peer = _opened(make)
    peer.stamps = False
    sent = _out_of_order(peer, _warm(peer), 6)[-1] or peer.wait(1, until=1)
    if not sent:
        return "no ACK"
    found = sent[-1].segment.blocks
    if not found:
        return "none"
    starts = [start for start, _ in found]
    order = "newest first" if starts == sorted(starts, reverse=True) else "another order"
    order = "oldest first" if len(starts) > 1 and starts == sorted(starts) else order
    return f"{len(found)}, {order}"


def touching(make: Make) -> str:
    """SACK blocks of three segments that touch each other."""
    peer = _opened(make)
    sent = _out_of_order(peer, _warm(peer), 3, step=1)[-1]
    return f"{len(sent[-1].segment.blocks) if sent else 0}"


def filled(make: Make) -> str:
    """When data are acknowledged that fill a gap."""
    peer = _opened(make)
    at = _warm(peer)
    peer.send(at + FULL, 1, data=FULL)
    peer.wait(0.6)
    return _delay(peer, at)


def partly_filled(make: Make) -> str:
    """When data are acknowledged that fill a part of a gap."""
    peer = _opened(make)
    at = _warm(peer)
    peer.send(at + 2 * FULL, 1, data=FULL)
    peer.wait(0.6)
    return _delay(peer, at)


def holes(make: Make) -> str:
    """How many segments beyond different holes are kept."""
    peer = _opened(make)
    at = _warm(peer)
    _out_of_order(peer, at, _HOLES)
    kept = 0
    for _ in range(_HOLES):
        mark = len(peer.log)
        peer.send(at, 1, data=100)
        peer.wait(1)
        acked = max((peer.acked(one) for one in peer.since(mark)), default=at)
        if acked < at + 200:
            break
        kept, at = kept + 1, at + 200
    return f"{kept} of {_HOLES}"


def _early_fin(make: Make, length: int) -> str:
    peer = _opened(make)
    at = _warm(peer)
    peer.send(at + 200, 1, Flag.FIN | Flag.ACK, data=length)
    sent = peer.send(at, 1, data=200) + peer.wait(1)
    acked = max((peer.acked(one) for one in sent), default=at)
    if acked == at + 201 + length:
        return "kept"
    return "its data are, it is not" if length and acked == at + 200 + length else "dropped"


def early_fin(make: Make) -> str:
    """Whether a FIN with data is kept that arrives before the data in front of it."""
    return _early_fin(make, 100)


def early_fin_alone(make: Make) -> str:
    """Whether a FIN without data is kept that arrives before the data in front of it."""
    return _early_fin(make, 0)


def _answer(make: Make, offset: int, ack: int, length: int) -> str:
    peer = _opened(make)
    at = _warm(peer)
    sent = peer.send(at + offset, ack, data=length)
    later = peer.wait(1, until=1) if not sent else []
    return f"{answer(sent or later)}{', later' if later else ''}"


def old(make: Make) -> str:
    """What data cause that have been acknowledged."""
    return _answer(make, -FULL, 1, FULL)


def beyond(make: Make) -> str:
    """What data cause beyond the window."""
    return _answer(make, 50_000_000, 1, 100)


def not_sent(make: Make) -> str:
    """What an ACK causes of data that were not sent."""
    return _answer(make, 0, 5000, 0)


def _reset(make: Make, offset: int, flags: Flag = Flag.RST) -> str:
    peer = _opened(make)
    at = _warm(peer)
    sent = peer.send(at + offset, 1, flags)
    ended = peer.state.closed or peer.state.failed
    return f"{answer(sent)}; the connection {'ends' if ended else 'goes on'}"


def exact_reset(make: Make) -> str:
    """What an RST with the expected number causes."""
    return _reset(make, 0)


def near_reset(make: Make) -> str:
    """What an RST with another number in the window causes."""
    return _reset(make, 10)


def outside_reset(make: Make) -> str:
    """What an RST outside of the window causes."""
    return _reset(make, -5000)


def challenges(make: Make) -> str:
    """Answers to ten RSTs in the window within a second."""
    peer = _opened(make)
    at, mark = _warm(peer), len(peer.log)
    for _ in range(10):
        peer.send(at + 10, 1, Flag.RST)
        peer.wait(0.1)
    return f"{len(peer.since(mark))}"


def paws(make: Make) -> str:
    """What data with an old timestamp cause. Timestamps are switched on where a setting can do it."""
    offered = [*USUAL, stamps(1)]
    try:
        peer = _opened(lambda: make(timestamps=1), offered)
    except _native.StackError:
        peer = _opened(make, offered)
    if not peer.stamps:
        return "no timestamps"
    peer.wait(5)
    at = _warm(peer)
    sent = peer.send(at, 1, data=FULL, options=[stamps(2)]) or peer.wait(1, until=1)
    accepted = bool(sent) and peer.acked(sent[0]) > at
    return "accepted" if accepted else f"dropped, {answer(sent)}"


def window_update(make: Make) -> str:
    """After how many read bytes a closed window opens."""
    peer = _opened(make)
    at = _warm(peer)
    peer.reads = False
    for _ in range(2000):
        sent = peer.send(at, 1, data=FULL) or peer.wait(1, until=1)
        acked = peer.acked(sent[-1]) if sent else at
        if acked == at or sent[-1].segment.window == 0:
            break
        at = acked
    peer.wait(1)
    step, mark = 64, len(peer.log)
    for count in range(1, 1600):
        peer.host.read(peer.now, peer.socket, step)
        peer.collect()
        peer.wait(0.001)
        if any(one.segment.window for one in peer.since(mark)):
            return f"{(count - 1) * step + 1} to {count * step}"
    return "none was sent"


def congestion_echo(make: Make) -> str:
    """Whether CE of a data segment is echoed, if ECN was accepted."""
    peer = make()
    if not peer.syn(USUAL, Flag.SYN | Flag.ECE | Flag.CWR).flags & Flag.ECE:
        return "no ECN"
    peer.send(1, 1)
    sent = peer.send(1, 1, data=FULL, ecn=CE) or peer.wait(1, until=1)
    return "echoed" if sent and sent[0].segment.flags & Flag.ECE else "not echoed"
