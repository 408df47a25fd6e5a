"""Generated scripts about data that arrive twice, with the required acknowledgements.

A case is a sequence of segments. What answers each follows from RFC 2018 and RFC 2883 alone, computed here from
ranges and not by the project's code, so that a script is a test of the model and of a real Linux alike. Positions
count bytes from 1, in units of `UNIT` bytes.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

UNIT = 100
# The ends of the streams in units; a FIN is only at these positions.
LAST = 6
# Maximum number of SACK blocks in the option without timestamps.
ROOM = 4

Range = tuple[int, int]


@dataclass(frozen=True)
class Segment:
    """Units from `start` up to `end`; a FIN follows them."""

    start: int
    end: int
    fin: bool = False


@dataclass
class Receiver:
    """The state of a receiver that acknowledges every segment immediately. In its reports a FIN takes one position.

    `linux`: what begins where a queued range ends is appended to that, and nobody looks whether it repeats the range
    after it (`tcp_ooo_try_coalesce`).
    """

    linux: bool

    # The position of unit 0.
    base: int = 1
    next: int = 1
    fin: bool = False
    queue: list[Range] = field(default_factory=list)
    # Where queued segments end; and whether one came that begins at such a place within a range: what Linux says then
    # depends on the shape of its tree.
    ends: set[int] = field(default_factory=set)
    ambiguous: bool = False
    blocks: list[Range] = field(default_factory=list)

    def arrive(self, segment: Segment) -> tuple[int, list[Range]]:
        """The acknowledgement and the SACK blocks that answer a segment."""
        start = self.base + segment.start * UNIT
        end = self.base + segment.end * UNIT + segment.fin
        done = self.finished
        self.fin |= segment.fin
        if end <= self.next:
            again: Range | None = (start, end)
        elif start > self.next:
            appended = self.linux and any(high == start for _, high in self.queue)
            again = None if appended else self._overlap(start, end)
            self.ambiguous |= start in self.ends and not appended
            self.ends.add(end)
            self._queue(start, end)
        else:
            again = (start, self.next) if start < self.next else self._overlap(start, end)
            self.next = end
            self._advance()
        if self.finished and not done:
            # After the end of a stream nothing is reported.
            again, self.queue, self.blocks = None, [], []
        said = ([again] if again else []) + self.blocks
        return self.next, said[:ROOM]

    @property
    def finished(self) -> bool:
        """The FIN has arrived in order."""
        return self.fin and self.next == self.base + LAST * UNIT + 1

    def _overlap(self, start: int, end: int) -> Range | None:
        for low, high in self.queue:
            if max(low, start) < min(high, end):
                return max(low, start), min(high, end)
        return None

    def _queue(self, start: int, end: int) -> None:
        self.queue = _merged([*self.queue, (start, end)])
        # The first reported block includes the arrived data and adjacent blocks.
        block = (start, end)
        others = self.blocks
        while touching := [one for one in others if one[0] <= block[1] and block[0] <= one[1]]:
            others = [one for one in others if one not in touching]
            block = (
                min(block[0], *(one[0] for one in touching)),
                max(block[1], *(one[1] for one in touching)),
            )
        self.blocks = [block, *others][:ROOM]

    def _advance(self) -> None:
        while self.queue and self.queue[0][0] <= self.next:
            self.next = max(self.next, self.queue.pop(0)[1])
        self.blocks = [one for one in self.blocks if one[0] > self.next]


def _merged(ranges: list[Range]) -> list[Range]:
    made: list[Range] = []
    for low, high in sorted(ranges):
        if made and low <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], high))
        else:
            made.append((low, high))
    return made


OPENING = """0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
"""


def script(cases: list[list[Segment]], *, linux: bool = True, delay: str = ".06", reads: bool = True) -> str:
    """A connection that gets the segments of each case, with what must answer each at most `delay` later.

    Between two cases everything arrives that was missing, and is read unless `reads` says otherwise, since some stacks
    then tell of their window; only the last case may have a FIN.
    """
    receiver = Receiver(linux)
    lines = [OPENING]
    for case in cases:
        for segment in case:
            lines += _exchange(receiver, segment, delay)
        if case is not cases[-1]:
            lines += _exchange(receiver, Segment(0, LAST), delay)
            if reads:
                lines.append(f"+0 read(4, ..., 10000) = {LAST * UNIT}\n")
            receiver.base += LAST * UNIT
    return "".join(lines)


def _exchange(receiver: Receiver, segment: Segment, delay: str) -> Iterator[str]:
    low, high = receiver.base + segment.start * UNIT, receiver.base + segment.end * UNIT
    # Longer than the timeout of the peer, after which a receiver acknowledges quickly again.
    yield f"+.4 < {'F.' if segment.fin else 'P.'} {low}:{high}({high - low}) ack 1 win 32792\n"
    ack, blocks = receiver.arrive(segment)
    told = "".join(f" {one[0]}:{one[1]}" for one in blocks)
    yield f"+0~+{delay} > . 1:1(0) ack {ack}{f' <nop,nop,sack{told}>' if blocks else ''}\n"


def _segments(first: int, *, fins: bool) -> Iterator[Segment]:
    for start, end in itertools.combinations(range(first, LAST + 1), 2):
        yield Segment(start, end)
        if end == LAST and fins:
            yield Segment(start, end, fin=True)
    if fins:
        yield Segment(LAST, LAST, fin=True)


def every_overlap(*, fins: bool) -> Iterator[list[Segment]]:
    """All cases with two delivered units, each set of queued ranges above them, and each possible next segment."""
    for mask in range(2 ** (LAST - 3)):
        present = [unit for unit in range(3, LAST) if mask >> (unit - 3) & 1]
        runs = _runs(present)
        queued = [Segment(run[0], run[-1] + 1) for run in runs]
        for last in _segments(0, fins=fins):
            yield [Segment(0, 2), *queued, last]
            if fins and queued and queued[-1].end == LAST:
                with_fin = Segment(queued[-1].start, LAST, fin=True)
                yield [Segment(0, 2), *queued[:-1], with_fin, last]


def _runs(units: list[int]) -> list[list[int]]:
    made: list[list[int]] = []
    for unit in units:
        if made and made[-1][-1] + 1 == unit:
            made[-1].append(unit)
        else:
            made.append([unit])
    return made


def drawn(seed: int, count: int, *, fins: bool) -> Iterator[list[Segment]]:
    """Random sequences of up to seven segments, without those for which Linux's answer depends on its internal tree."""
    source = random.Random(seed)  # noqa: S311 - a test, not a secret
    possible = list(_segments(0, fins=fins))
    for _ in range(count):
        receiver = Receiver(linux=True)
        case = [Segment(0, 1), *source.choices(possible, k=source.randint(2, 7))]
        for segment in case:
            receiver.arrive(segment)
        if not receiver.ambiguous:
            yield case
