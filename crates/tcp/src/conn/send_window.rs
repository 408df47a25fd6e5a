//! The peer's window as announced in headers, and which segment may change it (SND.WND, SND.WL1, SND.WL2).
//!
//! Sources: RFC 9293 section 3.10.7.4; `tcp_may_update_window` of Linux; `tcp_do_segment` of FreeBSD.

use crate::flavor::WindowUpdate;

/// The window, and the segment that announced it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendWindow {
    /// The peer's window scale.
    shift: u8,
    /// The window field of the header (`pred_flags` of Linux); then the window in bytes.
    field: u16,
    size: u64,
    largest: u64,
    /// SND.WL1 and SND.WL2.
    wl1: u64,
    wl2: u64,
}

/// The fields of an acceptable segment that may change the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowField {
    pub field: u16,
    pub seq: u64,
    pub ack: u64,
    /// First position not acknowledged before the segment.
    pub una: u64,
}

/// The rule by which a segment may change the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpdateRule {
    pub rule: WindowUpdate,
    /// An ACK that acknowledges nothing new may close the window (Linux since 6.6).
    pub shut_by_duplicate: bool,
}

impl SendWindow {
    /// The window of the peer's SYN, which is not scaled.
    pub fn start(&mut self, shift: u8, field: u16) {
        self.shift = shift;
        self.field = field;
        self.size = u64::from(field);
        self.largest = self.size;
    }

    /// The first window is that of a segment after the SYN, which is scaled.
    pub fn start_again(&mut self, field: u16) {
        self.largest = 0;
        self.set(field);
    }

    pub fn shift(&self) -> u8 {
        self.shift
    }

    /// The window in force, in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The largest window so far.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Whether a header announces another window than the one before.
    #[inline]
    pub fn differs(&self, field: u16) -> bool {
        field != self.field
    }

    #[inline]
    fn set(&mut self, field: u16) {
        self.size = u64::from(field) << self.shift;
        self.largest = self.largest.max(self.size);
        self.field = field;
    }

    /// Processes a segment in order at `seq` that acknowledges `ack`; `news`: it acknowledges new data.
    /// Returns `None` if the window that it announces differs and must not be used; otherwise whether the
    /// segment is newer than that of the last update.
    #[expect(clippy::inline_always, reason = "once for each packet, from one place")]
    #[inline(always)]
    pub fn predict(&mut self, field: u16, seq: u64, ack: u64, news: bool) -> Option<bool> {
        if self.differs(field) {
            if !news || self.wl1 > seq {
                return None;
            }
            self.set(field);
        }
        let newer = self.wl1 < seq;
        self.wl1 = seq;
        self.wl2 = ack;
        Some(newer)
    }

    /// Applies the window of an acceptable segment if the rule permits it. Returns whether it was applied.
    pub fn update(&mut self, segment: &WindowField, rule: UpdateRule) -> bool {
        let WindowField { field, seq, ack, una } = *segment;
        let window = u64::from(field) << self.shift;
        let larger = window > self.size;
        let same = match rule.rule {
            WindowUpdate::NotOlder => self.wl2 <= ack,
            WindowUpdate::NewOrLarger => larger || window == 0 && rule.shut_by_duplicate,
            WindowUpdate::NewerOrLarger => self.wl2 < ack || self.wl2 == ack && larger,
        };
        // In Linux an ACK of new data is enough, whatever its sequence number is.
        let news = rule.rule == WindowUpdate::NewOrLarger && ack > una;
        let updates = ack >= una && (news || self.wl1 < seq || self.wl1 == seq && same);
        if updates {
            self.set(field);
            self.wl1 = seq;
            self.wl2 = ack;
        }
        updates
    }

