"""Probes of a sender."""

import struct

from tcpassay.stacks.measure import segment as wire
from tcpassay.stacks.measure.peer import PLAIN, SCALE_7, USUAL, Option, Peer, Sent
from tcpassay.stacks.measure.segment import Flag
from tcpassay.stacks.measure.words import Make, answer, data, repeated, span, spans

_LONG = 7200.0
_RTT = 0.1
_ROOM = 256_000
"""Bytes of a window that limits no probe; without the window scale option it becomes 65,535."""
_MUCH = 60_000
_ROUNDS = 4
_DUPLICATES = 8


def _opened(make: Make, options: list[Option] = USUAL, window: int = _ROOM) -> Peer:
    peer = make()
    peer.open(options, rtt=_RTT, window=window)
    return peer


def _first_flight(peer: Peer) -> list[Sent]:
    mark = len(peer.log)
    peer.write(_MUCH)
    peer.wait(_RTT / 2)
    return data(peer.since(mark))


def _later_flight(peer: Peer) -> list[Sent]:
    """The flight after some round trips; everything before it is acknowledged."""
    flight = _first_flight(peer)
    for _ in range(_ROUNDS):
        mark = len(peer.log)
        for end in sorted({peer.end(one) for one in flight}):
            peer.send(1, end, window=_ROOM)
        peer.write(_MUCH)
        peer.wait(_RTT / 2)
        flight = data(peer.since(mark)) or flight
    return sorted(flight, key=peer.position)


def initial_window(make: Make) -> str:
    """Data before the first ACK."""
    flight = _first_flight(_opened(make))
    return f"{len(flight)} segments, {sum(len(one.segment.data) for one in flight)} bytes"


def _largest(make: Make, options: list[Option]) -> str:
    flight = _first_flight(_opened(make, options))
    return f"{max((len(one.segment.data) for one in flight), default=0)} bytes"


def default_mss(make: Make) -> str:
    """The largest segment to a peer without an MSS option."""
    return _largest(make, [SCALE_7])


def small_mss(make: Make) -> str:
    """The largest segment to a peer with an MSS of 300 bytes."""
    return _largest(make, [(wire.MSS, struct.pack("!H", 300)), SCALE_7])


def first_timeout(make: Make) -> str:
    """The timeout of the first data, after a handshake with a round-trip time of 100 ms."""
    peer = _opened(make)
    first = data([*peer.write(500), *peer.wait(0.01)])
    again = data(peer.wait(_LONG, until=1))
    return span(again[0].at - first[0].at) if first and again else "it is not sent again"


def least_timeout(make: Make) -> str:
    """The timeout on a path without delay, after 40 samples."""
    peer = make()
    peer.open(USUAL, rtt=0.001, window=_ROOM)
    end = 1
    for _ in range(40):
        peer.write(500)
        peer.wait(0.001)
        end = max([end, *(peer.end(one) for one in data(peer.log))])
        peer.send(1, end, window=_ROOM)
        peer.wait(0.5)
    first = data([*peer.write(500), *peer.wait(0.001)])
    again = data(peer.wait(_LONG, until=1))
    return span(again[0].at - first[0].at) if first and again else "it is not sent again"


def repeats(make: Make) -> str:
    """How often data are sent again before the connection is given up."""
    peer = _opened(make)
    mark = len(peer.log)
    peer.write(500)
    peer.wait(_LONG)
    times = [one.at for one in data(peer.since(mark))]
    ended = f"; it fails after {times[-1] - times[0]:.3g} s or later" if peer.state.failed and times else ""
    return f"{repeated(times, peer.seconds, failed=peer.state.failed)}{ended}"


