//! The round-trip time as the receiver measures it, by timestamps and by windows of data (Linux `tcp_rcv_rtt_measure_ts`,
//! `tcp_rcv_rtt_measure`; Fisk and Feng 2001).

use super::stamps::Stamp;
use tcpassay_tcp::{Config, RecvBuffer, RecvTuning, StackFlavor};
use tcpassay_units::{Dur, Time};

/// The measurement of one receiver.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    /// The receiver measures.
    on: bool,
    /// A shorter round-trip time counts at once.
    shortens: bool,
    linux: bool,
    /// Zero before the first sample; `None` if not known.
    value: Option<Dur>,
    /// The echo that was seen last.
    echo: u32,
    /// The position that ends the present round, and when the round began.
    round: (u64, Time),
}

impl Rtt {
    pub fn new(stack: &Config) -> Rtt {
        let grows = matches!(stack.recv_buffer, RecvBuffer::Auto { initial, max } if initial < max);
        let linux = stack.recv_tuning == RecvTuning::Linux;
        Rtt {
            on: grows || linux,
            shortens: linux,
            linux: stack.flavor == StackFlavor::Linux,
            value: Some(Dur::ZERO),
            echo: 0,
            round: (0, Time::ZERO),
        }
    }

    pub fn value(&self) -> Option<Dur> {
        self.value
    }

    /// A segment without data arrived.
    pub fn bare(&mut self, stamp: Stamp) {
        match stamp {
            Stamp::Known { echo, .. } if self.linux => self.echo = echo,
            Stamp::Unknown if self.linux && self.on => self.value = None,
            _ => {}
        }
    }

    /// A segment with data arrived; `full`: it is a whole one. Returns its sample, zero if it gives none.
    pub fn sample(&mut self, stamp: Stamp, full: bool) -> Dur {
        match stamp {
            Stamp::Absent => Dur::ZERO,
            _ if !self.on => Dur::ZERO,
            Stamp::Unknown => {
                self.value = None;
                Dur::ZERO
            }
            Stamp::Known { echo, age } => {
                let known = self.linux && std::mem::replace(&mut self.echo, echo) == echo;
                let counts = !known && (full || !self.linux) && echo != 0 && age < 1 << 20;
                // The clock of the option ticks in milliseconds.
                if counts { Dur::from_millis(u64::from(age).max(1)) } else { Dur::ZERO }
            }
        }
    }

    /// Takes a sample.
    pub fn take(&mut self, sample: Dur) {
        if sample.is_zero() {
            return;
        }
        self.value = self.value.map(|before| {
            let at_once = before.is_zero() || self.shortens && sample < before;
            if at_once { sample } else { (before * 7 + sample) / 8 }
        });
    }

    /// Data in order arrived up to `nxt`; `edge`: the position whose arrival takes a round trip from now on.
    pub fn in_order(&mut self, at: Time, nxt: u64, edge: u64) {
        if !self.on || nxt < self.round.0 {
            return;
        }
        if self.round.0 > 0 {
            let took = at.since(self.round.1);
            self.value = self.value.map(|before| if before.is_zero() { took } else { before.min(took) });
        }
        self.round = (edge.max(nxt + 1), at);
    }
}