    /// Whether an ACK at `seq` without news could update the window (`tcp_may_update_window`).
    pub fn may_update(&self, field: u16, seq: u64, shut_by_duplicate: bool) -> bool {
        let window = u64::from(field) << self.shift;
        self.wl1 < seq || self.wl1 == seq && (window > self.size || window == 0 && shut_by_duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> SendWindow {
        let mut window = SendWindow::default();
        window.start(2, 1000);
        window
    }

    fn rule(rule: WindowUpdate) -> UpdateRule {
        UpdateRule { rule, shut_by_duplicate: false }
    }

    #[test]
    fn the_window_of_the_syn_is_not_scaled_and_later_ones_are() {
        let mut window = window();
        assert_eq!(window.size(), 1000);
        let segment = WindowField { field: 1000, seq: 1, ack: 1, una: 1 };
        assert!(window.update(&segment, rule(WindowUpdate::NotOlder)));
        assert_eq!((window.size(), window.largest()), (4000, 4000));
    }

    #[test]
    fn the_window_of_an_older_segment_is_not_used() {
        let mut window = window();
        let segment = WindowField { field: 500, seq: 5001, ack: 1, una: 1 };
        assert!(window.update(&segment, rule(WindowUpdate::NotOlder)));
        for (seq, ack) in [(4001, 9), (5001, 0)] {
            let older = WindowField { field: 900, seq, ack, una: 0 };
            assert!(!window.update(&older, rule(WindowUpdate::NotOlder)), "{seq} {ack}");
        }
        assert_eq!(window.size(), 2000);
    }

    #[test]
    fn in_linux_an_ack_of_new_data_brings_its_window_also_with_an_older_sequence_number() {
        // `tcp_may_update_window`: after(ack, snd_una).
        for (update, used) in [(WindowUpdate::NotOlder, false), (WindowUpdate::NewOrLarger, true)] {
            let mut window = window();
            let newer = WindowField { field: 500, seq: 5001, ack: 1, una: 1 };
            assert!(window.update(&newer, rule(update)));
            let older = WindowField { field: 0, seq: 4001, ack: 1001, una: 1 };
            assert_eq!(window.update(&older, rule(update)), used, "{update:?}");
            assert_eq!(window.size() == 0, used, "{update:?}");
        }
    }

    #[test]
    fn an_ack_of_nothing_new_may_open_the_window_in_every_stack_and_shrink_it_only_by_the_rfc() {
        for (update, shrinks) in [
            (WindowUpdate::NotOlder, true),
            (WindowUpdate::NewOrLarger, false),
            (WindowUpdate::NewerOrLarger, false),
        ] {
            let mut window = window();
            let at = |field| WindowField { field, seq: 1, ack: 1, una: 1 };
            assert!(window.update(&at(500), rule(WindowUpdate::NotOlder)));
            assert_eq!(window.update(&at(400), rule(update)), shrinks, "{update:?}");
            assert!(window.update(&at(900), rule(update)), "{update:?}");
        }
    }

    #[test]
    fn linux_since_6_6_lets_an_ack_of_nothing_new_close_the_window() {
        let mut window = window();
        let shut = WindowField { field: 0, seq: 1, ack: 1, una: 1 };
        assert!(window.update(&WindowField { field: 10, ..shut }, rule(WindowUpdate::NotOlder)));
        assert!(!window.update(&shut, rule(WindowUpdate::NewOrLarger)));
        assert!(
            window.update(&shut, UpdateRule { shut_by_duplicate: true, ..rule(WindowUpdate::NewOrLarger) })
        );
        assert_eq!(window.size(), 0);
    }

    #[test]
    fn header_prediction_accepts_a_changed_window_only_with_new_data_acknowledged() {
        let mut window = window();
        assert_eq!(window.predict(1000, 5001, 1, false), Some(true));
        assert_eq!(window.predict(1000, 5001, 1, false), Some(false));
        assert_eq!(window.predict(900, 5001, 1, false), None);
        assert_eq!(window.predict(900, 5001, 2001, true), Some(false));
        assert_eq!(window.size(), 3600);
        assert_eq!(window.predict(800, 4001, 3001, true), None, "an older segment");
    }
}
