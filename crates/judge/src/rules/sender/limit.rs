//! What limits a sender, as its controller is told: RFC 7661 section 4.1, Linux `tcp_cwnd_validate` and `tcp_is_cwnd_limited`.

use tcpassay_cc::{Limited, View};

/// Whether the window was used in full in the present window of data.
#[derive(Clone, Copy, Debug)]
struct Window {
    filled: bool,
    /// The most data that were outstanding.
    most: u64,
    /// SND.NXT at that time: the next window of data begins when this is acknowledged.
    end: u64,
}

/// What a sender has used of its window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    window: Option<Window>,
    /// The state after the last transmissions: whether the window was full, SND.UNA and SND.NXT; `None` if it is not known.
    rest: Option<(bool, u64, u64)>,
    /// True after the first state.
    begun: bool,
}

impl Limit {
    /// The sender has sent all that it may: `filled`, if less than a segment is left in its window.
    pub fn rests(&mut self, filled: Option<bool>, una: u64, nxt: u64) {
        self.rest = filled.map(|filled| (filled, una, nxt));
    }

    /// Something new happens: the state before it counts.
    pub fn ends(&mut self) {
        let Some((filled, una, nxt)) = self.rest else {
            self.window = None;
            self.begun = true;
            return;
        };
        let begins = match self.window {
            Some(window) => una >= window.end || filled || !window.filled && nxt - una > window.most,
            None => filled || !self.begun,
        };
        if begins {
            self.window = Some(Window { filled, most: nxt - una, end: nxt });
        }
        self.begun = true;
    }

    /// Whether the window limits the sender; `None` if that is not known.
    pub fn by_window(&self, view: &View) -> Option<bool> {
        let (window, control) = (self.window?, view.control);
        let cwnd = control.cwnd.get();
        Some(window.filled || control.cwnd < control.ssthresh && cwnd < 2 * window.most)
    }
}

/// Whether the controller is told that the window limits the sender.
pub(super) fn told(view: &View) -> bool {
    view.limited == Limited::Cwnd
}
