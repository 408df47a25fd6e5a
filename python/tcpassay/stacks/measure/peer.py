"""A peer that sends what a probe says, in virtual time."""

import struct
from dataclasses import dataclass
from typing import Final

from tcpassay import _native
from tcpassay.stacks.build import command
from tcpassay.stacks.measure import segment as wire
from tcpassay.stacks.measure.segment import Flag, Segment

SECOND: Final = 1_000_000_000
HOST: Final = "10.0.0.1"
OWN: Final = "10.0.0.2"
PORT: Final = 80
OTHER_PORT: Final = 40_000
MTU: Final = 1500
ISS: Final = 1_000
WINDOW: Final = 65_535
"""Bytes of the window, where a probe says nothing else."""
LARGEST_FIELD: Final = 65_535
FULL: Final = 1_448
"""Data of a segment that fits with and without timestamps."""
READ: Final = 1 << 16
SOON: Final = 0.01
OUTSIDE: Final = 3 << 29
"""Bytes from the expected number to one in no window: windows have less than 2^30 (RFC 7323 section 2.3)."""
STEPS: Final = 200_000
"""Calls of a stack in one pause; a stack that wants more does not become quiet."""

Option = tuple[int, bytes]
MSS_1460: Final[Option] = (wire.MSS, struct.pack("!H", 1460))
SACK_PERMITTED: Final[Option] = (wire.SACK_PERMITTED, b"")
SHIFT: Final = 7
SCALE_7: Final[Option] = (wire.SCALE, bytes([SHIFT]))
PLAIN: Final = [MSS_1460]
USUAL: Final = [MSS_1460, SACK_PERMITTED, SCALE_7]


def stamps(value: int, echo: int = 0) -> Option:
    """A timestamps option."""
    return (wire.TIMESTAMPS, struct.pack("!II", value, echo))


@dataclass(frozen=True, slots=True)
class Sent:
    """A segment of the stack, and the time in seconds at which it left."""

    at: float
    segment: Segment


@dataclass(frozen=True, slots=True)
class Status:
    """A socket of the stack, as docs/stacks.md describes it."""

    established: bool = False
    readable: int = 0
    writable: int = 0
    end_of_stream: bool = False
    closed: bool = False
    failed: bool = False


class Unlike(Exception):  # noqa: N818 - it is no error of the program
    """The stack did something else than the probe needs: the text says what."""


