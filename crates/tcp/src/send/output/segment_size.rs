//! Decision how much to send at once: segments, super-segments, deferral.
//!
//! Pure arithmetic. Sources: RFC 9293 section 3.8.6.2.1 (silly window avoidance); RFC 896 and RFC 1122 section 4.2.3.4
//! (Nagle); Linux `tcp_cwnd_test` (a super-segment holds at most half the window), `tcp_tso_should_defer`.

use tcpassay_cc::Limited;

/// The inputs of the decision, in bytes.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct SizeInput {
    pub mss: u64,
    /// Bytes that were never sent.
    pub avail: u64,
    /// Free in the congestion window.
    pub cwnd_room: u64,
    /// Free in the peer's window.
    pub wnd_room: u64,
    pub cwnd: u64,
    /// The peer's window.
    pub wnd: u64,
    /// The largest window that the peer ever offered; zero if a part of a segment may leave in any case.
    pub max_wnd: u64,
    /// Largest super-segment; the MSS without TSO.
    pub gso: u64,
    /// Nagle's algorithm, cork and a following FIN permit a segment smaller than the MSS.
    pub partial: bool,
    /// Divisor: a super-segment of window / `divisor` is long enough to be sent at once.
    pub divisor: u64,
    /// Waiting for more window is allowed, because an ACK is about to arrive.
    pub may_defer: bool,
    /// A super-segment may end with a part of a segment at the edge of the peer's window.
    pub cut_by_window: bool,
    /// The available bytes are the end of the queue.
    pub last: bool,
    /// Nothing can be appended to the queue: a FIN follows, or it ends a record.
    pub closed: bool,
}

