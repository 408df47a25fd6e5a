"""Probes of the handshake."""

from tcpassay.stacks.measure.peer import OUTSIDE, PLAIN, USUAL, stamps
from tcpassay.stacks.measure.segment import Flag
from tcpassay.stacks.measure.words import Make, answer, options, repeated, span

_LONG = 600.0


def syn_timeout(make: Make) -> str:
    """The time until a SYN is sent again."""
    peer = make()
    first = peer.connect()
    again = peer.wait(_LONG, until=1)
    return span(again[0].at - first[0].at) if again else "it is not sent again"


def syn_repeats(make: Make) -> str:
    """How often a SYN is sent again, and the intervals."""
    peer = make()
    times = [one.at for one in [*peer.connect(), *peer.wait(_LONG)]]
    ended = "; then the connection fails" if peer.state.failed else ""
    return f"{repeated(times, peer.seconds, failed=peer.state.failed)}{ended}"


def syn_ack_repeats(make: Make) -> str:
    """How often a SYN-ACK is sent again, and the intervals."""
    peer = make()
    peer.syn(USUAL)
    peer.wait(_LONG)
    times = [one.at for one in peer.log if one.segment.has(Flag.SYN)]
    return repeated(times, peer.seconds, failed=peer.state.failed)


def syn_options(make: Make) -> str:
    """The options of a SYN."""
    return options(make().connect()[0])


def syn_ack_options(make: Make) -> str:
    """The options of a SYN-ACK if the SYN had all."""
    peer = make()
    peer.syn([*USUAL, stamps(1)])
    return options(peer.log[-1])


def syn_ack_options_of_plain(make: Make) -> str:
    """The options of a SYN-ACK if the SYN had only an MSS."""
    peer = make()
    peer.syn(PLAIN)
    return options(peer.log[-1])


def first_window(make: Make) -> str:
    """The window of a SYN-ACK."""
    return f"{make().syn(USUAL).window} bytes"


def isn_step(make: Make) -> str:
    """The difference of the initial sequence numbers of two connections, a second apart."""
    peer = make()
    first = peer.connect()[0].segment
    peer.wait(1)
    mark = len(peer.log)
    peer.host.connect(peer.now, 40_001, "10.0.0.2", 80)
    peer.collect()
    peer.wait(0.01)
    second = next(one.segment for one in peer.since(mark) if one.segment.source != first.source)
    step = (second.seq - first.seq) % 2**32
    return f"{step if step < 2**31 else step - 2**32}"


def simultaneous(make: Make) -> str:
    """What a SYN causes that crosses the own one."""
    peer = make()
    peer.connect()
    first = answer(peer.send(0, 0, Flag.SYN, options=USUAL))
    peer.send(0, 1, Flag.SYN | Flag.ACK, options=USUAL)
    peer.send(1, 1)
    peer.wait(0.1)
    return f"{first}; the connection is {'' if peer.state.established else 'not '}established"


def _syn_of_open(make: Make, offset: int) -> str:
    peer = make()
    peer.open(USUAL)
    peer.wait(5)
    said = answer(peer.send(1 + offset, 0, Flag.SYN, options=USUAL) or peer.wait(1))
    ended = peer.state.closed or peer.state.failed
    return f"{said}{'; the connection ends' if ended else ''}"


def syn_in_window(make: Make) -> str:
    """What a SYN causes on an open connection whose number is in the window."""
    return _syn_of_open(make, 10)


def syn_outside(make: Make) -> str:
    """What a SYN causes on an open connection whose number is not in the window."""
    return _syn_of_open(make, OUTSIDE)


def closed_port(make: Make) -> str:
    """What a SYN causes at a port without application."""
    return answer(make().send(0, 0, Flag.SYN, options=USUAL))


def ecn(make: Make) -> str:
    """Whether a SYN that offers ECN is accepted."""
    accepted = make().syn(USUAL, Flag.SYN | Flag.ECE | Flag.CWR)
    return "accepted" if accepted.flags & Flag.ECE else "not accepted"