class Peer:
    """The peer of one connection of a stack. Sequence numbers of both ends count from 0 for the SYN."""

    def __init__(self, implementation: str, seed: int = 1, **options: int) -> None:
        self.host = _native.StackHost(command(implementation), HOST, MTU, seed, options)
        self.now = 0
        self.log: list[Sent] = []
        self.status: dict[int, Status] = {}
        self.socket = -1
        self.reads = True
        self.own_port, self.port = OTHER_PORT, PORT
        self.irs = 0
        self.stamps = False
        self.offers_scale = self.scales = False
        """Whether the own SYN, and that of the stack, has the window scale option."""

    @property
    def shift(self) -> int:
        """The scale of the own windows: that of the option if both SYNs have it (RFC 7323 section 2.2)."""
        return SHIFT if self.offers_scale and self.scales else 0

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.now / SECOND

    @property
    def state(self) -> Status:
        """The socket of the connection."""
        return self.status.get(self.socket, Status())

    def collect(self) -> None:
        """Notes what the stack did, and reads what can be read."""
        while True:
            packets, accepted, changed = self.host.drain()
            for packet in packets:
                sent = wire.decode(packet)
                if sent.has(Flag.SYN):
                    self.irs = sent.seq
                    self.scales = sent.scale is not None
                self.log.append(Sent(self.seconds, sent))
            for socket, *_ in accepted:
                self.socket = socket
            for socket, opened, readable, writable, end, closed, failed in changed:
                self.status[socket] = Status(opened, readable, writable, end, closed, failed)
            if not (self.reads and self.state.readable):
                return
            if not self.host.read(self.now, self.socket, READ):
                return

    def since(self, mark: int) -> list[Sent]:
        """What the stack has sent since the log had this length."""
        return self.log[mark:]

    def wait(self, seconds: float, until: int | None = None) -> list[Sent]:
        """Lets time pass: what the stack sends in it. `until`: ends with this number of segments."""
        mark, end = len(self.log), self.now + round(seconds * SECOND)
        for _ in range(STEPS):
            due = self.host.deadline(self.now)
            if due is None or due > end or (until is not None and len(self.log) - mark >= until):
                break
            self.now = due if due > self.now else self.now + self.host.granularity()
            self.host.advance(self.now)
            self.collect()
        else:
            message = f"it wants to be called more than {STEPS} times in {seconds:g} s"
            raise Unlike(message)
        if until is None:
            self.now = max(self.now, end)
        return self.since(mark)

    def send(  # noqa: PLR0913 - the fields of a segment
        self,
        seq: int,
        ack: int = 0,
        flags: Flag = Flag.ACK,
        *,
        data: int = 0,
        window: int = WINDOW,
        options: list[Option] | None = None,
        ecn: int = 0,
    ) -> list[Sent]:
        """Sends a segment with so many bytes of data: what the stack answers at once. `window`: in bytes."""
        mark = len(self.log)
        options = list(options or [])
        if flags & Flag.SYN:
            self.offers_scale = any(kind == wire.SCALE for kind, _ in options)
        field = window if flags & Flag.SYN else min(window >> self.shift, LARGEST_FIELD)
        if self.stamps and not any(kind == wire.TIMESTAMPS for kind, _ in options):
            echo = next((one.segment.stamps[0] for one in self.log[::-1] if one.segment.stamps), 0)
            options.append(stamps(self.now // 1_000_000 + 1, echo))
        number = self.irs + ack if flags & Flag.ACK else 0
        made = Segment(self.own_port, self.port, ISS + seq, number, flags, field, options, b"x" * data, ecn)
        self.host.input(self.now, wire.encode(OWN, HOST, made))
        self.collect()
        return self.since(mark)

    def _soon(self, mark: int) -> list[Sent]:
        """What the stack sends after a call: some do it with their next tick."""
        return self.since(mark) or self.wait(SOON, until=1)

    def write(self, length: int) -> list[Sent]:
        """The application writes: what the stack sends then."""
        mark = len(self.log)
        self.host.write(self.now, self.socket, b"y" * length)
        self.collect()
        return self._soon(mark)

    def close(self) -> list[Sent]:
        """The application closes its sending direction: what the stack sends then."""
        mark = len(self.log)
        self.host.shutdown(self.now, self.socket)
        self.collect()
        return self._soon(mark)

    def syn(self, options: list[Option], flags: Flag = Flag.SYN, window: int = WINDOW) -> Segment:
        """Opens a connection to the stack: its SYN-ACK."""
        self.host.listen(self.now, PORT)
        self.collect()
        answers = self.send(0, 0, flags, options=options, window=window) or self.wait(SOON, until=1)
        if not answers or not answers[-1].segment.has(Flag.SYN | Flag.ACK):
            message = "a SYN gets no SYN-ACK"
            raise Unlike(message)
        return answers[-1].segment

    def open(self, options: list[Option], rtt: float = 0.02, window: int = WINDOW) -> Segment:
        """Opens a connection to the stack completely. `window`: bytes that the last ACK announces."""
        answer = self.syn(options)
        self.stamps = answer.stamps is not None
        self.now += round(rtt * SECOND)
        self.send(1, 1, window=window)
        if self.socket < 0:
            message = "the handshake is not completed"
            raise Unlike(message)
        return answer

    def connect(self) -> list[Sent]:
        """The stack opens a connection to this peer: what it sends at once."""
        mark = len(self.log)
        self.socket = self.host.connect(self.now, OTHER_PORT, OWN, PORT)
        self.own_port, self.port = PORT, OTHER_PORT
        self.collect()
        return self._soon(mark)

    def position(self, sent: Sent) -> int:
        """The position of the first byte of a segment of the stack; data begin at 1."""
        return (sent.segment.seq - self.irs) % 2**32

    def end(self, sent: Sent) -> int:
        """The position behind a segment of the stack."""
        return self.position(sent) + len(sent.segment.data)

    def acked(self, sent: Sent) -> int:
        """The position that a segment of the stack acknowledges; data begin at 1."""
        return (sent.segment.ack - ISS) % 2**32
