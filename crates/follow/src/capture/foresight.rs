//! What the packets behind one tell about it: the next segment that leaves, and its window.

use super::packet::CapturedPacket;
use tcpassay_tcp::WindowMove;
use tcpassay_wire::Flags;

/// Windows that count as those around a packet.
const RECENT: usize = 16;
/// Shorter segments do not let the window grow (`tcp_grow_window`).
const GROWS_FROM: u32 = 128;

/// For each packet, the next one that leaves.
pub(super) fn next_sent(packets: &[CapturedPacket]) -> Vec<Option<usize>> {
    let mut made = vec![None; packets.len()];
    let mut next = None;
    for row in (0..packets.len()).rev() {
        made[row] = next;
        if packets[row].sent {
            next = Some(row);
        }
    }
    made
}

/// For each arrival, how the window of the next segment that leaves compares with that of the last one. Only data of some length let
/// Linux's window grow (`tcp_event_data_recv`).
pub(super) fn moves(
    packets: &[CapturedPacket],
    windows: &[u64],
    next_sent: &[Option<usize>],
) -> Vec<WindowMove> {
    let mut made = vec![WindowMove::Kept; packets.len()];
    let mut before = None;
    for row in 0..packets.len() {
        if packets[row].sent {
            before = Some(windows[row]);
        } else if let (Some(before), Some(next)) = (before, next_sent[row]) {
            made[row] = match windows[next].cmp(&before) {
                std::cmp::Ordering::Less => WindowMove::Shrank,
                std::cmp::Ordering::Greater if packets[row].segment.len >= GROWS_FROM => WindowMove::Grew,
                std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => WindowMove::Kept,
            };
        }
    }
    made
}

/// How the window of the segment that leaves next, from `row` on, compares with that of the last one before.
pub(super) fn moved(packets: &[CapturedPacket], windows: &[u64], row: usize) -> WindowMove {
    let row = row.min(packets.len());
    let before = (0..row).rev().find(|&row| packets[row].sent);
    let next = (row..packets.len()).find(|&row| packets[row].sent);
    match (before, next) {
        (Some(before), Some(next)) if windows[next] < windows[before] => WindowMove::Shrank,
        _ => WindowMove::Kept,
    }
}

/// Whether an arrival comes after a segment whose window had grown, so that Linux's limit may grow once more without a visible effect: the
/// window is a multiple of the scale, and other limits hold it.
pub(super) fn after_growth(packets: &[CapturedPacket], windows: &[u64]) -> Vec<bool> {
    let (mut last, mut grew) = (None, false);
    let mut made = Vec::with_capacity(packets.len());
    for (packet, window) in packets.iter().zip(windows) {
        if packet.sent {
            grew = last.is_some_and(|last| *window > last);
            last = Some(*window);
        }
        made.push(grew && !packet.sent);
    }
    made
}

/// For each packet, whether one of the windows around it shows that data are unread: it is below three quarters of the largest one before.
/// `next_sent`: as of [`next_sent`](fn@next_sent).
pub(super) fn unread(packets: &[CapturedPacket], windows: &[u64], next_sent: &[Option<usize>]) -> Vec<bool> {
    let (mut largest, mut since) = (0, RECENT);
    let mut made = Vec::with_capacity(packets.len());
    for (row, packet) in packets.iter().enumerate() {
        let small = |window: u64| window < largest / 4 * 3;
        if packet.sent && !packet.segment.flags.has(Flags::SYN) {
            since = if small(windows[row]) { 0 } else { since + 1 };
            largest = largest.max(windows[row]);
        }
        made.push(since < RECENT || next_sent[row].is_some_and(|next| windows[next] < largest / 4 * 3));
    }
    made
}
