//! What a connection has in the queues of its own kernel at one instant, which the log does not tell.
//!
//! A packet that leaves counts as memory of its socket until the softirq processes it at the other end of the virtual interface. Linux holds
//! back further packets while there is too much of it (`tcp_small_queue_check`), until a tasklet sends them (`tcp_tasklet_func`). If an arrival
//! has woken the application, the kernel does not begin another round of softirqs, but wakes `ksoftirqd` for it (`__do_softirq`), which runs
//! after the application: until then what the application sends is not processed either.

use tcpassay_tcp::{Connection, Outgoing};
use tcpassay_units::{Bytes, Time};

/// When packets stop to count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Softirq {
    /// At once: nothing is ever held back.
    #[default]
    AtOnce,
    /// Those that an arrival has released, as soon as it is processed; if some were held back, those that the application sends at the
    /// end of the instant.
    AfterArrival,
    /// At the end of the instant.
    AfterApplication,
}

/// The queues of the own kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct OwnQueue {
    softirq: Softirq,
    /// Memory of the packets in it.
    memory: u64,
    /// Payload of the last packet.
    last: u64,
    /// Something waits until packets have left it.
    waits: bool,
}

impl OwnQueue {
    /// A hypothesis about the present instant. The connection has to send again what the one before held back.
    pub fn assume(&mut self, softirq: Softirq, conn: &mut Connection) {
        self.release(conn);
        self.softirq = softirq;
    }

    /// Whether some hypothesis other than the usual one is in force.
    pub fn is_assumed(&self) -> bool {
        self.softirq != Softirq::AtOnce
    }

    /// The next segment of the connection that this queue admits.
    pub fn next(&mut self, conn: &mut Connection, now: Time, sent: bool, overhead: u64) -> Option<Outgoing> {
        if self.memory == 0 || !conn.may_be_held(now) {
            return conn.poll_transmit(now);
        }
        let again = conn.owes_retransmission();
        let Some(len) = (if again { Some(self.last) } else { conn.next_new(now) }) else {
            return conn.poll_transmit(now);
        };
        let limit = conn.small_queue_limit(self.last, len + overhead);
        if self.memory < if again { limit.saturating_mul(2) } else { limit } {
            return conn.poll_transmit(now);
        }
        self.waits = true;
        conn.hold(now, sent);
        conn.rest_while_held();
        conn.poll_control(now)
    }

    /// Packets with a payload of `len` bytes in all have left the connection.
    pub fn add(&mut self, len: u64, packets: u64, overhead: u64) {
        if self.softirq != Softirq::AtOnce {
            self.memory += len + packets * overhead;
            self.last = len;
        }
    }

    /// An arrival is processed, and what it has released was sent.
    pub fn after_arrival(&mut self) {
        if self.softirq == Softirq::AfterArrival {
            self.memory = 0;
            if !self.waits {
                self.softirq = Softirq::AtOnce;
            }
        }
    }

    /// Before a step of a write.
    pub fn before_write(&self, conn: &mut Connection) {
        conn.note_host_queue(Bytes::new(self.memory));
    }

    /// After a step of a write.
    pub fn after_write(&mut self, conn: &mut Connection) {
        self.waits |= conn.take_autocorked();
    }

    /// The instant ends. Returns whether the connection may send what was held back.
    pub fn release(&mut self, conn: &mut Connection) -> bool {
        let waits = self.waits;
        if waits {
            conn.packet_left();
        }
        if self.softirq != Softirq::AtOnce {
            conn.note_host_queue(Bytes::ZERO);
        }
        *self = OwnQueue::default();
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tcpassay_tcp::{Config, Profile, Skbs};
    use tcpassay_units::{Dur, SeqNum};
    use tcpassay_wire::{Flags, Options, Segment};

    const OVERHEAD: u64 = 768;

    /// A connection of Linux with a round trip of 100 ms and ten segments of 1460 bytes to send.
    fn written() -> (Connection, Time) {
        let skbs =
            Skbs { overhead: Bytes::new(OVERHEAD), headers: Bytes::new(320), initial: Bytes::new(1 << 20) };
        let config = Config {
            skbs: Some(skbs),
            timestamps: false,
            mss: Bytes::new(1460),
            ..Config::profile(Profile::Linux)
        };
        let cc = tcpassay_cc::build("reno", &tcpassay_cc::Params::default()).expect("a controller");
        let mut conn = Connection::connect(Arc::new(config), cc, SeqNum::new(0), 0, Time::ZERO);
        let _ = conn.poll_transmit(Time::ZERO);
        let now = Time::ZERO + Dur::from_millis(100);
        let options = Options { mss: Some(1460), ..Options::default() };
        let answer = Segment {
            ack: SeqNum::new(1),
            flags: Flags::SYN | Flags::ACK,
            window: 60_000,
            options,
            ..Segment::default()
        };
        conn.on_segment(now, &answer, tcpassay_wire::Ecn::NotEct);
        while conn.may_transmit() && conn.poll_transmit(now).is_some() {}
        let mut left = 14_600;
        while left > 0 {
            left -= conn.write_step(now, Bytes::new(left), left == 14_600, false).get();
        }
        (conn, now)
    }

    /// How many segments of data leave.
    fn leave(queue: &mut OwnQueue, conn: &mut Connection, now: Time) -> usize {
        let mut count = 0;
        while conn.may_transmit() {
            let Some(out) = queue.next(conn, now, count > 0, OVERHEAD) else { break };
            queue.add(u64::from(out.segment.len), 1, OVERHEAD);
            count += 1;
        }
        count
    }

    #[test]
    fn a_slow_connection_has_two_packets_in_its_own_queue_until_the_instant_ends() {
        let (mut conn, now) = written();
        let mut queue = OwnQueue::default();
        queue.assume(Softirq::AfterApplication, &mut conn);
        assert_eq!(leave(&mut queue, &mut conn, now), 2);
        assert!(!conn.may_transmit(), "only the end of the instant makes it send again");
        assert!(queue.release(&mut conn));
        assert_eq!(leave(&mut queue, &mut conn, now), 8);
    }

    #[test]
    fn if_softirqs_run_at_once_everything_leaves() {
        let (mut conn, now) = written();
        let mut queue = OwnQueue::default();
        assert_eq!(leave(&mut queue, &mut conn, now), 10);
        assert!(!queue.release(&mut conn), "nothing waits");
    }

    #[test]
    fn an_arrival_that_released_little_leaves_no_softirq_to_the_application() {
        let (mut conn, now) = written();
        let mut queue = OwnQueue::default();
        queue.assume(Softirq::AfterArrival, &mut conn);
        queue.after_arrival();
        assert!(!queue.is_assumed());
        queue.assume(Softirq::AfterArrival, &mut conn);
        assert_eq!(leave(&mut queue, &mut conn, now), 2);
        queue.after_arrival();
        assert!(queue.is_assumed(), "a tasklet is to send the rest");
    }
}
