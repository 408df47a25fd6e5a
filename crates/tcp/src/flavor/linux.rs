//! Linux 6.x, also for the profile `linux-4.6`: differences between releases are fields of
//! [`Config`](crate::Config).

use super::rfc;
use super::rules::{
    ConnRules, PathLoss, RackWindow, RecvRules, Rules, SendRules, SynData, TimeWaitRules, WindowUpdate,
};
use tcpassay_units::Dur;

/// Fields that are not listed have the values of the RFCs.
pub(super) const RULES: Rules = Rules {
    send: SendRules {
        emulates_sack: true,
        holds_recovery_without_sack: true,
        sacks_whole_segments: true,
        collapses_retransmissions: true,
        first_mark_keeps_retransmission: true,
        dsack_is_delivered: true,
        counts_packets: true,
        windows_in_segments: true,
        mss_at_most_half_window: true,
        path_loss: PathLoss::TooLong,
        rack_window: RackWindow::Rfc8985,
        frto_restarts_on_any_timeout: true,
        frto_ignores_early_duplicates: true,
        detects_loss_after_undo: true,
        probe_shares_timer: true,
        probe_without_sample: true,
        probe_sends_buffer: true,
        window_ends_super_segment: true,
        probe_not_in_flight: true,
        probe_beside_sacked: true,
        probe_repair_ends_at_once: true,
        paces_by_flight: true,
        pacing_credit: true,
        fin_ignores_cwnd: true,
        no_idle_restart_at_zero_window: true,
        probe_timer_uncorks: true,
        least_window_probe: Dur::from_millis(200),
        ..rfc::RULES.send
    },
    recv: RecvRules {
        sack_blocks_grow_by_arrivals: true,
        forgets_unreported_duplicate: true,
        takes_whole_segments: true,
        fin_takes_position: true,
        fin_ends_reports: true,
        updates_doubled_window: true,
        round_includes_unacked: true,
        measures_any_segment: true,
        filled_part_is_no_reason: true,
        not_capable_keeps_echo: true,
        ..rfc::RULES.recv
    },
    conn: ConnRules {
        challenge_acks: (1, Dur::from_millis(500)),
        listen_drops_syn_fin: true,
        server_window_without_options: true,
        bad_ack_repeats_syn: true,
        checks_echo_of_syn_ack: true,
        syn_data: SynData::FastOpenOnly,
        client_paces_from_syn_ack: true,
        refused_syn_data_is_lost: true,
        repeats_own_syn_options: true,
        bounds_syn_timeouts_by_time: true,
        clamps_syn_timer: true,
        may_hold_handshake_ack: true,
        acks_stay_in_window: true,
        window_update_is_no_duplicate: true,
        time_wait: TimeWaitRules::Linux,
        drops_segments_without_ack_first: true,
        checks_ack_before_timestamp: true,
        fin_in_dsack: true,
        throttles_answers_without_data: true,
        accepts_disordered_acks: true,
        accepts_from_last_ack: true,
        bounds_old_acks_by_acked: true,
        window_update: WindowUpdate::NewOrLarger,
        rtt_of_first_full_segment: true,
        resets_on_data_after_fin: true,
        reset_has_window_and_sack: true,
        challenges_crossed_syn: true,
        largest_window_of_third_ack: true,
        closes_before_handshake: true,
        syn_returns_to_listen: false,
        reset_in_close_wait_breaks_pipe: true,
        ..rfc::RULES.conn
    },
};
