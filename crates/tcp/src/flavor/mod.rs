//! Differences between stacks that no field of [`Config`](crate::Config) describes.
//!
//! [`StackFlavor`] names a stack. Its [`Rules`] are data: one value for each difference, with the function
//! of the stack that it describes. `rfc`, `linux` and `freebsd` hold the values. The code tests a rule and
//! never the name of a stack.

mod freebsd;
mod linux;
mod linux_7_3;
mod rfc;
mod rules;

pub(crate) use rules::{
    ConnRules, PathLoss, RackWindow, RecvRules, Rules, SendRules, SynData, TimeWaitRules, WindowUpdate,
};

use crate::config::StackFlavor;

impl StackFlavor {
    /// The rules of this stack.
    pub(crate) fn rules(self) -> &'static Rules {
        match self {
            StackFlavor::Rfc => &rfc::RULES,
            StackFlavor::Linux => &linux::RULES,
            StackFlavor::Linux73 => &linux_7_3::RULES,
            StackFlavor::FreeBsd => &freebsd::RULES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Dur;

    #[test]
    fn each_stack_throttles_challenge_acks_by_its_own_rule() {
        // RFC 5961 section 7; `tcp_invalid_ratelimit` of Linux.
        let rule = |flavor: StackFlavor| flavor.rules().conn.challenge_acks;
        assert_eq!(rule(StackFlavor::Rfc), (10, Dur::from_secs(5)));
        assert_eq!(rule(StackFlavor::Linux), (1, Dur::from_millis(500)));
        assert_eq!(rule(StackFlavor::FreeBsd), (10, Dur::from_secs(5)));
    }

    #[test]
    fn only_linux_counts_windows_and_deliveries_in_segments() {
        let rule = |flavor: StackFlavor| {
            let send = &flavor.rules().send;
            (send.windows_in_segments, send.counts_packets, send.emulates_sack)
        };
        assert_eq!(rule(StackFlavor::Rfc), (false, false, false));
        assert_eq!(rule(StackFlavor::Linux), (true, true, true));
        assert_eq!(rule(StackFlavor::FreeBsd), (false, false, false));
    }
}
