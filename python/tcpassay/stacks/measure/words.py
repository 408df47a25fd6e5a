"""Words for what probes find."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from tcpassay.stacks.measure.peer import Peer, Sent
from tcpassay.stacks.measure.segment import Flag

_SLACK = 1.1
"""Part by which an interval may be longer than twice the one before: timers have ticks."""
Make = Callable[..., Peer]
"""Makes a peer of the stack that is measured, with settings of docs/stacks.md."""


def span(seconds: float) -> str:
    """A length of time."""
    if seconds < 0.0005:  # noqa: PLR2004 - below the resolution of the words
        return "at once"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.3g} s"  # noqa: PLR2004 - as above


def spans(times: Sequence[float], most: int = 6) -> str:
    """Lengths of time between successive points."""
    gaps = [after - before for before, after in pairwise(times)]
    shown = ", ".join(f"{gap:.3g}" for gap in gaps[:most])
    return f"{shown}{', ...' if len(gaps) > most else ''} s"


def repeated(times: Sequence[float], end: float, what: str = "times", *, failed: bool = False) -> str:
    """How often something was sent again until `end`, with the intervals.

    It goes on if the silence at the end is no longer than the next interval of a back-off would be.
    """
    if len(times) < 2:  # noqa: PLR2004 - sent once
        return "never"
    ended = failed or end - times[-1] > 2 * _SLACK * (times[-1] - times[-2])
    count = (
        f"{len(times) - 1} {what}" if ended else f"at least {len(times) - 1} {what} in {end - times[0]:.0f} s"
    )
    return f"{count}, after {spans(times)}"


def answer(sent: Sequence[Sent]) -> str:
    """The kind of the first answer."""
    if not sent:
        return "nothing"
    flags = sent[0].segment.flags
    if flags & Flag.RST:
        return "RST"
    if flags & Flag.SYN:
        return "SYN-ACK" if flags & Flag.ACK else "SYN"
    if sent[0].segment.data:
        return "data"
    return "FIN" if flags & Flag.FIN else "ACK"


def options(sent: Sent) -> str:
    """The options of a SYN, in their order in the header."""
    names = {2: "MSS", 3: "window scale", 4: "SACK permitted", 8: "timestamps"}
    values = {2: sent.segment.mss, 3: sent.segment.scale}
    words = [
        f"{names.get(kind, f'option {kind}')}{f' {values[kind]}' if kind in values else ''}"
        for kind, _ in sent.segment.options
    ]
    return ", ".join(words) or "none"


def data(sent: Sequence[Sent]) -> list[Sent]:
    """The segments with data."""
    return [one for one in sent if one.segment.data]
