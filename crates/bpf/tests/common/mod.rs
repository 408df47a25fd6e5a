//! A record of the kernel that the tests change where they need to.

use tcpassay_bpf::{INFINITE, Record, RecordKind};
use tcpassay_cc::Limited;
use tcpassay_states::CongestionState;

/// The maximum segment size in bytes.
pub const MSS: u32 = 1000;

/// Record `number`, of a connection with 8 of 10 segments in flight, that acknowledges nothing.
pub fn record(number: u64, kind: RecordKind, state: CongestionState) -> Record {
    Record {
        at: number * 1_000_000,
        number,
        answered: 0,
        sent: 0,
        connection: 0,
        kind,
        state,
        limited: Limited::Cwnd,
        mss: MSS,
        cwnd: 10,
        ssthresh: INFINITE,
        flight: 8,
        srtt: 2000,
        min_rtt: None,
        round: 1,
        acked: 0,
        delivered: 0,
        lost: 0,
        marked: 0,
        rtt: None,
        rate: None,
        idle: 0,
        rto: 0,
        initial: 10,
        ports: (1, 2),
    }
}
