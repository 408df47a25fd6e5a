//! Decision whether a segment smaller than the MSS may be sent: Nagle's algorithm in three variants, and
//! cork.
//!
//! Sources: RFC 896, RFC 1122 section 4.2.3.4; draft-minshall-nagle and Linux `tcp_minshall_check`; BSD `tcp_output`
//! (`TF_MORETOCOME` and `idle`).

use crate::config;

/// State of the algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::send) struct Nagle {
    /// Position after the last segment smaller than the MSS.
    small_end: u64,
    /// The present burst began with nothing outstanding.
    idle_burst: bool,
}

/// The inputs of the decision.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct NagleInput {
    pub rule: config::Nagle,
    pub nodelay: bool,
    /// The socket is corked, or the application said that more follows.
    pub corked: bool,
    /// A FIN follows, the cork timer fired, or the data are urgent.
    pub exempt: bool,
    pub una: u64,
    pub outstanding: u64,
    pub avail: u64,
    pub mss: u64,
}

impl Nagle {
    /// Position after the last segment smaller than the MSS.
    #[inline]
    pub fn small_end(&self) -> u64 {
        self.small_end
    }

    /// A segment smaller than the MSS was sent, up to `end`.
    pub fn on_small_segment(&mut self, end: u64) {
        self.small_end = end;
    }

    /// A burst begins with nothing outstanding.
    pub fn begin_idle_burst(&mut self) {
        self.idle_burst = true;
    }

    /// The sender has sent everything that it may send.
    #[inline]
    pub fn end_burst(&mut self) {
        self.idle_burst = false;
    }

    /// Whether a segment smaller than the MSS may leave.
    pub fn allows_partial(&self, input: &NagleInput) -> bool {
        if input.exempt {
            return true;
        }
        if input.corked {
            return false;
        }
        input.nodelay
            || match input.rule {
                config::Nagle::All => input.outstanding == 0 && input.avail < input.mss,
                config::Nagle::Idle => input.outstanding == 0 || self.idle_burst,
                config::Nagle::Small => self.small_end <= input.una,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: NagleInput = NagleInput {
        rule: config::Nagle::All,
        nodelay: false,
        corked: false,
        exempt: false,
        una: 1,
        outstanding: 1000,
        avail: 300,
        mss: 1000,
    };

    #[test]
    fn rfc_896_waits_while_anything_is_unacknowledged() {
        let nagle = Nagle::default();
        assert!(!nagle.allows_partial(&INPUT));
        assert!(nagle.allows_partial(&NagleInput { outstanding: 0, ..INPUT }));
        assert!(!nagle.allows_partial(&NagleInput { outstanding: 0, avail: 1300, ..INPUT }));
        assert!(nagle.allows_partial(&NagleInput { nodelay: true, ..INPUT }));
    }

    #[test]
    fn minshalls_form_waits_for_the_last_small_segment_only() {
        let mut nagle = Nagle::default();
        let small = NagleInput { rule: config::Nagle::Small, ..INPUT };
        assert!(nagle.allows_partial(&small));
        nagle.on_small_segment(301);
        assert!(!nagle.allows_partial(&small));
        assert!(nagle.allows_partial(&NagleInput { una: 301, ..small }));
    }

    #[test]
    fn bsds_variant_sends_the_end_of_a_burst_that_began_idle() {
        let mut nagle = Nagle::default();
        let idle = NagleInput { rule: config::Nagle::Idle, ..INPUT };
        assert!(!nagle.allows_partial(&idle));
        nagle.begin_idle_burst();
        assert!(nagle.allows_partial(&idle));
        nagle.end_burst();
        assert!(!nagle.allows_partial(&idle));
    }

    #[test]
    fn cork_also_applies_with_nodelay_and_a_fin_overrides_it() {
        let nagle = Nagle::default();
        let corked = NagleInput { corked: true, nodelay: true, outstanding: 0, ..INPUT };
        assert!(!nagle.allows_partial(&corked));
        assert!(nagle.allows_partial(&NagleInput { exempt: true, ..corked }));
    }
}
