"""Generates random scripts about one connection from a seed, with the behaviour of the model as expectation.

A script is made step by step: an event is drawn for the state that the connection has reached, the model is run, and
all that it sends until the next event becomes a line of the script with its time. A real Linux can be asked the same.
"""

import itertools
import json
import math
import random
import re
from dataclasses import dataclass, field
from typing import Final

from tcpassay import _native

# A segment that no stack sends; the report of the failed script contains the segment that was sent instead.
NEVER: Final = "P. 7777777:7777778(1) ack 1 win 1"
LIVE: Final = re.compile(r"live: +([0-9.]+) (?:(\[[a-z0-9]+\]) )?(.*)")
SEGMENT: Final = re.compile(r"([A-Z.]+) (\d+):(\d+)\(\d+\)(?: ack (\d+))?(?: win (\d+))?")
MOST_ANSWERS: Final = 24
# The guest's kernel has neither tunnels nor wireless networks: it reserves less for headers.
OPTIONS: Final = [("max_tcp_header", "192")]
# Seconds between two events: none, less than a delayed ACK, more, more than a retransmission timeout.
GAPS: Final = (0.0, 0.0, 0.001, 0.01, 0.03, 0.07, 0.15, 0.25, 0.9)


def report(text: str, profile: str) -> dict[str, object]:
    """The report of the model about a script."""
    made: dict[str, object] = json.loads(_native.run_script(text, profile, loose=False, options=OPTIONS))
    return made


def retransmits(text: str) -> bool:
    """Whether the stack sends data twice in a script."""
    sent = 0
    for line in text.splitlines():
        found = SEGMENT.search(line) if " > " in line else None
        if found and int(found[3]) > int(found[2]):
            if int(found[2]) < sent:
                return True
            sent = max(sent, int(found[3]))
    return False


