"""Words for what probes find."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from tcpassay.stacks.measure.peer import Peer, Sent
from tcpassay.stacks.measure.segment import Flag

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
