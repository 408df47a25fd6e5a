"""Cases without a fault in which an oracle reported an error. Each reaches the situation that the oracle misread."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tcpassay import _native
from tcpassay.judge import judge_recording
from tcpassay.judge.log import EventRow, MemoryLog
from tcpassay.recording import Recording

COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}


def probe_with_a_small_new_segment(rows: list[EventRow]) -> bool:
    """The timer of the tail loss probe sends less than a segment of new data while others are outstanding."""
    fired = {row.time_ns for row in rows if (row.kind, row.why) == ("timer_fire", "Tlp")}
    return any(row.kind == "out" and 0 < row.values["len"] < 1448 and row.time_ns in fired for row in rows)


def window_closes_between_paced_segments(rows: list[EventRow]) -> bool:
    """An ACK closes the window, and starts the timer of window probes at once."""
    closed = {row.time_ns for row in rows if row.kind == "in" and row.values["window_bytes"] == 0}
    return any((row.kind, row.why) == ("timer_set", "Persist") and row.time_ns in closed for row in rows)


def reordering_timer_begins_recovery(rows: list[EventRow]) -> bool:
    """The timer of reordering fires, and a recovery begins."""
    fired = {row.time_ns for row in rows if (row.kind, row.why) == ("timer_fire", "RackReorder")}
    return any(
        row.kind == "congestion" and "Recovery: rack" in row.why and row.time_ns in fired for row in rows
    )


def window_restored_after_recovery(rows: list[EventRow]) -> bool:
    """The window is one segment when the state changes, and larger within the same ACK."""
    left = {row.time_ns for row in rows if row.kind == "congestion" and row.why.startswith("Recovery->Open")}
    restored = {row.time_ns for row in rows if row.kind == "window" and row.values["cwnd_bytes"] > 2 * 1448}
    return bool(left & restored)


def round_trip_of_200_ms(rows: list[EventRow]) -> bool:
    """A receiver holds the ACK of the last segment of a burst back."""
    return any(row.kind == "rtt" and row.values["value_ns"] > 200_000_000 for row in rows)


def data_arrive_again(rows: list[EventRow]) -> bool:
    """A retransmission arrives, and its data had arrived before."""
    sent_again = {row.values["seq"] for row in rows if row.kind == "retransmit"}
    arrived = [row.values["seq"] for row in rows if row.kind == "in" and row.values["len"]]
    return any(arrived.count(seq) > 1 for seq in sent_again)


def sacked_data_after_a_recovery(rows: list[EventRow]) -> bool:
    """A recovery ends at a hole above which data are SACKed."""
    return any(row.kind == "congestion" and row.why.startswith("Recovery->Disorder") for row in rows)


def sacked_data_are_acknowledged(rows: list[EventRow]) -> bool:
    """An ACK passes data that were SACKed before."""
    highest = max((row.values["seq"] for row in rows if row.kind == "sack" and row.host == 0), default=0)
    return any(row.kind == "in" and row.values["ack"] > highest > 0 for row in rows)


def timeout_while_much_is_in_flight(rows: list[EventRow]) -> bool:
    """The timer fires when most data were sent again not long ago, so that they are not considered lost."""
    windows = [row.values["cwnd_bytes"] for row in rows if row.kind == "window" and row.why == "timeout"]
    again = sum(row.values["len"] for row in rows if row.kind == "retransmit")
    return any(window > 1_000_000 for window in windows) and again > 200_000


def window_above_ssthresh_at_the_end(rows: list[EventRow]) -> bool:
    """In recovery more than ssthresh is in flight after less was."""
    windows = [row.values for row in rows if row.kind == "window" and row.why == "prr"]
    least = [now["flight_bytes"] < now["ssthresh_bytes"] for now in windows]
    return any(now["flight_bytes"] > now["ssthresh_bytes"] + 2 * 1448 for now in windows[least.index(True) :])


def sent_data_at(rows: list[EventRow], position: int) -> set[int | None]:
    """The flows that sent data with this position as new; position 0 is that of a SYN."""
    sent = (row for row in rows if row.kind == "out" and row.values["len"] > 0)
    return {row.flow for row in sent if row.values["seq"] == position}


def syn_with_data_is_lost(rows: list[EventRow]) -> bool:
    """The timer of a SYN with data fires."""
    opened = sent_data_at(rows, 0)
    return any(row.kind == "timer_fire" and row.why == "Handshake" and row.flow in opened for row in rows)


def syn_with_data_is_refused(rows: list[EventRow]) -> bool:
    """The answer to a SYN with data acknowledges the SYN alone, and the data are sent again."""
    return bool(sent_data_at(rows, 0) & sent_data_at(rows, 1))


def undo_while_bbr_drains(rows: list[EventRow]) -> bool:
    """A recovery in which BBR ends its startup is undone."""
    thresholds = [row.values.get("ssthresh_bytes") for row in rows if row.kind == "window"]
    return thresholds[0] is None and thresholds[-1] is not None and any("undo" in row.why for row in rows)


def undo_of_a_path_that_reverses(rows: list[EventRow]) -> bool:
    """An undo withdraws losses, and nothing is delivered until the timeout."""
    undone = any(row.kind == "congestion" and row.why == "Recovery->Disorder: undo: eifel" for row in rows)
    return undone and any(row.kind == "congestion" and row.why == "Disorder->Loss: rto" for row in rows)


def window_in_a_reduction(rows: list[EventRow]) -> bool:
    """Proportional rate reduction sets a window."""
    return any(row.kind == "window" and row.why == "prr" for row in rows)


def packet_is_divided_for_sack_blocks(rows: list[EventRow]) -> bool:
    """A full packet leaves in two segments, the second of which has what the options of the first displaced."""
    sent = [row.values for row in rows if row.kind == "out" and row.values["len"]]
    rest = {(now["seq"], now["len"]) for now in sent if 0 < now["len"] <= 36}
    return any((now["seq"] + now["len"], 1448 - now["len"]) in rest for now in sent)


def sacked_data_are_sent_again(rows: list[EventRow]) -> bool:
    """A retransmission contains data that were SACKed."""
    sacked = {(row.flow, row.values["seq"]) for row in rows if row.kind == "sack" and row.host == 0}
    again = [row for row in rows if row.kind == "retransmit" and row.host == 0]
    return any(
        flow == row.flow and row.values["seq"] <= seq < row.values["seq"] + row.values["len"]
        for row in again
        for flow, seq in sacked
    )


def window_closes_when_a_mark_stops_the_sender(rows: list[EventRow]) -> bool:
    """An ACK closes the window and begins a reduction for a mark, and no timer of window probes is set at once."""
    closed = {(row.flow, row.time_ns) for row in rows if row.kind == "in" and row.values["window_bytes"] == 0}
    marked = {
        (row.flow, row.time_ns) for row in rows if row.kind == "congestion" and row.why.endswith("CWR: ece")
    }
    timed = {(row.flow, row.time_ns) for row in rows if (row.kind, row.why) == ("timer_set", "Persist")}
    return bool((closed & marked) - timed)


def window_below_two_segments_is_reduced(rows: list[EventRow]) -> bool:
    """A recovery begins with a larger window than the one before, because ssthresh is two segments at least."""
    windows = [row for row in rows if row.kind == "window"]
    pairs = pairwise(windows)
    return any(
        now.why == "enter" and now.values["cwnd_bytes"] > last.values["cwnd_bytes"] for last, now in pairs
    )


def idle_time_in_a_reduction(rows: list[EventRow]) -> bool:
    """The window restarts after an idle time, and a reduction for a mark ends only then."""
    idle = [row for row in rows if row.kind == "window" and row.why == "resume"]
    ends = [row for row in rows if row.kind == "congestion" and row.why.startswith("CWR->Open")]
    begins = [row for row in rows if row.kind == "congestion" and "->CWR" in row.why]

    def reduces(row: EventRow) -> bool:
        changes = [one for one in begins + ends if one.flow == row.flow and one.time_ns < row.time_ns]
        return bool(changes) and max(changes, key=lambda one: one.time_ns).why.endswith("CWR: ece")

    return any(reduces(row) for row in idle)


def part_of_a_retransmission_is_acknowledged(rows: list[EventRow]) -> bool:
    """An ACK ends within a segment that was sent again."""
    again = [
        (row.flow, row.values["seq"], row.values["seq"] + row.values["len"])
        for row in rows
        if row.kind == "retransmit" and row.values["len"] > 0
    ]
    acks = {(row.flow, row.values["ack"]) for row in rows if row.kind == "in"}
    return any(flow == other and start < ack < end for flow, start, end in again for other, ack in acks)


def timeout_before_a_round_trip_is_measured(rows: list[EventRow]) -> bool:
    """The timer fires while a segment that the tail loss probe has sent again is outstanding."""
    probed: set[tuple[int, int]] = set()
    for row in rows:
        flow = (row.host, row.flow)
        if (row.kind, row.why) == ("timer_fire", "Tlp"):
            probed.add(flow)
        elif row.kind == "rtt":
            probed.discard(flow)
        elif (row.kind, row.why) == ("timer_fire", "Rto") and flow in probed:
            return True
    return False


def timeout_after_a_spurious_one(rows: list[EventRow]) -> bool:
    """A timeout is undone, and then the timer fires for the same segment."""
    undone: dict[tuple[int, int], int] = {}
    una: dict[tuple[int, int], int] = {}
    for row in rows:
        flow = (row.host, row.flow)
        if row.kind == "in":
            una[flow] = max(una.get(flow, 0), row.values["ack"])
        elif row.kind == "congestion" and "undo: f-rto" in row.why:
            undone[flow] = una[flow]
        elif (row.kind, row.why) == ("timer_fire", "Rto") and undone.get(flow) == una.get(flow, -1):
            return True
    return False


def window_changes_between_duplicates(rows: list[EventRow]) -> bool:
    """A recovery begins, and the window changed between two ACKs of its position."""
    last: dict[tuple[int, int], tuple[int, int]] = {}
    changed: dict[tuple[int, int], int] = {}
    for row in rows:
        flow = (row.host, row.flow)
        if row.kind == "in" and not row.values["len"]:
            ack, window = row.values["ack"], row.values["window_bytes"]
            before = last.get(flow, (0, 0))
            if ack == before[0] and window != before[1]:
                changed[flow] = ack
            last[flow] = (ack, window)
        elif row.kind == "congestion" and "->Recovery" in row.why and changed.get(flow) == last[flow][0]:
            return True
    return False


def old_data_with_a_partial_ack(rows: list[EventRow]) -> bool:
    """In a recovery data that are known arrive with an ACK of a part, and are answered at once."""
    recovers: set[tuple[int, int]] = set()
    partial = None
    for row in rows:
        flow = (row.host, row.flow)
        if row.kind == "congestion":
            (recovers.add if "->Recovery" in row.why else recovers.discard)(flow)
        elif row.kind == "in" and row.values["len"] and flow in recovers:
            partial = (flow, row.time_ns)
        elif (row.kind, row.why) == ("ack_now", "Answer") and partial == (flow, row.time_ns):
            return True
    return False


def loss_ends_slow_start_at_one_duplicate(rows: list[EventRow]) -> bool:
    """A single duplicate ACK begins a recovery: early retransmit of two segments."""
    return any(row.kind == "congestion" and row.why == "Open->Recovery: dupthresh" for row in rows)


def window_full_between_paced_segments(rows: list[EventRow]) -> bool:
    """After a recovery the window grows above what a short send buffer holds."""
    windows = [row.values["cwnd_bytes"] for row in rows if row.kind == "window" and row.why == "ack"]
    return (
        any(row.kind == "congestion" and row.why.startswith("Recovery->") for row in rows)
        and max(windows) > 26_614
    )


def quick_ack_after_a_gap(rows: list[EventRow]) -> bool:
    """Data fill a gap, and the next segment in order is acknowledged at once because it lets the window grow."""
    acks = [row.why for row in rows if row.kind == "ack_now"]
    return ("OutOfOrder", "Quick") in pairwise(acks)


CASES: dict[str, tuple[Callable[[list[EventRow]], bool], int, dict[str, str]]] = {
    "Nagle's algorithm does not hold a probe back": (
        probe_with_a_small_new_segment,
        19,
        {
            "app.duration": "2s", "app.read_size": "1KB", "app.workload": "incast", "link.corrupt": "0.1%",
            "link.delay": "200us", "link.loss": "0.1%", "link.rate": "100Mbit", "stack.max_rto": "60s",
            "stack.nagle": "all", "stack.profile": "linux", "stack.retries": "15",
        },
    ),
    "BBR restores its window after the change of state": (
        window_restored_after_recovery,
        199,
        {
            "app.duration": "2s", "app.rate": "10Mbit", "app.read_rate": "5Mbit", "link.delay": "2ms",
            "link.loss": "0.1%", "link.rate": "100Mbit", "link.reorder": "reverse-burst:4", "queue.limit": "30KB",
            "stack.ack_check": "always", "stack.cc": "bbr", "stack.cwr": "at-once", "stack.profile": "linux",
            "stack.tso_autosize": "rate-and-rtt",
        },
    ),
    "a delayed ACK makes a round trip long": (
        round_trip_of_200_ms,
        240,
        {
            "app.duration": "600ms", "app.request": "choice:10KB@1,1MB@1", "app.response": "100B",
            "app.workload": "incast", "link.delay": "200us", "link.rate": "100Mbit", "nic.gro": "off",
            "nic.rx_usecs": "20us", "stack.profile": "rfc",
        },
    ),
    "a duplicate fills no gap": (
        data_arrive_again,
        85,
        {
            "app.burst": "100KB", "app.duration": "2s", "app.read_rate": "5Mbit", "app.user_timeout": "5s",
            "link.corrupt": "0.1%", "link.delay": "200us", "link.rate": "100Mbit", "nic.hidden_frames": "4",
            "nic.hidden_idle": "10us", "stack.early_retransmit": "on", "stack.min_rto": "10ms",
            "stack.profile": "linux",
        },
    ),
    "an ACK of SACKed data opens FreeBSD's window": (
        sacked_data_are_acknowledged,
        326,
        {
            "app.duration": "2s", "app.response": "100B", "app.workload": "rpc", "app.write_size": "100B",
            "link.delay": "10ms", "link.rate": "100Mbit", "link.reorder": "reverse-burst:4", "nic.tso": "on",
            "stack.fastopen": "off", "stack.profile": "freebsd",
        },
    ),
    "retransmissions of what is not considered lost are in flight twice": (
        timeout_while_much_is_in_flight,
        382,
        {
            "app.duration": "600ms", "app.reuse": "on", "link.ack_thinning_wait": "10ms", "link.delay": "10ms",
            "link.jitter": "1ms", "link.rate": "100Mbit", "stack.fastopen": "on", "stack.profile": "linux",
            "stack.recovery": "sack", "stack.tso_autosize": "off",
        },
    ),
    "PRR with the bound of Linux 4.3 adds no segment for a safe ACK": (
        window_in_a_reduction,
        50,
        {
            "app.burst": "1MB", "app.duration": "2s", "link.delay": "200us", "link.rate": "100Mbit",
            "nic.gro_max": "16KB", "queue.red_max": "90KB", "stack.flavor": "rfc", "stack.profile": "freebsd",
            "stack.prr_bound": "repair", "stack.tso_autosize": "rate",
        },
    ),
    "PRR allows what is in flight": (
        window_above_ssthresh_at_the_end,
        94,
        {
            "app.burst": "1MB", "app.duration": "2s", "app.nodelay": "on", "app.read_size": "1KB",
            "link.delay": "200us", "link.policer": "50Mbit,100KB", "link.rate": "100Mbit", "queue.limit": "30KB",
            "stack.cc": "cubic", "stack.delayed_ack": "2,40ms", "stack.fastopen": "on", "stack.profile": "linux",
            "stack.retries": "15", "stack.rto_floor": "rto", "stack.sack": "off", "stack.window_scale": "off",
        },
    ),
    "the timer of a SYN repeats its data": (
        syn_with_data_is_lost,
        394,
        {
            "app.arrival": "poisson:50/s", "app.duration": "2s", "app.flow_size": "500KB", "app.nodelay": "on",
            "link.delay": "200us", "link.rate": "20Mbit", "nic.tso": "on", "stack.fastopen": "on",
            "stack.profile": "linux",
        },
    ),
    "data of a SYN that were refused are new": (
        syn_with_data_is_refused,
        184,
        {
            "app.arrival": "poisson:50/s", "app.duration": "2s", "app.flow_size": "1MB", "app.gap": "1s",
            "app.think": "0s", "link.delay": "200us", "link.rate": "100Mbit", "stack.fastopen": "on",
            "stack.profile": "rfc", "stack.rto_floor": "rto",
        },
    ),
    "BBR sets ssthresh itself": (
        undo_while_bbr_drains,
        333,
        {
            "app.burst": "1MB", "app.cork": "on", "app.duration": "2s", "app.rcvbuf": "auto",
            "link.ack_thinning": "1", "link.delay": "2ms", "link.duplicate": "1%", "link.jitter": "1ms",
            "link.rate": "100Mbit", "nic.hidden_short": "20us", "nic.rx_usecs": "0s", "stack.abc": "per-ack",
            "stack.cc": "bbr", "stack.dsack": "off", "stack.max_sndbuf": "4MB", "stack.profile": "linux",
        },
    ),
    "losses that an undo has withdrawn wait for a delivery": (
        undo_of_a_path_that_reverses,
        1,
        {
            "app.duration": "1s", "app.flows": "2", "app.write_size": "1448B", "link.delay": "200us",
            "link.policer": "50Mbit,100KB", "link.rate": "100Mbit", "link.reorder": "reverse-burst:4",
            "nic.hidden_idle": "10us", "nic.hidden_short": "5us", "stack.delayed_ack": "2,40ms",
            "stack.profile": "linux",
        },
    ),
    "FreeBSD before 13 counts duplicate ACKs only": (
        sacked_data_after_a_recovery,
        170,
        {
            "app.burst": "100KB", "app.duration": "600ms", "link.delay": "2ms", "link.loss": "1%",
            "link.rate": "20Mbit", "nic.rx_usecs": "20us", "stack.profile": "freebsd", "stack.recovery": "freebsd",
        },
    ),
    "a window that closes while pacing waits": (
        window_closes_between_paced_segments,
        1,
        {
            "app.duration": "1500ms", "stack.initial_rto": "200ms", "stack.cc": "reno", "stack.delayed_ack":
            "off", "stack.profile": "rfc", "stack.min_rto": "10ms", "link.rate": "20Mbit", "link.delay": "20ms",
            "queue.limit": "45KB", "stack.loss_detection": "dupthresh", "stack.undo": "dsack",
            "stack.initial_window": 2, "stack.limited_transmit": "on", "stack.slow_start_after_idle": "on",
            "stack.pacing": "on", "stack.hystart": "hystart++", "app.flows": 4, "app.keepalive": "250ms",
            "queue.kind": "codel", "queue.target": "1ms", "queue.interval": "10ms", "link.jitter": "500us",
            "link.loss": "0.1%", "link.reorder": "1%:3", "link.ack_thinning": 4, "nic.tso": True,
            "nic.adaptive": "hidden", "app.sndbuf": "32KB", "stack.recovery": "sack", "app.read_rate":
            "100Kbit", "app.rcvbuf": "64KB",
        },
    ),
    "the timer of probes ends when the timer of reordering begins a recovery": (
        reordering_timer_begins_recovery,
        12,
        {
            "app.duration": "1500ms", "stack.initial_rto": "200ms", "stack.cc": "mvegas", "stack.delayed_ack":
            "off", "stack.profile": "linux-4.6", "stack.timestamps": "on", "stack.min_rto": "10ms", "link.rate":
            "20Mbit", "link.delay": "1.414ms", "queue.limit": "1MB", "stack.loss_detection": "rack:dsack",
            "stack.abc": "all", "stack.initial_window": 2, "stack.limited_transmit": "on", "stack.pacing":
            "off", "stack.hystart": "hystart++", "app.nodelay": "on", "app.flows": 4, "nic.rx_frames": 4,
            "queue.kind": "codel", "queue.target": "1ms", "queue.interval": "10ms", "link.jitter": "500us",
            "link.loss": "0.1%", "link.reorder": "1%:3", "link.ack_thinning": 4, "nic.tso": True, "nic.ring":
            16, "app.read_size": "2KB", "stack.tlp": "on", "stack.ecn": "classic", "app.workload": "paced",
            "app.rate": "5Mbit", "app.burst": "700B",
        },
    ),
    "an ACK that sets the timer of reordering sets none for a probe": (
        reordering_timer_begins_recovery,
        5,
        {
            "app.duration": "1500ms", "stack.initial_rto": "200ms", "stack.cc": "mvegas", "stack.delayed_ack":
            "off", "stack.profile": "linux", "stack.timestamps": "on", "stack.min_rto": "10ms", "stack.mtu":
            "9000B", "link.rate": "20Mbit", "link.delay": "100us", "queue.limit": "45KB", "stack.undo": "eifel",
            "stack.limited_transmit": "on", "stack.slow_start_after_idle": "decay", "stack.hystart": "linux",
            "app.nodelay": "on", "app.flows": 4, "app.keepalive": "250ms", "nic.rx_frames": 4, "link.ack_loss":
            "10%", "nic.tso": True, "nic.rx_cost": "5us", "app.write_size": "1000B", "stack.max_rwnd": "65535B",
            "queue.ecn_mark": "data", "queue.ecn_threshold": "6KB", "stack.ecn": "accurate", "app.read_rate":
            "100Kbit", "app.rcvbuf": "64KB",
        },
    ),
    "a segment of Linux is small because its packet was divided": (
        packet_is_divided_for_sack_blocks,
        101,
        {
            "app.concurrency": "4", "app.duration": "5ms", "app.flow_size": "1KB", "app.response": "50KB",
            "app.workload": "rpc", "link.delay": "500us", "link.jitter": "50us", "link.jitter_correlation": "0.05%",
            "stack.cc": "cubic", "stack.loss_detection": "dupthresh", "stack.profile": "linux",
            "stack.recovery": "sack",
        },
    ),
    "a packet that was joined twice is SACKed in part": (
        sacked_data_are_sent_again,
        104,
        {
            "app.burst": "700B", "app.duration": "500ms", "app.flow_size": "1KB", "app.flows": "4", "app.nodelay": "on",
            "app.rate": "5Mbit", "app.workload": "paced", "link.rate": "20Mbit", "queue.kind": "red",
            "queue.red_max": "15KB", "queue.red_min": "10KB", "stack.cc": "bbr3", "stack.loss_detection": "rack:dsack",
            "stack.mtu": "5KB", "stack.profile": "linux-4.6",
        },
    ),
    "a sender of one segment waits after a mark": (
        window_closes_when_a_mark_stops_the_sender,
        108,
        {
            "app.duration": "200ms", "app.flow_size": "100KB", "app.flows": "3", "app.rcvbuf": "50KB",
            "app.read_rate": "100Kbit", "link.ack_loss": "10%", "queue.ecn_mark": "data", "queue.ecn_threshold": "6KB",
            "stack.abc": "per-ack", "stack.delayed_ack": "off", "stack.ecn": "accurate", "stack.min_rto": "10ms",
        },
    ),
    "ssthresh is more than the window that a loss reduces": (
        window_below_two_segments_is_reduced,
        1,
        {
            "app.duration": "100ms", "app.flow_size": "500KB", "app.nodelay": "on", "app.write_size": "1000B",
            "link.loss": "2%", "link.rate": "100Mbit", "queue.kind": "codel", "queue.limit": "45KB",
            "stack.min_rto": "20ms", "stack.mtu": "9000B",
        },
    ),
    "refused data of a SYN give no sample": (
        syn_with_data_is_lost,
        1,
        {
            "app.duration": "1500ms", "app.flow_size": "1KB", "app.reuse": "off", "app.workload": "rpc", "link.loss":
            "0.1%", "link.rate": "100Mbit", "stack.fastopen": "on", "stack.profile": "linux-4.6",
            "stack.timestamps": "off",
        },
    ),
    "the restart after idle time lowers the window of a reduction": (
        idle_time_in_a_reduction,
        102,
        {
            "app.duration": "1500ms", "app.flow_size": "1KB", "app.flows": 4, "app.gap": "300ms", "app.quickack":
            "on", "app.workload": "onoff", "link.delay": "100us", "link.rate": "20Mbit", "link.reorder": "0.2%:30",
            "nic.gro": True, "nic.rx_usecs": "1ms", "queue.ecn_mark": "data", "queue.ecn_threshold": "6KB",
            "stack.cc": "dctcp", "stack.ecn": "dctcp", "stack.initial_window": 2, "stack.min_rto": "20ms",
        },
    ),
    "a part of a segment that was sent again does not make a sample ambiguous": (
        part_of_a_retransmission_is_acknowledged,
        1,
        {
            "app.duration": "20ms", "app.flow_size": "1MB", "app.flows": 3, "app.rcvbuf": "64KB", "link.loss":
            "0.1%", "nic.tso": True, "stack.profile": "linux-4.6", "stack.recovery": "sack",
        },
    ),
    "a timeout before the first round trip is measured": (
        timeout_before_a_round_trip_is_measured,
        1,
        {
            "app.duration": "50ms", "app.flow_size": "50KB", "app.flows": 4, "app.rcvbuf": "50KB",
            "link.rate": "20Mbit", "stack.delayed_ack": "off", "stack.min_rto": "20us", "stack.mtu": "9000B",
            "stack.profile": "linux", "stack.timestamps": "off",
        },
    ),
    "a timeout after a spurious one of the same segment": (
        timeout_after_a_spurious_one,
        1,
        {
            "app.duration": "500ms", "app.flow_size": "50KB", "app.flows": 4, "link.rate": "200Mbit",
            "queue.burst": "10KB", "queue.kind": "tbf", "queue.limit": "45KB", "queue.rate": "5Mbit",
            "stack.delayed_ack": "off", "stack.loss_detection": "rack:dsack", "stack.min_rto": "20us",
            "stack.profile": "linux-4.6",
        },
    ),
    "an ACK that changes the window within its right edge is no duplicate": (
        window_changes_between_duplicates,
        2,
        {
            "app.duration": "500ms", "app.flow_size": "1KB", "app.response": "100KB", "app.workload": "rpc",
            "link.delay": "500us", "link.jitter": "20us", "nic.queue": 1, "stack.sack": "off",
        },
    ),
    "the first reason of an ACK is the partial ACK of its segment": (
        old_data_with_a_partial_ack,
        5,
        {
            "app.concurrency": 4, "app.duration": "100ms", "app.flow_size": "1KB", "app.nodelay": "on", "app.workload":
            "rpc", "link.delay": "1.414ms", "link.jitter": "50us", "stack.pacing": "on", "stack.profile": "freebsd",
            "stack.sack": "off",
        },
    ),
    "early retransmit without SACK ends slow start": (
        loss_ends_slow_start_at_one_duplicate,
        2,
        {
            "app.burst": "2KB", "app.duration": "1s", "app.flow_size": "1KB", "app.flows": 3, "app.nodelay": "on",
            "app.rate": "5Mbit", "app.workload": "paced", "link.loss_model": "gilbert-elliott:0.1%,10%", "link.rate":
            "100Mbit", "stack.cc": "cubic", "stack.initial_window": 1, "stack.profile": "linux-4.6",
            "stack.sack": "off",
        },
    ),
    "the window is full while pacing waits": (
        window_full_between_paced_segments,
        2,
        {
            "app.duration": "1s", "app.flow_size": "50MB", "app.sndbuf": "32KB", "link.loss": "0.001%",
            "stack.cc": "cubic", "stack.loss_detection": "rack:dsack", "stack.pacing": "on",
        },
    ),
    "a buffer of unknown size may have grown": (
        quick_ack_after_a_gap,
        2,
        {
            "app.duration": "400ms", "app.flows": 3, "link.delay": "5ms", "link.loss": "3%", "link.rate": "100Mbit",
            "stack.cc": "bbr3", "stack.cc.probe_rtt_interval": 1, "stack.initial_rto": "200ms",
            "stack.min_rto": "200ms",
            "stack.profile": "linux-4.6",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_oracle_reports_no_error_where_there_is_no_fault(name: str, tmp_path: Path) -> None:
    reached, seed, triples = CASES[name]
    run: Any = _native.run_held(triples, seed, ".", COLLECT)
    log = MemoryLog(run)
    assert reached(log.rows(list(range(len(log.kinds)))))
    found = judge_recording(Recording.held(tmp_path, run.index), log=log)
    assert [one for one in found if one.severity == "error"] == []
