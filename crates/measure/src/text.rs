//! The event log as text: one line per row, similar to FreeBSD's black box log.
//!
//! `<seconds> <host> <flow> <event> <details>`, for example
//!
//! ```text
//! 0.200104000 sender0 flow.0 timer_fire Retransmit rto 200ms
//! 0.200104000 sender0 flow.0 window timeout cwnd 1448 ssthresh 7240 flight 0
//! 0.200104000 sender0 flow.0 retransmit 14481:15929(1448) ack 1 .
//! ```
//!
//! Segments are written as in tcpdump: `first:last(length)`, and flags as letters.

use crate::event::{EventKind, EventRow};
use crate::recording::Recording;
use std::fmt::Write as _;
use std::io::{self, Write};
use tcpassay_units::{Bytes, Dur, Time};

impl Recording {
    /// The line of one row without its line feed. Hosts and flows without a name in the recording are written as
    /// numbers.
    pub fn event_line(&self, event: &EventRow) -> String {
        let host = self.hosts.get(event.host as usize).cloned();
        let host = host.unwrap_or_else(|| format!("host{}", event.host));
        let flow = match event.flow {
            Some(flow) => {
                self.flows.get(flow as usize).map_or_else(|| format!("flow{flow}"), |f| f.name.clone())
            }
            None => "-".to_owned(),
        };
        let mut line = format!("{} {host} {flow} {}", event.at, event.kind.name());
        let mut put = |text: std::fmt::Arguments<'_>| write!(line, " {text}").expect("a string takes all");
        if !event.why.is_empty() {
            put(format_args!("{}", event.why));
        }
        if let Some(seq) = event.seq {
            let len = event.len.unwrap_or(0);
            put(format_args!("{seq}:{}({len})", seq + u64::from(len)));
        }
        if let Some(ack) = event.ack {
            put(format_args!("ack {ack}"));
        }
        if let Some(flags) = event.flags {
            put(format_args!("{flags}"));
        }
        if event.ce {
            put(format_args!("CE"));
        }
        let bytes = [
            ("win", event.window),
            ("cwnd", event.cwnd),
            ("ssthresh", event.ssthresh),
            ("flight", event.flight),
        ];
        for (name, value) in bytes {
            if let Some(value) = value.map(Bytes::get) {
                put(format_args!("{name} {value}"));
            }
        }
        for (name, value) in [("srtt", event.srtt), ("rto", event.rto)] {
            if let Some(value) = value {
                put(format_args!("{name} {value}"));
            }
        }
        if let Some(value) = event.value {
            match event.kind {
                EventKind::TimerSet | EventKind::AckDelay => {
                    put(format_args!("at {}", Time::from_nanos(value)));
                }
                EventKind::Rtt => put(format_args!("sample {}", Dur::from_nanos(value))),
                _ => put(format_args!("value {value}")),
            }
        }
        if let Some(asked) = event.asked {
            put(format_args!("asked {}", asked.get()));
        }
        line
    }

    /// Writes the whole event log as text.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_event_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.events.iter().try_for_each(|event| writeln!(out, "{}", self.event_line(&event)))
    }
}
