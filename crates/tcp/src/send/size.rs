//! How much to send at once: segments, super-segments, and when to wait.
//!
//! Pure arithmetic. Sources: RFC 9293 section 3.8.6.2.1 (silly window avoidance); RFC 896 and RFC 1122 section 4.2.3.4
//! (Nagle); Linux `tcp_cwnd_test` (a super-segment holds at most half the window), `tcp_tso_should_defer`.

use tcpassay_cc::Limited;

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
/// What the decision rests on. All in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub mss: u64,
    /// Never sent.
    pub avail: u64,
    /// Free in the congestion window.
    pub cwnd_room: u64,
    /// Free in the peer's window.
    pub wnd_room: u64,
    pub cwnd: u64,
    /// The peer's window.
    pub wnd: u64,
    /// The largest window that the peer ever offered; zero when a part of a segment may leave in any case.
    pub max_wnd: u64,
    /// Largest super-segment; the MSS without TSO.
    pub gso: u64,
    /// A segment smaller than the MSS may leave: Nagle, cork and a following FIN have been asked.
    pub partial: bool,
    /// What part of the window is worth sending at once.
    pub divisor: u64,
    /// Waiting for more window is allowed (an ACK is about to come).
    pub may_defer: bool,
    /// What waits is the end of the queue.
    pub last: bool,
    /// Nothing can be appended to it: a FIN follows, or it ends a record.
    pub closed: bool,
}

/// Bytes to send now, or what prevents it.
pub(super) fn decide(ask: &Ask) -> Result<u64, Limited> {
    let Ask { mss, avail, cwnd_room, wnd_room, .. } = *ask;
    if avail == 0 {
        return Err(Limited::App);
    }
    let unit = avail.min(mss);
    if wnd_room < unit {
        // The peer's window holds less than a segment: only when that is half of what it ever offered.
        let worth = wnd_room > 0 && wnd_room >= ask.max_wnd / 2;
        return if !worth {
            Err(Limited::Rwnd)
        } else if cwnd_room < wnd_room {
            Err(Limited::Cwnd)
        } else {
            Ok(wnd_room)
        };
    }
    if cwnd_room < unit {
        return Err(Limited::Cwnd);
    }
    let whole = |n: u64| n - n % mss;
    // At least two super-segments in flight.
    let goal = whole(ask.gso.min((ask.cwnd / 2).max(mss))).max(mss);
    let limit = cwnd_room.min(wnd_room);
    let full = if cwnd_room <= wnd_room { Limited::Cwnd } else { Limited::Rwnd };
    // A third of the window, by default, is worth sending; less may wait for the next ACK.
    let worth = ask.cwnd.min(ask.wnd) / ask.divisor;
    let small = ask.may_defer && limit < worth;
    if avail <= limit.min(goal) {
        if small && ask.last && avail > mss && limit < ask.gso && (limit == avail || !ask.closed) {
            // So may the end of the queue, to which more may be appended.
            return Err(if limit == avail { full } else { Limited::App });
        }
        let n = if ask.partial { avail } else { whole(avail) };
        return if n == 0 { Err(Limited::App) } else { Ok(n) };
    }
    let n = whole(limit.min(goal)).max(unit.min(limit));
    if small && n < goal && limit < avail {
        return Err(full);
    }
    Ok(n)
}
