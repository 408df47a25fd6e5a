"""The events that each end waits for at an instant, from its event log."""

from dataclasses import dataclass, field

from tcpassay.explain.moments import ACK, TIMERS, Connection, End, Moment
from tcpassay.interface import EventKind
from tcpassay.judge.words import ms


@dataclass(slots=True)
class State:
    """The state of an end after its rows up to an instant."""

    una: int = 1
    """The first position of its data that is not acknowledged to it."""
    nxt: int = 1
    """The next position that it would send."""
    acked: int = 1
    """The position that it acknowledged to its peer."""
    received: int = 1
    """Up to where its peer's data arrived without a gap, as far as segments show."""
    segment: int = 0
    """The longest segment of data that it sent, in bytes."""
    cwnd: int | None = None
    window: int | None = None
    """The peer's receive window."""
    timers: dict[str, int] = field(default_factory=dict)
    """Timers that run, and when they fire."""
    ack_due: int | None = None
    """When the delayed-ACK timer fires."""
    forgotten: bool = False
    """An ACK is pending that according to the log was neither sent nor delayed by a timer."""
    beyond: list[tuple[int, int]] = field(default_factory=list)
    """Data that arrived above a gap."""

    def feed(self, one: Moment) -> None:
        """Takes the end's next row."""
        match one.kind:
            case EventKind.OUT | EventKind.RETRANSMIT:
                self._sent(one)
            case EventKind.IN:
                self._arrived(one)
            case EventKind.WINDOW:
                self.cwnd = one.number("cwnd_bytes") or self.cwnd
            case EventKind.TIMER_SET:
                self.timers[one.why] = one.number("value_ns") or 0
            case EventKind.TIMER_CANCEL | EventKind.TIMER_FIRE:
                self.timers.pop(one.why, None)
            case EventKind.ACK_DELAY:
                self.ack_due, self.forgotten = one.number("value_ns"), False
            case EventKind.ACK_FORGET:
                self.ack_due, self.forgotten = None, True
            case _:
                pass

    def _sent(self, one: Moment) -> None:
        if one.data:
            self.nxt = max(self.nxt, one.stop)
            self.segment = max(self.segment, one.stop - one.start)
        if one.flags & ACK:
            self.acked = max(self.acked, one.number("ack") or 0)
            if self.acked >= self.received:
                self.forgotten = False
            self.ack_due = None

    def _arrived(self, one: Moment) -> None:
        if one.flags & ACK:
            self.una = min(max(self.una, one.number("ack") or 0), self.nxt)
        self.window = one.number("window_bytes") if "window_bytes" in one.values else self.window
        if not one.data:
            return
        self.beyond.append((one.start, one.stop))
        for low, high in sorted(self.beyond):
            if low <= self.received:
                self.received = max(self.received, high)
        self.beyond = [piece for piece in self.beyond if piece[1] > self.received]


def states(connection: Connection, time_ns: int) -> tuple[State, State]:
    """The states of both ends after all rows up to an instant, those of it included."""
    made = State(), State()
    for one in connection.moments:
        if one.time_ns > time_ns:
            break
        made[one.end].feed(one)
    return made


def sender_waits(state: State, base: int = 1, *, timers_known: bool) -> str:
    """The events that the sender of data waits for, in words."""
    flight = state.nxt - state.una
    if flight <= 0:
        said = "it waits for data from its application"
        if state.window == 0:
            said = "the receive window is closed"
        elif state.window is not None and state.window < state.segment:
            said = f"{said}, or for more than the receive window of {state.window} bytes"
        return f"nothing is outstanding: {said}{_running(state, timers_known=timers_known)}"
    said = f"waits for an ACK of {flight} bytes from position {state.una - base + 1}"
    if state.cwnd is not None and flight >= state.cwnd:
        said += f"; cwnd of {state.cwnd} bytes is full"
    elif state.window is not None and flight >= state.window:
        said += f"; the receive window of {state.window} bytes is full"
    elif state.cwnd is not None:
        said += f"; cwnd is {state.cwnd} bytes"
    return said + _running(state, timers_known=timers_known)


def receiver_waits(state: State, base: int = 1, *, timers_known: bool) -> str:
    """The events that the receiver of data waits for, in words."""
    pending = state.received - state.acked
    if state.beyond:
        low = min(piece[0] for piece in state.beyond)
        return f"waits for the gap from position {state.received - base + 1} to {low - base + 1} to be filled"
    if pending <= 0:
        return "has acknowledged all that arrived; it waits for the next segment"
    said = f"has not acknowledged {pending} bytes up to position {state.received - base + 1}"
    if state.ack_due is not None:
        return f"{said}; its delayed-ACK timer fires at {ms(state.ack_due)}"
    if state.forgotten or timers_known:
        return f"{said}; no timer is set: only another segment causes an ACK"
    return said


def _running(state: State, *, timers_known: bool) -> str:
    if not state.timers:
        return "; no timer runs" if timers_known else ""
    name, at = min(state.timers.items(), key=lambda timer: timer[1])
    return f"; its {TIMERS.get(name, name)} fires at {ms(at)}"


def waits(connection: Connection, start_ns: int, end_ns: int, base: int) -> dict[End, str]:
    """What each end waits for from `start_ns` to `end_ns`, while it is silent. Positions are relative to `base`.

    A timer that would have fired in between does not run: Linux has one timer for retransmissions, probes and
    reordering, and the log does not report that one replaces another.
    """
    sender, receiver = states(connection, start_ns)
    sender.timers = {name: at for name, at in sender.timers.items() if at >= end_ns}
    known = connection.timers_known
    return {
        End.SENDER: sender_waits(sender, base, timers_known=known),
        End.RECEIVER: receiver_waits(receiver, base, timers_known=known),
    }
