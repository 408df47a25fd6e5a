//! What the kernel's trace events say of connections: states of congestion control (`tcp:tcp_cong_state_set`, from Linux 5.19 on).
//!
//! Entering `Loss` is a retransmission timeout, also again and again in the same episode; entering `Recovery` is a fast recovery.
//! A kernel without the event says nothing of either.

use crate::account::Account;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use tcpassay_measure::pcapng::host_of;
use tcpassay_measure::{Collector, Event, EventKind};
use tcpassay_units::Time;

const HERE: &str = "/sys/kernel/tracing";
/// `enum tcp_ca_state` (include/uapi/linux/tcp.h).
const STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];
const RECOVERY: usize = 3;
const LOSS: usize = 4;

/// The trace, being read.
pub struct Trace {
    pipe: Option<fs::File>,
    text: Vec<u8>,
    states: BTreeMap<u32, usize>,
}

impl Trace {
    /// Nothing is traced: the events of a machine's kernel are not ours to switch on.
    pub fn none() -> Trace {
        Trace { pipe: None, text: Vec::new(), states: BTreeMap::new() }
    }

    /// Whether anything is.
    pub fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Switches the events on.
    pub fn open() -> io::Result<Trace> {
        let event = format!("{HERE}/events/tcp/tcp_cong_state_set/enable");
        if !fs::exists(&event)? {
            return Ok(Trace::none());
        }
        fs::write(format!("{HERE}/trace_clock"), "mono")?;
        fs::write(&event, "1")?;
        let pipe = fs::File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("{HERE}/trace_pipe"))?;
        Ok(Trace { pipe: Some(pipe), text: Vec::new(), states: BTreeMap::new() })
    }

    /// Reads what has happened since the last time.
    pub fn drain(&mut self, start: u64, account: &Account, collector: &mut Collector) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut buffer = [0; 16_384];
        while let Ok(n @ 1..) = pipe.read(&mut buffer) {
            self.text.extend(&buffer[..n]);
        }
        let text = std::mem::take(&mut self.text);
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        for line in String::from_utf8_lossy(&text[..whole]).lines() {
            self.line(line, start, account, collector);
        }
        self.text = text[whole..].to_vec();
    }

    fn line(&mut self, line: &str, start: u64, account: &Account, collector: &mut Collector) {
        let Some(seen) = parse(line) else { return };
        let Some(host) = host_of(seen.from.0.into()) else { return };
        let Some(peer) = host_of(seen.to.0.into()) else { return };
        let Some(flow) = account.flow((host, seen.from.1), (peer, seen.to.1)) else { return };
        let before = self.states.insert(flow.0, seen.state).unwrap_or(0);
        let tcp = &mut collector.flow_mut(flow).tcp;
        *tcp.timeouts.get_or_insert(0) += u64::from(seen.state == LOSS);
        let entered = seen.state == RECOVERY && before != RECOVERY;
        *tcp.recoveries.get_or_insert(0) += u64::from(entered);
        if collector.wants_events() {
            // The trace's clock is the monotonic one, which began with the machine.
            let at = (crate::guest::BOOT + seen.at).saturating_sub(start);
            let at = Time::from_nanos(at);
            let word = |n: usize| STATES.get(n).copied().unwrap_or("?");
            if seen.state == LOSS {
                collector.event(Event {
                    why: "Rto".into(),
                    ..Event::new(at, host, Some(flow.0), EventKind::TimerFire)
                });
            }
            collector.event(Event {
                why: format!("{}->{}: kernel", word(before), word(seen.state)).into(),
                ..Event::new(at, host, Some(flow.0), EventKind::Congestion)
            });
        }
    }

    /// Reads the rest, and says 0 of the flows to which nothing happened.
    pub fn close(&mut self, start: u64, account: &Account, collector: &mut Collector) {
        self.drain(start, account, collector);
        if self.pipe.is_some() {
            for flow in account.flows() {
                let tcp = &mut collector.flow_mut(flow).tcp;
                tcp.timeouts.get_or_insert(0);
                tcp.recoveries.get_or_insert(0);
            }
        }
    }
}

/// A line of the trace.
#[derive(PartialEq, Debug)]
struct Seen {
    at: u64,
    from: (std::net::Ipv4Addr, u16),
    to: (std::net::Ipv4Addr, u16),
    state: usize,
}

/// `<idle>-0  [000] ..s.  1.234567: tcp_cong_state_set: family=AF_INET sport=.. dport=.. saddr=.. daddr=.. ... cong_state=4`.
fn parse(line: &str) -> Option<Seen> {
    let (head, tail) = line.split_once(": tcp_cong_state_set: ")?;
    let field =
        |name: &str| tail.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let (seconds, micros) = head.split_whitespace().last()?.split_once('.')?;
    Some(Seen {
        at: seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000,
        from: (field("saddr")?.parse().ok()?, field("sport")?.parse().ok()?),
        to: (field("daddr")?.parse().ok()?, field("dport")?.parse().ok()?),
        state: field("cong_state")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_trace_tells_who_entered_which_state_when() {
        let line = "          <idle>-0       [000] ..s..   100.204001: tcp_cong_state_set: family=AF_INET sport=40000 \
            dport=5001 saddr=10.0.0.1 daddr=10.0.0.2 saddrv6=::ffff:10.0.0.1 daddrv6=::ffff:10.0.0.2 cong_state=4";
        let seen = parse(line).expect("a line of the trace");
        assert_eq!((seen.at, seen.from.1, seen.to.1, seen.state), (100_204_001_000, 40_000, 5001, 4));
    }
}
