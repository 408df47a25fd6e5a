//! The counters of the receiver.

use super::Receiver;
use crate::Info;
use tcpassay_units::Bytes;

impl Receiver {
    /// See [`Connection::tuned`](crate::Connection::tuned).
    pub(crate) fn tuned(&self) -> [u64; 6] {
        let rtt = self.window.rtt().as_nanos();
        match self.memory.as_deref() {
            Some(memory) => memory.tuned(rtt),
            None => self.window.tuned(),
        }
    }

    /// Fills in the receiver's part.
    pub(crate) fn fill_info(&self, info: &mut Info) {
        let s = &self.stats;
        info.ce_segments_in = s.ce_segments;
        info.ce_bytes_in = Bytes::new(s.ce_bytes);
        info.data_segments_in = s.data_segments;
        info.bytes_received = Bytes::new(self.stream_end() - 1);
        info.bytes_duplicate = Bytes::new(s.duplicate_bytes);
        info.out_of_order_in = s.out_of_order;
        info.delayed_acks = s.delayed;
        info.delayed_ack_timeouts = s.delay_timeouts;
        info.forgotten_acks = s.forgotten;
        info.rcv_wnd = Bytes::new(self.edge.saturating_sub(self.nxt));
        info.rcv_mss = Bytes::new(self.acks.rcv_mss());
        info.rcv_buf = Bytes::new(self.window.size());
        info.rcv_memory = self.memory.as_deref().map(|memory| {
            let (used, size) = memory.account();
            (Bytes::new(used), Bytes::new(size))
        });
    }
}
