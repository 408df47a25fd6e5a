"""The SYNs of a connection, from the packets of a recording (`packets.pcapng`); the event log has no options."""

from dataclasses import dataclass

from tcpassay.pcapng import packets
from tcpassay.stacks.measure.segment import MSS, SACK_PERMITTED, SCALE, Flag, Segment, decode


@dataclass(frozen=True, slots=True)
class Opening:
    """The SYN and the SYN-ACK of a connection, as one end sent and received them."""

    syn: Segment
    answer: Segment

    @property
    def scales(self) -> bool:
        """Whether windows are scaled: both SYNs have the option (RFC 7323 section 2.2)."""
        return self.syn.scale is not None and self.answer.scale is not None

    @property
    def stamps(self) -> bool:
        """Whether both SYNs have the timestamps option."""
        return self.syn.stamps is not None and self.answer.stamps is not None


def opening(capture: bytes, host: str) -> Opening | None:
    """The first handshake that the packets of a host show; `None` without one, or if they are not IPv4."""
    syn = None
    for name, packet in packets(capture):
        if name != host:
            continue
        segment = decode(packet)
        if segment.has(Flag.SYN | Flag.ACK) and syn is not None:
            return Opening(syn, segment)
        if segment.has(Flag.SYN) and not segment.has(Flag.ACK):
            syn = segment
    return None


def options(segment: Segment) -> str:
    """The options of a SYN in the words of packetdrill, without timestamps."""
    words = []
    for kind, content in segment.options:
        if kind == MSS:
            words.append(f"mss {int.from_bytes(content)}")
        elif kind == SCALE:
            words += ["nop", f"wscale {content[0]}"]
        elif kind == SACK_PERMITTED:
            words += ["nop", "nop", "sackOK"]
    return ",".join(words)
