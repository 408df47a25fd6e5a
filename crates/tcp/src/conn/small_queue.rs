//! TCP small queues of Linux: how much a connection may have in the queues of its own host (`tcp_small_queue_check`).

use super::Connection;
use tcpassay_units::Time;

/// `tcp_limit_output_bytes`.
const MOST: u64 = 1 << 20;

impl Connection {
    /// Whether data would be sent that the queue of the own host may hold back.
    pub fn may_be_held(&mut self, now: Time) -> bool {
        self.touched && !self.is_unusual() && self.send.may_be_held(now)
    }

    /// Whether a lost segment is sent next.
    pub fn owes_retransmission(&self) -> bool {
        self.send.owes_retransmission()
    }

    /// The length of the segment of new data that would be sent next; `None` if there is none, or a retransmission would be sent.
    pub fn next_new(&mut self, now: Time) -> Option<u64> {
        self.send.next_new(now)
    }

    /// New data may be sent, but nothing has made the connection look for them.
    pub fn has_sendable(&mut self, now: Time) -> bool {
        !self.touched && !self.is_unusual() && self.send.next_new(now).is_some()
    }

    /// The queue of the own host holds back data; `sent`: others were sent at this time. They wait until
    /// [`packet_left`](Connection::packet_left).
    pub fn hold(&mut self, now: Time, sent: bool) {
        self.send.rest_held(now, sent, &mut self.log);
    }

    /// After [`hold`](Connection::hold): nothing but [`packet_left`](Connection::packet_left), a segment that arrives, a timer, or a write that
    /// pushes makes the connection send again.
    pub fn rest_while_held(&mut self) {
        self.touched = false;
        self.send_timer = self.send.deadline();
    }

    /// What distinguishes the unsent data from those of a connection that has sent the same: the position after them, the one up to which they
    /// are marked for PSH, the number of buffers, and whether the last one is pushed.
    pub fn written(&self) -> (u64, u64, usize, bool) {
        self.send.written()
    }

    /// What distinguishes the receive buffer from that of a connection that has received and read the same: its size, the bound of the window, and
    /// the state of the measurements from which they follow.
    pub fn tuned(&self) -> [u64; 6] {
        self.recv.tuned()
    }

    /// A packet has left the own host: what waited for it may be sent.
    pub fn packet_left(&mut self) {
        self.touched = true;
        self.send.on_packet_left();
    }

    /// The memory of the packets in the queues of the own host from which on the next one is held back, which needs `memory`; the `last` one
    /// had so many bytes of payload: the bytes that the connection's rate sends in 1/1024 s (`sk_pacing_shift` 10), at least two such packets. Without pacing the rate is 120 % of cwnd per srtt, or 200 % far below ssthresh. Nothing is held back while at most one
    /// packet is unacknowledged.
    pub fn small_queue_limit(&self, last: u64, memory: u64) -> u64 {
        let info = self.gauges();
        if info.unacked.get() <= last {
            return u64::MAX;
        }
        if let Some(paced) = info.pacing_rate {
            return (paced.bits_per_sec() / 8 / 1024).max(2 * memory);
        }
        let percent = if info.cwnd < info.ssthresh / 2 { 200 } else { 120 };
        let rate = match info.srtt {
            Some(srtt) if !srtt.is_zero() => {
                info.cwnd.max(info.unacked).get() * percent / 100 * 1_000_000_000 / 1024 / srtt.as_nanos()
            }
            _ => u64::MAX,
        };
        rate.max(2 * memory).min(MOST)
    }
}
