//! Rounds as text, in the form of Figure 4 of "Experiences Evaluating DCTCP".

use crate::flow::Round;
use crate::words::{bytes, rate, time_of};
use std::fmt::Write as _;

impl Round {
    /// A line without its line feed: `RTT 2.1  0.020255 (1.3ms)  out: 14.3KB  rate: 85.83 Mbps  10 pkts`, and behind it what happened in the
    /// round: `2 rtx`, `1 late`, `CE 30%`, `ECE 20%`, `rwnd`, `stall`.
    pub fn line(&self) -> String {
        let name = format!("{}.{}", self.flow, self.round);
        let end = format!("{}.{:06}", self.end_ns / 1_000_000_000, self.end_ns / 1_000 % 1_000_000);
        let rate = self.rate_bps().map_or_else(|| "-".to_owned(), rate);
        let mut line = format!(
            "RTT {name:<6} {end} ({})  out: {}  rate: {rate}  {}p",
            time_of(self.duration_ns, self.clock_ns),
            bytes(self.bytes),
            self.packets
        );
        let mut put = |text: std::fmt::Arguments<'_>| write!(line, " {text}").expect("a string takes all");
        if self.retransmissions > 0 {
            put(format_args!("{}rtx", self.retransmissions));
        }
        if self.reordered > 0 {
            put(format_args!("{}late", self.reordered));
        }
        let percent = |part: u64, whole: u64| (100 * part + whole / 2).checked_div(whole).unwrap_or(0);
        if self.ce > 0 {
            put(format_args!("CE{}%", percent(self.ce, self.packets)));
        }
        if self.ece > 0 {
            put(format_args!("ECE{}%", percent(self.ece, self.acks)));
        }
        if self.ce_reported > 0 {
            put(format_args!("{}ACE", self.ce_reported));
        }
        if self.window_limited {
            put(format_args!("rwnd"));
        }
        if self.stalled {
            put(format_args!("stall"));
        }
        line
    }
}