/// Returns the bytes to send now, or the limit that prevents it.
pub(in crate::send) fn decide(input: &SizeInput) -> Result<u64, Limited> {
    let SizeInput { mss, avail, cwnd_room, wnd_room, .. } = *input;
    if avail == 0 {
        return Err(Limited::App);
    }
    let unit = avail.min(mss);
    if wnd_room < unit {
        // The peer's window holds less than a segment: allowed only if this is half of the largest window that it has offered.
        let worth = wnd_room > 0 && wnd_room >= input.max_wnd / 2;
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
    let goal = whole(input.gso.min((input.cwnd / 2).max(mss))).max(mss);
    let most = goal.min(whole(cwnd_room));
    // What is not the end of the queue leaves whole. In Linux a super-segment that the peer's window may cut is subject to Nagle's algorithm
    // all the same (`tcp_mss_split_point`).
    let middle = !input.last && (!input.cut_by_window || avail <= mss || most <= wnd_room);
    let partial = input.partial || middle;
    let limit = cwnd_room.min(wnd_room);
    let full = if cwnd_room <= wnd_room { Limited::Cwnd } else { Limited::Rwnd };
    // A third of the window, by default, is worth sending; less may wait for the next ACK.
    let worth = input.cwnd.min(input.wnd) / input.divisor;
    let small = input.may_defer && limit < worth;
    if avail <= limit.min(goal) {
        if small && input.last && avail > mss && limit < input.gso && (limit == avail || !input.closed) {
            // The end of the queue may wait, too, because more may be appended to it.
            return Err(if limit == avail { full } else { Limited::App });
        }
        let n = if partial { avail } else { whole(avail) };
        return if n == 0 { Err(Limited::App) } else { Ok(n) };
    }
    let n = whole(limit.min(goal)).max(unit.min(limit));
    if small && n < goal && limit < avail {
        return Err(full);
    }
    if input.cut_by_window && partial && wnd_room < most {
        return Ok(wnd_room);
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: SizeInput = SizeInput {
        mss: 1000,
        avail: 20_000,
        cwnd_room: 5000,
        wnd_room: 50_000,
        cwnd: 10_000,
        wnd: 50_000,
        max_wnd: 50_000,
        gso: 1000,
        partial: false,
        divisor: 3,
        may_defer: false,
        cut_by_window: false,
        last: true,
        closed: false,
    };

    #[test]
    fn without_tso_one_segment_leaves_at_a_time() {
        assert_eq!(decide(&FULL), Ok(1000));
        assert_eq!(decide(&SizeInput { cwnd_room: 999, ..FULL }), Err(Limited::Cwnd));
        assert_eq!(decide(&SizeInput { avail: 0, ..FULL }), Err(Limited::App));
    }

    #[test]
    fn nagle_decides_about_the_end_of_a_super_segment_that_the_peers_window_may_cut() {
        let tso =
            SizeInput { gso: 64_000, cwnd: 40_000, cwnd_room: 40_000, avail: 4300, last: false, ..FULL };
        assert_eq!(decide(&tso), Ok(4300), "a buffer in the middle of the queue leaves whole");
        let near = SizeInput { wnd_room: 15_000, cut_by_window: true, ..tso };
        assert_eq!(decide(&near), Ok(4000), "the window has less than half of cwnd");
        assert_eq!(decide(&SizeInput { partial: true, ..near }), Ok(4300));
        assert_eq!(decide(&SizeInput { avail: 900, ..near }), Ok(900), "a single segment in the middle");
        assert_eq!(decide(&SizeInput { wnd_room: 2500, avail: 9000, ..near }), Ok(2000));
    }

    #[test]
    fn a_super_segment_holds_at_most_half_the_window_in_whole_segments() {
        let tso = SizeInput { gso: 64_000, cwnd: 9000, ..FULL };
        assert_eq!(decide(&SizeInput { cwnd_room: 9000, ..tso }), Ok(4000));
        assert_eq!(decide(&SizeInput { cwnd_room: 3500, ..tso }), Ok(3000));
    }

    #[test]
    fn less_than_a_segment_of_window_is_used_if_it_is_half_of_the_largest() {
        let small = SizeInput { wnd_room: 500, wnd: 500, ..FULL };
        assert_eq!(decide(&small), Err(Limited::Rwnd));
        assert_eq!(decide(&SizeInput { max_wnd: 1000, ..small }), Ok(500));
        assert_eq!(decide(&SizeInput { max_wnd: 1000, cwnd_room: 400, ..small }), Err(Limited::Cwnd));
        assert_eq!(decide(&SizeInput { max_wnd: 0, ..small }), Ok(500), "the persist timer fired");
    }

    #[test]
    fn a_partial_segment_leaves_only_if_it_may() {
        let end = SizeInput { avail: 300, ..FULL };
        assert_eq!(decide(&end), Err(Limited::App));
        assert_eq!(decide(&SizeInput { partial: true, ..end }), Ok(300));
        let longer = SizeInput { avail: 2300, gso: 64_000, ..FULL };
        assert_eq!(decide(&longer), Ok(2000));
        assert_eq!(decide(&SizeInput { partial: true, ..longer }), Ok(2300));
    }

    #[test]
    fn linux_cuts_a_super_segment_at_the_edge_of_the_peers_window() {
        // tcp_mss_split_point. Linux 6.1 sends 528 bytes behind whole segments of 1000 into a window of 6528.
        let cut = SizeInput {
            gso: 64_000,
            cwnd: 60_000,
            cwnd_room: 30_000,
            wnd_room: 6528,
            partial: true,
            cut_by_window: true,
            ..FULL
        };
        assert_eq!(decide(&cut), Ok(6528));
        assert_eq!(decide(&SizeInput { partial: false, ..cut }), Ok(6000));
        assert_eq!(decide(&SizeInput { cut_by_window: false, ..cut }), Ok(6000));
        assert_eq!(
            decide(&SizeInput { cwnd_room: 6999, ..cut }),
            Ok(6000),
            "the congestion window ends it first"
        );
        assert_eq!(
            decide(&SizeInput { wnd_room: 30_100, cwnd: 40_000, ..cut }),
            Ok(20_000),
            "half the window ends it first"
        );
    }

    #[test]
    fn deferral_waits_for_a_third_of_the_window() {
        let tso = SizeInput { gso: 64_000, cwnd: 30_000, cwnd_room: 9000, may_defer: true, ..FULL };
        assert_eq!(decide(&tso), Err(Limited::Cwnd));
        assert_eq!(decide(&SizeInput { cwnd_room: 10_000, ..tso }), Ok(10_000));
        assert_eq!(decide(&SizeInput { may_defer: false, ..tso }), Ok(9000));
    }
}
