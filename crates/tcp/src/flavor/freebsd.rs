//! FreeBSD 14: the base stack, and the RACK stack where RACK detects losses.

use super::rfc;
use super::rules::{
    ConnRules, PathLoss, RackWindow, RecvRules, Rules, SendRules, TimeWaitRules, WindowUpdate,
};

/// Fields that are not listed have the values of the RFCs.
pub(super) const RULES: Rules = Rules {
    send: SendRules {
        path_loss: PathLoss::All,
        rack_window: RackWindow::LastRtt,
        times_one_segment: true,
        samples_in_order_only: true,
        grows_when_unused: true,
        ..rfc::RULES.send
    },
    recv: RecvRules { acks_overlap_at_once: true, ..rfc::RULES.recv },
    conn: ConnRules {
        listen_ignores_syn_ack: true,
        keeps_data_of_crossing_syn: true,
        reserved_ace_is_no_ecn: true,
        takes_fin_of_syn: true,
        counts_ce_of_syn: true,
        no_ace_in_time_wait: true,
        reads_ce_of_pure_acks: true,
        reads_cwr_of_pure_acks: true,
        trusts_ace: true,
        time_wait: TimeWaitRules::FreeBsd,
        reuse_by_sequence_only: true,
        reset_before_other_checks: true,
        window_update: WindowUpdate::NewerOrLarger,
        any_syn_is_retransmission: true,
        syn_returns_to_listen: false,
        resets_count_from_last_ack: true,
        reset_while_closing_is_error: true,
        ..rfc::RULES.conn
    },
};