@dataclass
class Script:
    """A script under construction, and the known state of both ends of its connection."""

    source: random.Random
    profile: str
    lines: list[str] = field(default_factory=list)
    now: float = 0.0
    # Time of the last event.
    began: float = 0.0
    # Positions: of the stack under test, and of the peer that the script plays.
    una: int = 1
    sent: int = 1
    peer: int = 1
    taken: int = 1
    window: int = 300
    stamps: bool = False
    sack: bool = False
    stamp: int = 1000
    heard: int = 0
    mss: int = 1000
    shift: int = 0
    closed: bool = False
    # Ends of what the stack has sent: where its segments were cut.
    cuts: list[int] = field(default_factory=lambda: [1])
    got: list[tuple[int, int]] = field(default_factory=list)
    blocks: list[tuple[int, int]] = field(default_factory=list)
    over: bool = False
    sender: bool = True
    # Where the lines of the last event begin.
    event: int = 0

    def run(self, more: str) -> dict[str, object]:
        """The report of the script so far with one further line."""
        return report("\n".join([*self.lines, more]) + "\n", self.profile)

    def _next(self, until: float) -> tuple[float, str] | None:
        """The next segment of the model, at the latest at `until`."""
        told = self.run(f"{self.now:.6f}~{until:.6f} > {NEVER}")
        details = told["details"]
        assert isinstance(details, list)
        found = next((m for line in details if (m := LIVE.match(line))), None)
        if found is None:
            if "sent nothing" not in str(told["reason"]):
                raise AssertionError(f"{told['reason']}\n" + "\n".join(self.lines))
            return None
        at = float(found[1])
        return (at, found[3]) if at <= until else None

    def wait(self, seconds: float) -> None:
        """Adds the segments that the model sends in the meantime.

        The timers of a kernel may be late by an eighth: an event near one of them would come before or after it by
        chance, and is put off.
        """
        start, until = self.now, self.now + seconds
        timer: float | None = None
        for _ in range(MOST_ANSWERS):
            slack = 0.13 * max(until - start, 0.2) + 0.003 if seconds > 0.001 else 0.0
            found = self._next(until + slack)
            if found is None:
                break
            at, packet = found
            if at > self.began + 0.00001:
                late = at + 0.13 * (at - self.began) + 0.003
                if timer is not None and self.now + 0.00001 < at < timer:
                    # Two timers, of which either may be the first: the script ends before the event that started them.
                    self.lines, self.over = self.lines[: self.event], True
                    return
                timer = late
                until = max(until, late)
            self.lines.append(f"{at:.6f} > {packet}")
            self._learn(packet)
            self.now = max(self.now, at)
        else:
            self.over = True
        self.now = self.began = math.ceil(until * 1e4) / 1e4

    def answers(self, until: float) -> None:
        """Adds the segments that the model sends up to a time."""
        self.wait(until - self.now)

    def _learn(self, packet: str) -> None:
        found = SEGMENT.match(packet)
        if not found:
            return
        flags, _, end, ack, _ = found.groups()
        high = int(end) + ("F" in flags)
        if "S" not in flags:
            self.sent = max(self.sent, high)
            if high not in self.cuts:
                self.cuts.append(high)
            self.cuts.sort()
        if ack:
            self.taken = max(self.taken, int(ack))
        if "R" in flags:
            self.over = True
        stamp = re.search(r"TS val (\d+)", packet)
        if stamp:
            self.heard = int(stamp[1])

    def add(self, line: str) -> None:
        """Adds an event at the current time."""
        self.event = len(self.lines)
        self.lines.append(f"{self.now:.6f} {line}")

    def packet(self, text: str, sack: str = "") -> None:
        """Adds a segment of the peer, with the negotiated options."""
        parts = []
        if self.stamps:
            parts.append(f"nop,nop,TS val {self.stamp} ecr {self.heard}")
        if sack and self.sack:
            parts.append(f"nop,nop,{sack}")
        options = f" <{','.join(parts)}>" if parts else ""
        self.add(f"< {text} win {self.window}{options}")

    # --- the handshake

    def open(self) -> None:
        """Adds a passive open: a connection that the peer opens and the application accepts."""
        pick = self.source.choice
        self.mss = pick((536, 1000, 1000, 1460))
        self.stamps = pick((True, False))
        self.sack = pick((True, True, False))
        scaled = pick((True, True, False))
        self.shift = pick((0, 2, 7)) if scaled else 0
        options = [f"mss {self.mss}"]
        if self.sack and self.stamps:
            options.append(f"sackOK,TS val {self.stamp} ecr 0")
        elif self.sack:
            options.append("sackOK,nop,nop")
        elif self.stamps:
            options.append(f"nop,nop,TS val {self.stamp} ecr 0")
        if scaled:
            options.append(f"nop,wscale {self.shift}")
        self.window = 30000 >> self.shift
        self.lines = [
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
            "+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0",
            "+0 bind(3, ..., ...) = 0",
            "+0 listen(3, 1) = 0",
            f"+0 < S 0:0(0) win 32792 <{','.join(options)}>",
        ]
        self.wait(0.1)
        self.stamp += 100
        self.packet(". 1:1(0) ack 1")
        self.lines.append("+0 accept(3, ..., ...) = 4")
        self.wait(0.05)
        if self.source.random() < 0.3:
            self.lines.append("+0 setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0")

    @property
    def unit(self) -> int:
        """Payload of a full segment."""
        return self.mss - 12 * self.stamps

    # --- events

    def write(self) -> None:
        """The application writes, if the send buffer has room: a script cannot wait in a write."""
        size = self.unit * self.source.choice((1, 1, 2, 3, 5, 10, 17))
        line = f"write(4, ..., {size}) = {size}"
        if str(self.run(f"{self.now:.6f} {line}")["reason"]).startswith("write:"):
            return
        self.add(line)

    def _take(self, low: int, high: int) -> None:
        """Marks positions as received by the peer."""
        merged: list[tuple[int, int]] = []
        for one in sorted([*self.got, (low, high)]):
            if merged and one[0] <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], one[1]))
            else:
                merged.append(one)
        self.got = [one for one in merged if one[1] > self.una]
        if self.got and self.got[0][0] <= self.una:
            self.una = self.got.pop(0)[1]
        self.blocks = [one for one in self.blocks if one in self.got]
        now = [one for one in self.got if one[0] <= low < one[1]]
        self.blocks = now + [one for one in self.blocks if one not in now]

    def _tell(self, flags: str = ".", duplicate: tuple[int, int] | None = None) -> None:
        """Adds an ACK of the peer for the received data."""
        room = 3 if self.stamps else 4
        told = ([duplicate] if duplicate else []) + self.blocks
        blocks = " ".join(f"{low}:{high}" for low, high in told[:room])
        self.packet(f"{flags} {self.peer}:{self.peer}(0) ack {self.una}", f"sack {blocks}" if blocks else "")

    def _missing(self) -> list[tuple[int, int]]:
        """Segments that were sent and have not arrived."""
        edges = [cut for cut in self.cuts if self.una <= cut <= self.sent]
        runs = [(low, high) for low, high in itertools.pairwise(edges)]
        return [one for one in runs if not any(low <= one[0] and one[1] <= high for low, high in self.got)]

    def ack(self) -> None:  # noqa: C901 - a table of cases
        """Some of the sent segments arrive in a random order and are acknowledged, sometimes several with one ACK."""
        source = self.source
        if source.random() < 0.06:
            self.window = source.choice((30000, 30000, 20 * self.mss, 0)) >> self.shift
        missing = self._missing()
        if not missing:
            if source.random() < 0.5:
                self._tell()
            return
        kind = source.randrange(8)
        if kind == 0:
            self._tell("E." if source.random() < 0.1 else ".")
        elif kind == 1:
            for one in missing:
                self._take(*one)
            self._tell()
        elif kind == 2:
            self._take(*missing[0])
            self._tell()
        elif kind == 3:
            for one in missing[: source.randint(1, len(missing))]:
                self._take(*one)
            self._tell()
        elif kind == 4 and self.una > 1:
            low = source.choice([cut for cut in self.cuts if cut < self.una])
            self._tell(duplicate=(low, min(self.una, low + self.unit)))
        elif kind == 5 and missing[0][1] - missing[0][0] > self.unit:
            self._take(missing[0][0], missing[0][0] + self.unit)
            self._tell()
        else:
            one = source.choice(missing)
            self._take(*one)
            self._tell()

    def acks(self) -> None:
        """All sent segments except the first one arrive in order, and each is acknowledged."""
        missing = self._missing()
        for one in missing[1 : 1 + self.source.choice((1, 2, 3, 4, 6))]:
            self._take(*one)
            self._tell()
            self.wait(0.0005)

    def data(self) -> None:
        """Adds data of the peer: in order, above a gap, old, or partly old."""
        source = self.source
        size = source.choice((1, 10, 100, 500, self.mss, self.mss))
        at = source.choice((self.peer, self.peer, self.peer + 500, self.peer + 2000, max(1, self.peer - 300)))
        if self.sender:
            at = self.peer
        flags = source.choice(("P.", ".", "."))
        self.packet(f"{flags} {at}:{at + size}({size}) ack {self.una}")
        if at == self.peer:
            self.peer += size

    def odd(self) -> None:
        """A segment that no well-behaved peer sends."""
        source = self.source
        kind = source.randrange(1, 8)
        p, u = self.peer, self.una
        if kind == 1:
            self.packet(f"R. {p + 100}:{p + 100}(0) ack {u}")
        elif kind == 2:
            self.packet(f". {p}:{p}(0) ack {self.sent + 5000}")
        elif kind == 3:
            self.packet(f". {p + 5_000_000}:{p + 5_000_100}(100) ack {u}")
        elif kind == 4:
            self.packet(f". {max(1, p - 1)}:{max(1, p - 1)}(0) ack {u}")
        elif kind == 5 and self.stamps:
            self.stamp, kept = self.stamp - 900, self.stamp
            self.packet(f". {p}:{p + 100}(100) ack {u}")
            self.stamp = kept
        elif kind == 6:
            self.packet(f"W. {p}:{p + 100}(100) ack {u}")
            self.peer += 100
        else:
            self.packet(f". {p}:{p + 100}(100) ack {max(1, u - 200)}")
            self.peer += 100

    def fin(self) -> None:
        """The peer closes."""
        self.packet(f"F. {self.peer}:{self.peer}(0) ack {self.una}")
        self.peer += 1

    def shut(self) -> None:
        """The application closes its side."""
        if self.closed:
            self.ack()
            return
        self.closed = True
        self.add(self.source.choice(("shutdown(4, SHUT_WR) = 0", "close(4) = 0")))