def _threshold(make: Make, options: list[Option]) -> str:
    peer = _opened(make, options)
    flight = _later_flight(peer)
    una = peer.position(flight[0])
    with_sack = any(kind == wire.SACK_PERMITTED for kind, _ in options)
    for count, one in enumerate(flight[1:_DUPLICATES], start=1):
        blocks: list[Option] = []
        if with_sack:
            edges = (peer.irs + peer.end(flight[0]), peer.irs + peer.end(one))
            blocks = [(wire.SACK, struct.pack("!II", *(edge % 2**32 for edge in edges)))]
        sent = peer.send(1, una, window=_ROOM, options=blocks)
        sent += peer.wait(0.001)
        if any(peer.position(again) == una for again in data(sent)):
            return f"{count}"
    return f"none of {min(len(flight), _DUPLICATES) - 1}"


def threshold(make: Make) -> str:
    """Duplicate ACKs before a retransmission, without SACK."""
    return _threshold(make, [*PLAIN, SCALE_7])


def sack_threshold(make: Make) -> str:
    """ACKs with SACK blocks of one more segment each before a retransmission."""
    return _threshold(make, USUAL)


def limited_transmit(make: Make) -> str:
    """What the first duplicate ACK causes."""
    peer = _opened(make, [*PLAIN, SCALE_7])
    flight = _later_flight(peer)
    peer.write(_MUCH)
    sent = peer.send(1, peer.position(flight[0]), window=_ROOM) + peer.wait(0.01)
    return "new data" if data(sent) else "nothing"


def nagle(make: Make) -> str:
    """What a second small write causes before the first is acknowledged."""
    peer = _opened(make)
    peer.write(100)
    peer.wait(0.001)
    sent = data([*peer.write(100), *peer.wait(0.05)])
    return "sent at once" if sent else "held until the ACK"


def _closed(make: Make) -> tuple[Peer, int]:
    peer = _opened(make, USUAL, window=2560)
    mark = len(peer.log)
    peer.write(20_000)
    peer.wait(0.05)
    end = max((peer.end(one) for one in data(peer.since(mark))), default=1)
    peer.send(1, end, window=0)
    return peer, end


def persist(make: Make) -> str:
    """Probes of a closed window, each answered."""
    peer, end = _closed(make)
    times, length = [peer.seconds], 0
    for _ in range(7):
        probe = peer.wait(_LONG, until=1)
        if not probe:
            break
        times.append(probe[0].at)
        length = len(probe[0].segment.data)
        peer.send(1, end, window=0)
    return f"{length} bytes, after {spans(times, 7)}" if len(times) > 1 else "none"


def persist_unanswered(make: Make) -> str:
    """How long probes of a closed window go on without an answer."""
    peer, _ = _closed(make)
    begin = peer.seconds
    probes = peer.wait(2 * 3600)
    if not peer.state.failed or not probes:
        return f"{len(probes)} in two hours"
    return f"{len(probes)} in {probes[-1].at - begin:.3g} s, then the connection fails"


def _acknowledge_all(peer: Peer) -> None:
    """Acknowledges until nothing more is sent."""
    known = -1
    while (end := max(peer.end(one) for one in data(peer.log))) > known:
        known = end
        peer.send(1, end, window=_ROOM)
        peer.wait(_RTT / 2)


def restart(make: Make) -> str:
    """The flight after 60 s without data."""
    peer = _opened(make)
    before = len(_later_flight(peer))
    _acknowledge_all(peer)
    peer.wait(60)
    return f"{len(_first_flight(peer))} segments, {before} before"


def keepalive(make: Make) -> str:
    """Probes of an idle connection, with a keepalive time of 10 s that was set before it was opened."""
    peer = make(keepalive_ns=10_000_000_000)
    peer.open(USUAL)
    begin = peer.seconds
    times = [begin, *(one.at for one in peer.wait(600) if not one.segment.flags & Flag.RST)]
    ended = "; then the connection fails" if peer.state.failed else ""
    return (
        f"{repeated(times, peer.seconds, 'probes', failed=peer.state.failed)}{ended}"
        if len(times) > 1
        else "none"
    )


def reset(make: Make) -> str:
    """What an abort of the application sends."""
    peer = _opened(make)
    mark = len(peer.log)
    peer.host.abort(peer.now, peer.socket)
    peer.socket = -1
    peer.collect()
    return answer(peer.since(mark) or peer.wait(0.01))
