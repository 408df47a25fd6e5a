"""Random scripts of a wider space: both directions, both kinds of open, ECN, reads, FINs in any state, odd segments.

As `drawn`, whose class it extends. The peer's stream has a FIN at most once, at a position that is then fixed.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from drawn import GAPS, Script

# Lengths and positions of the peer's data are multiples of it, so that ranges often touch.
UNIT: Final = 100


@dataclass
class Wide(Script):
    """A script in which the stack sends and receives."""

    fd: int = 4
    ecn: bool = False
    # The peer's data: all ranges that it sent, and the position of its FIN.
    given: list[tuple[int, int]] = field(default_factory=list)
    end: int | None = None
    # Bytes that the application has read.
    read_to: int = 1
    deaf: bool = False

    # --- the handshake

    def open(self) -> None:
        """A passive or an active open."""
        pick = self.source.choice
        if pick((True, True, False)):
            super().open()
            self.ecn = self.source.random() < 0.5
            if self.ecn:
                # The SYN of a peer that offers ECN, in an otherwise equal handshake.
                syn = next(at for at, line in enumerate(self.lines) if "< S 0:0(0)" in line)
                opening = [*self.lines[:syn], self.lines[syn].replace("< S ", "< SEW ")]
                ack = next(line for line in self.lines if "< . 1:1(0)" in line)
                self.lines, self.now, self.began = opening, 0.0, 0.0
                self.wait(0.1)
                self.lines.append(ack)
                self.lines.append("+0 accept(3, ..., ...) = 4")
                self.wait(0.05)
            return
        self.fd = 3
        self.mss = pick((536, 1000, 1460))
        self.stamps, self.sack = pick((True, False)), pick((True, True, False))
        scaled = pick((True, False))
        self.shift = pick((0, 2, 7)) if scaled else 0
        self.window = 30000 >> self.shift
        self.lines = [
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
            "+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0",
            "+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)",
        ]
        self.wait(0.1)
        options = [f"mss {self.mss}"]
        if self.sack and self.stamps:
            options.append(f"sackOK,TS val {self.stamp} ecr {self.heard}")
        elif self.sack:
            options.append("sackOK,nop,nop")
        elif self.stamps:
            options.append(f"nop,nop,TS val {self.stamp} ecr {self.heard}")
        if scaled:
            options.append(f"nop,wscale {self.shift}")
        self.stamp += 100
        self.add(f"< S. 0:0(0) ack 1 win 32792 <{','.join(options)}>")
        self.wait(0.05)
        if self.source.random() < 0.3:
            self.lines.append("+0 setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0")

    def packet(self, text: str, sack: str = "") -> None:
        """As usual, with a congestion mark now and then where the mark means something."""
        ce = self.ecn and ":0(0)" not in text and "(0)" not in text and self.source.random() < 0.2
        super().packet(f"[ce] {text}" if ce else text, sack)

    # --- the application

    def write(self) -> None:
        """The application writes whole segments, or something short."""
        size = self.source.choice(
            (self.unit, self.unit, 2 * self.unit, 5 * self.unit, 10 * self.unit, 1, 100, 700)
        )
        self.add(f"write({self.fd}, ..., {size}) = {size}")

    def read(self) -> None:
        """The application reads some or all of the data in order."""
        readable = self._data_end() - self.read_to
        if readable <= 0 or self.deaf:
            return
        n = self.source.choice((readable, readable, min(readable, 100), max(1, readable // 2)))
        self.add(f"read({self.fd}, ..., {n}) = {n}")
        self.read_to += n

    def shut(self) -> None:
        """The application ends its side, or all."""
        if self.closed:
            self.ack()
            return
        self.closed = True
        call = self.source.choice((f"shutdown({self.fd}, SHUT_WR) = 0", f"close({self.fd}) = 0"))
        self.deaf = call.startswith("close")
        self.add(call)

    # --- the peer's stream

    def _data_end(self) -> int:
        """The end of the peer's data that arrived in order, without its FIN."""
        return self.peer - (self.end is not None and self.peer == self.end + 1)

    def _give(self, low: int, high: int) -> None:
        """Counts positions as sent by the peer, and moves RCV.NXT."""
        self.given.append((low, high))
        moved = True
        while moved:
            moved = False
            for one in self.given:
                if one[0] <= self.peer < one[1]:
                    self.peer, moved = one[1], True

    def data(self) -> None:
        """In order, above gaps, old, or several of these."""
        source = self.source
        base = self._data_end()
        low = max(1, base + UNIT * source.choice((0, 0, 0, 0, -6, -3, -2, -1, 1, 2, 3, 4, 6, 9)))
        size = UNIT * source.choice((1, 1, 2, 3, 5, 8, 10))
        size = min(size, self.mss)
        high = low + size if self.end is None else min(low + size, self.end)
        if high <= low:
            self._tell()
            return
        flags = source.choice(("P.", ".", "."))
        if self.ecn and source.random() < 0.15:
            flags = "W" + flags
        self.packet(f"{flags} {low}:{high}({high - low}) ack {self.una}")
        self._give(low, high)

    def stream(self) -> None:
        """Several segments in order, as a sender has them in flight; one may be missing."""
        count = self.source.choice((2, 3, 4))
        missing = self.source.choice((None, None, 0, 1))
        at = max([self.peer, *(high for _, high in self.given)])
        if self.end is not None:
            self._tell()
            return
        for i in range(count):
            if i != missing:
                self.packet(f". {at}:{at + UNIT * 5}({UNIT * 5}) ack {self.una}")
                self._give(at, at + UNIT * 5)
                self.wait(0.0005)
            at += UNIT * 5

    def fin(self) -> None:
        """The peer closes, with or without data, in order or above a gap; or its FIN is repeated."""
        source = self.source
        top = max([self.peer, *(high for _, high in self.given)])
        if self.end is None:
            self.end = top if source.random() < 0.8 else top + UNIT
        low = source.choice((self.end, self.end, max(1, self.end - UNIT)))
        self.packet(f"F{source.choice(('.', 'P.'))} {low}:{self.end}({self.end - low}) ack {self.una}")
        self._give(low, self.end + 1)

    # --- segments of no well-behaved peer

    def window_change(self) -> None:
        """The window closes, opens or shrinks."""
        self.window = self.source.choice((0, 30000, 30000, 3 * self.mss, 200, 20 * self.mss)) >> self.shift
        self._tell()

    def odd(self) -> None:
        """A segment that a stack has to refuse, to challenge or to ignore."""
        source, p, u = self.source, self.peer, self.una
        kinds = [
            f"R. {p + 100}:{p + 100}(0) ack {u}",
            f"R {max(1, p - 1)}:{max(1, p - 1)}(0)",
            "S 0:0(0)",
            f"S. 0:0(0) ack {u}",
            f". {p}:{p}(0) ack {self.sent + 5000}",
            f". {p + 5_000_000}:{p + 5_000_100}(100) ack {u}",
            f". {max(1, p - 1)}:{max(1, p - 1)}(0) ack {u}",
            f". {p}:{p}(0) ack {max(1, u - 200)}",
            f"P {p}:{p}(0)",
            f"E. {p}:{p}(0) ack {u}",
            f"W. {p}:{p}(0) ack {u}",
        ]
        kind = source.randrange(len(kinds) + 3)
        if kind < len(kinds):
            self.packet(kinds[kind])
        elif self.stamps:
            kept = self.stamp
            # Old, equal and far newer.
            self.stamp += source.choice((-900, -1, 0, 5_000))
            self._tell()
            self.stamp = max(kept, self.stamp)
        else:
            self._tell()


def wide(seed: int, profile: str, events: int = 18) -> str:
    """The script of a seed, with all that this profile of the model sends."""
    script = Wide(random.Random(seed), profile)  # noqa: S311 - a test, not a secret
    script.open()
    fins = 0
    for _ in range(events):
        if script.over:
            break
        names = [
            *["write"] * 4,
            *["ack"] * 5,
            "acks",
            *["data"] * 5,
            "stream",
            "read",
            "read",
            "window_change",
            "odd",
        ]
        if script.closed:
            names = [name for name in names if name != "write"]
        if len(script.lines) > 14 and fins < 3:
            names.append("fin")
        if len(script.lines) > 16 and not script.closed:
            names.append("shut")
        name = script.source.choice(names)
        fins += name == "fin"
        getattr(script, name)()
        wait = script.source.choice(GAPS) + 0.0004
        script.stamp += round(wait * 1000) + 1
        script.wait(wait)
    if not script.over:
        script.packet(f". {script.peer + 9_000_000}:{script.peer + 9_000_001}(1) ack {script.una}")
        script.answers(script.now + 0.001)
    return "\n".join(script.lines) + "\n"