def drawn(seed: int, profile: str, events: int = 14) -> str:
    """The script of a seed, with all that this profile of the model sends.

    In every fifth the stack receives more than it sends.
    """
    sender = seed % 5 != 0
    script = Script(random.Random(seed), profile, sender=sender)  # noqa: S311 - a test, not a secret
    script.open()
    fins = 0
    for _ in range(events):
        if script.over:
            break
        names = ["ack", *["data"] * 7, "odd"]
        if sender:
            names = [*["write"] * 4, *["ack"] * 7, "acks", "acks", "data", "odd"]
        if script.closed:
            names = [name for name in names if name != "write"]
        if fins == 0:
            names += ["fin"] if len(script.lines) > 14 else []
        if len(script.lines) > 16 and not script.closed:
            names += ["shut"]
        name = script.source.choice(names)
        fins += name == "fin"
        if fins and name in ("data", "odd"):
            name = "ack"
        getattr(script, name)()
        wait = script.source.choice(GAPS) + 0.0004
        script.stamp += round(wait * 1000) + 1
        script.wait(wait)
    if not script.over:
        # An unexpected segment before it would change its answer.
        script.packet(f". {script.peer + 9_000_000}:{script.peer + 9_000_001}(1) ack {script.una}")
        script.answers(script.now + 0.001)
    return "\n".join(script.lines) + "\n"
