"""What is measured: a row for each fact."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tcpassay import _native
from tcpassay.stacks.measure import closing, opening, receiving, sending
from tcpassay.stacks.measure.peer import Peer, Unlike
from tcpassay.stacks.measure.words import Make


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of a TCP that its peer can see."""

    what: str
    section: str
    """Where an RFC says something about it."""
    probe: Callable[[Make], str]
    published: bool = True
    """False: of use to somebody who wants to break connections of others, and therefore not in docs/stacks.md."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A fact with the value that a TCP has."""

    fact: Fact
    value: str


FACTS: Final = (
    Fact("options of a SYN", "RFC 9293 3.2", opening.syn_options),
    Fact("options of a SYN-ACK, all offered", "RFC 9293 3.2", opening.syn_ack_options),
    Fact("options of a SYN-ACK, only an MSS offered", "RFC 9293 3.2", opening.syn_ack_options_of_plain),
    Fact("window of a SYN-ACK", "RFC 9293 3.8.6", opening.first_window),
    Fact("ISN of a connection a second later, difference", "RFC 9293 3.4.1", opening.isn_step),
    Fact("SYN sent again", "RFC 6298 2", opening.syn_timeout),
    Fact("repeated SYNs", "RFC 6298 5.5", opening.syn_repeats),
    Fact("repeated SYN-ACKs", "RFC 6298 5.5", opening.syn_ack_repeats),
    Fact("SYN that crosses the own one", "RFC 9293 3.5", opening.simultaneous),
    Fact("SYN in the window of an open connection", "RFC 5961 4", opening.syn_in_window, published=False),
    Fact("SYN outside of the window of an open connection", "RFC 5961 4", opening.syn_outside),
    Fact("SYN to a closed port", "RFC 9293 3.5.2", opening.closed_port),
    Fact("ECN, offered by the peer", "RFC 3168 6.1.1", opening.ecn),
    Fact("initial window", "RFC 6928 2", sending.initial_window),
    Fact("largest segment, no MSS option of the peer", "RFC 9293 3.7.1", sending.default_mss),
    Fact("largest segment, MSS of the peer 300", "RFC 9293 3.7.1", sending.small_mss),
    Fact("data sent again, RTT 100 ms", "RFC 6298 2", sending.first_timeout),
    Fact("data sent again, after 40 samples of 1 ms", "RFC 6298 2.4", sending.least_timeout),
    Fact("repeated data", "RFC 9293 3.8.3", sending.repeats),
    Fact("duplicate ACKs before a retransmission", "RFC 5681 3.2", sending.threshold),
    Fact("the same with SACK blocks", "RFC 6675 4", sending.sack_threshold),
    Fact("first duplicate ACK", "RFC 3042 2", sending.limited_transmit),
    Fact("second small write", "RFC 9293 3.7.4", sending.nagle),
    Fact("probes of a closed window", "RFC 9293 3.8.6.1", sending.persist),
    Fact("the same without answers", "RFC 9293 3.8.6.1", sending.persist_unanswered),
    Fact("flight after 60 s of idle time", "RFC 5681 4.1", sending.restart),
    Fact("keepalive, 10 s, before any data", "RFC 9293 3.8.4", sending.keepalive),
    Fact("abort", "RFC 9293 3.10.5", sending.reset),
    Fact("ACK of the first data", "RFC 9293 3.8.6.3", receiving.first_delay),
    Fact("ACK of a single segment later", "RFC 9293 3.8.6.3", receiving.delay),
    Fact("ACKs of ten segments", "RFC 9293 3.8.6.3", receiving.every),
    Fact("data beyond a hole", "RFC 5681 4.2", receiving.out_of_order),
    Fact("SACK blocks with six holes", "RFC 2018 4", receiving.blocks),
    Fact("SACK blocks of three segments in sequence", "RFC 2018 3", receiving.touching),
    Fact("ACK of data that fill a gap", "RFC 5681 4.2", receiving.filled),
    Fact("ACK of data that fill a part of a gap", "RFC 5681 4.2", receiving.partly_filled),
    Fact("segments beyond different holes that are kept", "RFC 9293 3.10.7.4", receiving.holes),
    Fact("FIN with data behind missing data", "RFC 9293 3.10.7.4", receiving.early_fin),
    Fact("FIN without data behind missing data", "RFC 9293 3.10.7.4", receiving.early_fin_alone),
    Fact("data that were acknowledged", "RFC 9293 3.10.7.4", receiving.old),
    Fact("data beyond the window", "RFC 9293 3.10.7.4", receiving.beyond),
    Fact("ACK of data that were not sent", "RFC 9293 3.10.7.4", receiving.not_sent),
    Fact("RST with the expected number", "RFC 5961 3.2", receiving.exact_reset),
    Fact("RST with another number in the window", "RFC 5961 3.2", receiving.near_reset, published=False),
    Fact("RST outside of the window", "RFC 5961 3.2", receiving.outside_reset),
    Fact("answers to ten RSTs in the window", "RFC 5961 7", receiving.challenges, published=False),
    Fact("data with an old timestamp", "RFC 7323 5.3", receiving.paws),
    Fact("bytes read before a closed window opens", "RFC 9293 3.8.6.2.2", receiving.window_update),
    Fact("CE of data", "RFC 3168 6.1.3", receiving.congestion_echo),
    Fact("TIME-WAIT", "RFC 9293 3.6.1", closing.time_wait),
    Fact("data of the peer after the own FIN", "RFC 9293 3.6", closing.half_close),
    Fact("own data after the FIN of the peer", "RFC 9293 3.6", closing.after_fin),
    Fact("repeated FINs", "RFC 6298 5.5", closing.fin_repeats),
)


def measure(implementation: str) -> Iterator[Measured]:
    """Measures each fact of a value of `stack.implementation`, each with a new host."""

    def make(**options: int) -> Peer:
        return Peer(implementation, **options)

    for fact in FACTS:
        try:
            value = fact.probe(make)
        except Unlike as why:
            value = f"not measured: {why}"
        except _native.StackError as error:
            outcome, reason = error.args
            value = f"{outcome}: {reason.splitlines()[0]}"
        yield Measured(fact, value)
