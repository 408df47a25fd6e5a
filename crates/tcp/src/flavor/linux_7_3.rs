//! Linux 7.3, where it differs from 6.1 and no field of [`Config`](crate::Config) describes it.

use super::linux;
use super::rules::{ConnRules, RecvRules, Rules, SendRules};
use tcpassay_units::Dur;

/// Fields that are not listed have the values of 6.1.
pub(super) const RULES: Rules = Rules {
    send: SendRules {
        // tcp_cwnd_test, since 6.10
        fin_ignores_cwnd: false,
        // tcp_grow_skb, since 6.10
        fills_front_buffer: true,
        ..linux::RULES.send
    },
    recv: RecvRules {
        // tcp_select_initial_window, since 6.10
        first_window_below_64k: false,
        // TCP_DELACK_MAX
        longest_ato: Dur::from_millis(200),
        // tcp_rcv_rtt_update, since 6.16
        longer_round_needs_empty_queue: true,
        ..linux::RULES.recv
    },
    conn: ConnRules {
        // TCP_PAWS_WRAP, since 6.7: the time in which a clock of microseconds passes half of its range.
        stamp_life: Dur::from_secs(2147),
        // tcp_disordered_ack_check, since 6.14
        ignores_late_acks: true,
        // tcp_check_req, since 6.15
        checks_echo_of_third_segment: true,
        // tcp_rcv_rtt_measure_ts, since 6.16
        echo_of_this_tick_is_no_sample: true,
        // tcp_compressed_ack_kick refreshes the clock
        caches_clock: false,
        // tcp_rcv_space_adjust does not
        reads_with_cached_clock: true,
        ..linux::RULES.conn
    },
};
