//! Shares of the time of senders by what kept them from sending.

use super::context::{MetricContext, open_window, ratio, whole};
use crate::recording::{Flow, LimitTimes};
use tcpassay_states::SendLimit;

pub(super) const APPLICATION: &str = "Share of the time of the senders of the test, from their handshakes to their ends, in which nothing that their applications had written was unsent. These shares sum to 1; if several limits hold at once, the last one in this order counts: application, Nagle, send buffer, receive window, congestion window, pacing, host queue, recovery, timers. A kernel tells application, receive window, send buffer (which it notices only if a write fails while something is being sent), recovery and timers (by its trace events), and that there was no Nagle and no pacing where the settings exclude them; the rest, which are the congestion window and the host queue, is not divided";
pub(super) const NAGLE: &str =
    "Share of this time in which a small segment waited, for Nagle's algorithm or because it was corked";
pub(super) const SEND_BUFFER: &str =
    "Share of this time in which everything was sent and a write waited for room in the send buffer";
pub(super) const RECEIVE_WINDOW: &str =
    "Share of this time in which the receive window kept data from being sent";
pub(super) const CONGESTION_WINDOW: &str =
    "Share of this time in which the congestion window kept data from being sent";
pub(super) const PACING: &str = "Share of this time in which data waited for the pacing timer";
pub(super) const HOST_QUEUE: &str =
    "Share of this time in which data waited because of data in the queue of the own host (TCP small queues)";
pub(super) const RECOVERY: &str =
    "Share of this time in which losses were repaired: the congestion states Recovery and Loss";
pub(super) const TIMERS: &str = "Share of this time in which a sender waited for a retransmission timeout or a tail loss probe that followed";

/// The share of a limit; `None` if no sender tells it.
pub(super) fn share(c: &MetricContext<'_>, limit: SendLimit) -> Option<f64> {
    // Of a kernel it is the rest of the time with data, whatever limited the sender then.
    if limit == SendLimit::CongestionWindow
        && c.flow_rows().any(|(_, flow)| flow.tcp.limits.application.is_none())
    {
        return None;
    }
    let times: Vec<LimitTimes> = c.flow_rows().filter_map(|(_, flow)| complete(flow, c)).collect();
    let known: Vec<u64> = times.iter().filter_map(|times| times.of(limit)).collect();
    let all: u64 = times.iter().filter_map(LimitTimes::total).sum();
    if known.is_empty() {
        return None;
    }
    ratio(Some(whole(known.iter().sum())), Some(whole(all)))
}

/// The times of a sender. `TCP_INFO` has those with data; the rest of the time that the flow was open is the application's.
fn complete(flow: &Flow, c: &MetricContext<'_>) -> Option<LimitTimes> {
    let times = flow.tcp.limits;
    let busy = times.total()?;
    if times.application.is_some() {
        return Some(times);
    }
    let window = open_window(flow, c.whole);
    let open = window.to.since(window.from).as_nanos();
    Some(LimitTimes { application: Some(open.saturating_sub(busy)), ..times })
}
