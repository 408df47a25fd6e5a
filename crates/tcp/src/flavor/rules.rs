//! The differences between stacks, one field for each.

use tcpassay_units::Dur;

/// All differences of one stack.
#[derive(Debug)]
pub(crate) struct Rules {
    pub send: SendRules,
    pub recv: RecvRules,
    pub conn: ConnRules,
}

/// How RACK's reordering window is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RackWindow {
    /// A quarter of the minimum round-trip time, zero while no reordering was seen and a loss is likely (RFC 8985
    /// section 6.2 step 4).
    Rfc8985,
    /// A quarter of the last round-trip time, always (`rack_calc_thresh_rack` in FreeBSD 14's `tcp_stacks/rack.c` with
    /// `dsack_std_based` = 3).
    LastRtt,
}

/// The segments that count as lost when the MTU of the route decreases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathLoss {
    /// Those that are longer than the new segment size (`tcp_simple_retransmit` of Linux).
    TooLong,
    /// All that are outstanding (`tcp_mtudisc` of FreeBSD).
    All,
}

/// Differences of the sender.
#[expect(clippy::struct_excessive_bools, reason = "independent differences")]
#[derive(Debug)]
pub(crate) struct SendRules {
    /// Without SACK each duplicate ACK stands for a SACKed segment: it releases one segment, and no more duplicates
    /// count than segments can have caused (`tcp_add_reno_sack`, `tcp_limit_reno_sacked`).
    pub emulates_sack: bool,
    /// Without SACK recovery and Loss last until something above the recovery point is acknowledged
    /// (`tcp_is_non_sack_preventing_reopen`).
    pub holds_recovery_without_sack: bool,
    /// Only whole segments of a super-segment are marked as SACKed (`tcp_match_skb_to_sack`).
    pub sacks_whole_segments: bool,
    /// A short segment is retransmitted together with the segments that follow it, up to a full segment
    /// (`tcp_retrans_try_collapse`).
    pub collapses_retransmissions: bool,
    /// What is lost and what was retransmitted are counted apart (`lost_out`, `retrans_out`). A segment that was retransmitted without a loss
    /// mark, as after an undo, stays in flight when it is marked (`tcp_mark_skb_lost`): only the timeout sends it again. Such a mark begins
    /// a recovery (`tcp_time_to_recover`), no more is retransmitted than is lost (`tcp_xmit_retransmit_queue`), and RACK judges a segment
    /// once for each transmission (`tcp_rack_detect_loss`).
    pub first_mark_keeps_retransmission: bool,
    /// A duplicate that a DSACK reports counts as delivered, so that PRR sends for it. Duplicates that the network made count, too
    /// (`tcp_dsack_seen`, since 5.10).
    pub dsack_is_delivered: bool,
    /// The congestion window counts packets, however short they are: what is in flight, what was delivered and PRR
    /// (`tcp_packets_in_flight`, `tcp_cong_avoid`, `tcp_cwnd_reduction`).
    pub counts_packets: bool,
    /// Round trips and delivery rates are measured with a clock of whole microseconds (`tcp_mstamp`, `skb_mstamp_ns`), and the round-trip time is
    /// smoothed in integers (`tcp_rtt_estimator`).
    pub clock_in_micros: bool,
    /// cwnd and ssthresh are counted in segments, so that they scale with the segment size.
    pub windows_in_segments: bool,
    /// Whether the window is full is noted only when something was sent or waits for the window (`tcp_write_xmit` calls `tcp_cwnd_validate`);
    /// otherwise also after an ACK after which nothing is to be sent.
    pub validates_when_sending: bool,
    /// No segment is longer than half of the largest window that the peer offered (`tcp_bound_to_half_wnd`).
    pub mss_at_most_half_window: bool,
    /// The segments that are retransmitted when the MTU of the route decreases.
    pub path_loss: PathLoss,
    /// How RACK's reordering window is computed.
    pub rack_window: RackWindow,
    /// A second timeout in a row restarts F-RTO in any state (`tcp_enter_loss`), and any progress continues it (`tcp_process_loss`).
    pub frto_restarts_on_any_timeout: bool,
    /// Without SACK a duplicate ACK does not end F-RTO before the retransmission is acknowledged (`tcp_process_loss`).
    pub frto_ignores_early_duplicates: bool,
    /// While new data that F-RTO has sent decide nothing, an ACK lets lost segments be sent again (`tcp_process_loss` ends with `REXMIT_LOST`).
    pub frto_repairs_undecided: bool,
    /// After a timeout a retransmission that RACK finds lost begins a fast recovery, which reduces the window again
    /// (`tcp_fastretrans_alert`, `tcp_rack_reo_timeout`).
    pub lost_retransmission_begins_recovery: bool,
    /// `Config::retries` stands for the time that this number of retransmissions takes with a timeout of 200 ms, up to 120 s each, counted from the
    /// first retransmission on (`retransmits_timed_out`, `tcp_model_timeout`); otherwise it is their number.
    pub retries_are_a_time: bool,
    /// An undo of a timeout ends the series of timeouts; otherwise only progress does (`tcp_try_undo_loss`).
    pub undo_forgets_timeouts: bool,
    /// A SACK of data that were sent before the last transmission of the first segment restarts the retransmission timer
    /// (`tcp_clean_rtx_queue`).
    pub old_sack_restarts_timer: bool,
    /// PRR reduces in proportion to the window before the reduction; otherwise to the data in flight (`tcp_init_cwnd_reduction`; RFC 9937
    /// section 6.1).
    pub prr_from_window: bool,
    /// A recovery that the reordering timer begins counts one segment as delivered (`tcp_rack_reo_timeout`).
    pub reordering_timer_counts_delivery: bool,
    /// A timeout leaves one segment more than what RACK does not take for lost; otherwise one segment (`tcp_enter_loss`).
    pub timeout_keeps_flight: bool,
    /// An original that fills a hole during a recovery shows reordering (`tcp_try_undo_partial`).
    pub partial_undo_shows_reordering: bool,
    /// The ACK that undoes a timeout may show a loss by RACK (`tcp_fastretrans_alert`).
    pub detects_loss_after_undo: bool,
    /// RACK looks for losses only after a delivery that it has measured (`tcp_rack_mark_lost`, `rack.advanced`), and when its timer fires.
    pub rack_awaits_delivery: bool,
    /// The tail loss probe, the reordering timer and the retransmission timer are one timer (since 4.15).
    pub probe_shares_timer: bool,
    /// An ACK that ends at SACKed data, which the receiver seems to have discarded, retransmits nothing; the retransmission timer is
    /// set to half of the smoothed round-trip time, 10 ms at least (`tcp_check_sack_reneging`).
    pub waits_before_reneging: bool,
    /// A tail loss probe needs no round-trip sample since the last one (`tcp_send_loss_probe`).
    pub probe_without_sample: bool,
    /// A tail loss probe with new data sends a whole buffer if the window allows (`tcp_send_loss_probe`).
    pub probe_sends_buffer: bool,
    /// A super-segment that the peer's window cuts ends at the edge of the window if Nagle's algorithm permits, also within a segment
    /// (`tcp_mss_split_point`).
    pub window_ends_super_segment: bool,
    /// The first buffer of unsent data is filled from the next one, up to what the congestion window and the length of super-segments permit,
    /// before its length is decided (`tcp_grow_skb`).
    pub fills_front_buffer: bool,
    /// A tail loss probe that retransmits is not counted as in flight (`retrans_out`).
    pub probe_not_in_flight: bool,
    /// The probe timer keeps running while data are SACKed, and the probe is the last segment even if that is SACKed
    /// (`tcp_schedule_loss_probe`, `tcp_send_loss_probe`). By RFC 8985 section 7.2 there is none then.
    pub probe_beside_sacked: bool,
    /// The reduction for a loss that a tail loss probe repaired is over with the ACK that shows the loss; otherwise it lasts until
    /// everything outstanding is acknowledged (`tcp_process_tlp_ack`).
    pub probe_repair_ends_at_once: bool,
    /// Without timestamps one segment after the other is timed (`t_rtttime`, `t_rtseq` of FreeBSD).
    pub times_one_segment: bool,
    /// Only what is acknowledged in order gives round-trip samples, unless RACK is in use (`tcp_xmit_timer` of FreeBSD).
    pub samples_in_order_only: bool,
    /// The window may grow while the peer's window is not smaller, whether it was used or not (`cc_ack_received` of FreeBSD).
    pub grows_when_unused: bool,
    /// RACK's window grows only by reported duplicates that a retransmission after reordering may have caused (`tcp_dsack_seen`).
    pub rack_heeds_likely_reports_only: bool,
    /// The pacing rate is computed from the data in flight where that exceeds cwnd (`tcp_update_pacing_rate`).
    pub paces_by_flight: bool,
    /// The first ten segments are not paced, and a late segment shortens the wait of the next one
    /// (`tcp_update_skb_after_send`).
    pub pacing_credit: bool,
    /// The segment with the FIN may exceed the congestion window (`tcp_cwnd_test`).
    pub fin_ignores_cwnd: bool,
    /// A corked segment is released by the probe timer: it runs while nothing is in flight, lasts an RTO at least, and
    /// marks the data to be pushed (`tcp_check_probe_timer`, `tcp_write_wakeup`).
    pub probe_timer_uncorks: bool,
    /// The first probe of a closed window is not sent earlier than this, independently of the minimum of the
    /// RTO (`tcp_probe0_base`).
    pub least_window_probe: Dur,
    /// Each ACK that leaves the window closed restarts the timer of window probes, so that it counts from the answer to the last probe
    /// (`tcp_ack_probe`), with the back-off of the retransmission timer.
    pub ack_restarts_window_probe: bool,
    /// An undone reduction is not announced by CWR (`tcp_ecn_withdraw_cwr`).
    pub undo_withdraws_cwr: bool,
    /// ECE reduces the window only while data are in flight (`tcp_ack`).
    pub ece_needs_flight: bool,
    /// An ACK of a part of one segment acknowledges nothing: it gives no sample, opens no window and restarts no timer
    /// (`tcp_clean_rtx_queue`).
    pub acks_whole_segments_only: bool,
}

/// Differences of the receiver.
#[expect(clippy::struct_excessive_bools, reason = "independent differences")]
#[derive(Debug)]
pub(crate) struct RecvRules {
    /// A SACK block grows by what arrives and by the blocks that it touches, not by the whole range
    /// (`tcp_sack_new_ofo_skb`, `tcp_ooo_try_coalesce`).
    pub sack_blocks_grow_by_arrivals: bool,
    /// A segment that repeats a part of earlier data is acknowledged at once (`tcp_do_segment` of FreeBSD).
    pub acks_overlap_at_once: bool,
    /// A duplicate that no ACK has reported when the next data arrive is not reported any more (`tcp_data_queue`).
    pub forgets_unreported_duplicate: bool,
    /// A segment is accepted completely or not at all: completely if no data are unread, even if it ends
    /// beyond the window (`tcp_sequence`, `sk_forced_mem_schedule`). If false, the part within the window is
    /// accepted.
    pub takes_whole_segments: bool,
    /// In reports of duplicates and in SACK blocks a FIN takes a position, as in sequence space.
    pub fin_takes_position: bool,
    /// A FIN in order drops what is out of order and what was to be reported (`tcp_fin`).
    pub fin_ends_reports: bool,
    /// Reading causes a window update if the window at least doubles by it (`__tcp_cleanup_rbuf`); otherwise as BSD does.
    pub updates_doubled_window: bool,
    /// The receiver's measurement of a round trip by window ends when a window of data has arrived in addition to the data that were not
    /// acknowledged at its start (`tcp_rcv_rtt_measure`).
    pub round_includes_unacked: bool,
    /// The largest estimate of the time between two segments, by which ACKs are delayed (`ato` in `tcp_event_data_recv` and
    /// `tcp_delack_timer_handler`).
    pub longest_ato: Dur,
    /// A round trip by timestamp that is longer than those before counts only while everything in order is read (`tcp_rcv_rtt_update`).
    pub longer_round_needs_empty_queue: bool,
    /// A round trip by timestamp is taken from segments out of order and from duplicates, too (`tcp_rcv_established`).
    pub measures_any_segment: bool,
    /// Data that fill a part of a gap are acknowledged like other data; otherwise they are acknowledged at once
    /// (`tcp_data_queue`; RFC 5681 section 4.2).
    pub filled_part_is_no_reason: bool,
    /// DCTCP: a segment that is not ECN-capable does not change the state of the echo (`dctcp_ece_ack_update`); otherwise any segment
    /// without CE does (RFC 8257 section 3.2).
    pub not_capable_keeps_echo: bool,
    /// The first window is less than 64 KiB, also where window scaling could express more (`tcp_select_initial_window`). Only for
    /// [`RecvTuning::Linux`](crate::RecvTuning).
    pub first_window_below_64k: bool,
}

/// The condition under which an ACK may change the peer's window, for a segment with the sequence number of
/// the last update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WindowUpdate {
    /// If its ACK field is not older (RFC 9293 section 3.10.7.4).
    NotOlder,
    /// If it opens the window or acknowledges new data. An ACK of new data may even have an older sequence number
    /// (`tcp_may_update_window`).
    NewOrLarger,
    /// If its ACK field is newer, or the same with a larger window (`tcp_do_segment` of FreeBSD).
    NewerOrLarger,
}

/// The processing of the data of a SYN or SYN-ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SynData {
    /// The data are accepted like those of other segments.
    AsOthers,
    /// The data are accepted if Fast Open was requested, and do not start delayed ACKs
    /// (`tcp_fastopen_add_skb`).
    FastOpenOnly,
}

/// How segments in TIME-WAIT are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimeWaitRules {
    /// As in the other synchronised states (RFC 9293 section 3.10.7.4).
    Rfc9293,
    /// `tcp_timewait_state_process` of Linux.
    Linux,
    /// `tcp_twcheck` of FreeBSD.
    FreeBsd,
}

/// Differences of the connection: handshake, acceptability of segments, resets.
#[expect(clippy::struct_excessive_bools, reason = "independent differences")]
#[derive(Debug)]
pub(crate) struct ConnRules {
    /// Largest number of challenge ACKs, and the time for which it applies (RFC 5961 section 7;
    /// `tcp_invalid_ratelimit` of Linux).
    pub challenge_acks: (u32, Dur),
    /// A SYN-ACK in LISTEN is ignored, not answered by a reset (`tcp_input` of FreeBSD since 15).
    pub listen_ignores_syn_ack: bool,
    /// A SYN with FIN is dropped in LISTEN (`tcp_rcv_state_process`).
    pub listen_drops_syn_fin: bool,
    /// A server rounds its first window to segments without their options (`tcp_openreq_init_rwin`).
    pub server_window_without_options: bool,
    /// A wrong ACK in SYN-SENT causes an immediate retransmission of the first SYN (`TCP_TIMEOUT_MIN`).
    pub bad_ack_repeats_syn: bool,
    /// A SYN-ACK must echo a timestamp of one of our SYNs (`tcp_rcv_synsent_state_process`).
    pub checks_echo_of_syn_ack: bool,
    /// Data of a SYN that crosses ours are kept until the handshake is done.
    pub keeps_data_of_crossing_syn: bool,
    /// The reserved ACE value 101 of a SYN-ACK means no ECN; otherwise accurate ECN (RFC 9768 section 3.1.3).
    pub reserved_ace_is_no_ecn: bool,
    /// The processing of the data of a SYN or SYN-ACK.
    pub syn_data: SynData,
    /// A server with Fast Open takes the FIN of a SYN (`tcp_fastopen` of FreeBSD).
    pub takes_fin_of_syn: bool,
    /// A CE mark on the peer's SYN counts (`tcp_ecn_syncache_socket` of FreeBSD).
    pub counts_ce_of_syn: bool,
    /// A client computes a pacing rate when the SYN-ACK arrives, from a window of ten segments (`tcp_ack`).
    pub client_paces_from_syn_ack: bool,
    /// Data of our SYN that the peer did not take are lost; otherwise they count as never sent
    /// (`tcp_rcv_fastopen_synack`).
    pub refused_syn_data_is_lost: bool,
    /// After crossing SYNs our SYN is repeated with all of its options.
    pub repeats_own_syn_options: bool,
    /// SYNs are given up after the time that doubling timeouts would take (`retransmits_timed_out`).
    pub bounds_syn_timeouts_by_time: bool,
    /// The user timeout shortens the wait for a SYN-ACK (`tcp_clamp_rto_to_user_timeout`).
    pub clamps_syn_timer: bool,
    /// The third segment of the handshake may wait for data (`sk_write_pending`).
    pub may_hold_handshake_ack: bool,
    /// Segments with data have all SACK blocks for which the option has room, and are shorter by it (`tcp_established_options`,
    /// `tcp_current_mss`); otherwise the blocks accompany data that leave room for them.
    pub sacks_shorten_data: bool,
    /// Segments without data stay inside the peer's window (`tcp_acceptable_seq`).
    pub acks_stay_in_window: bool,
    /// A repeated SYN gives a round-trip time by its echoed timestamp (`tcp_ack_update_rtt`).
    pub measures_repeated_syn: bool,
    /// The timestamp of a pure ACK is that of the last arrival, transmission, read or timer; the timer of compressed ACKs does not advance
    /// it (`tcp_clock_cache`, `tcp_compressed_ack_kick`).
    pub caches_clock: bool,
    /// Reading measures with the time of the last segment, transmission or timer (`tcp_rcv_space_adjust` without `tcp_mstamp_refresh`).
    pub reads_with_cached_clock: bool,
    /// A keepalive probe acknowledges what has arrived, and a delayed ACK ends with it (`tcp_event_ack_sent`).
    pub probes_acknowledge: bool,
    /// Segments in TIME-WAIT have no ACE counter (`tcp_twrespond` of FreeBSD).
    pub no_ace_in_time_wait: bool,
    /// CE counts on segments without data, too (`tcp_ecn_input_segment` of FreeBSD).
    pub reads_ce_of_pure_acks: bool,
    /// CWR counts on segments without data, too (`tcp_ecn_accept_cwr` of Linux, `tcp_ecn_input_segment` of FreeBSD),
    /// although RFC 3168 section 6.1.2 sends it with new data.
    pub reads_cwr_of_pure_acks: bool,
    /// The fields of the ACE counter are used without plausibility checks (`tcp_ecn.c` of FreeBSD).
    pub trusts_ace: bool,
    /// A segment that may update the window is no duplicate ACK (`FLAG_WIN_UPDATE`).
    pub window_update_is_no_duplicate: bool,
    /// How segments in TIME-WAIT are answered.
    pub time_wait: TimeWaitRules,
    /// A SYN in TIME-WAIT begins a connection by its sequence number alone; otherwise also by its timestamp (RFC 6191).
    pub reuse_by_sequence_only: bool,
    /// Segments without ACK, RST and SYN are dropped first (`tcp_rcv_established`).
    pub drops_segments_without_ack_first: bool,
    /// Resets are looked at before timestamps and the window (`tcp_do_segment` of FreeBSD).
    pub reset_before_other_checks: bool,
    /// A segment that acknowledges unsent data is dropped before its timestamp is noted (`tcp_ack`).
    pub checks_ack_before_timestamp: bool,
    /// A FIN counts as one position in reported duplicates.
    pub fin_in_dsack: bool,
    /// Segments without data that are not acceptable are answered, at the rate of challenge ACKs
    /// (`tcp_oow_rate_limited`).
    pub throttles_answers_without_data: bool,
    /// An ACK that a later one overtook passes PAWS (`tcp_disordered_ack`).
    pub accepts_disordered_acks: bool,
    /// An ACK without data from below RCV.NXT that fails PAWS is not answered (`tcp_disordered_ack_check`).
    pub ignores_late_acks: bool,
    /// PAWS accepts timestamps that are older than TS.Recent by at most this (`TCP_PAWS_WINDOW`); they do not replace it.
    pub paws_window: u32,
    /// PAWS applies for this time after TS.Recent was set (RFC 7323 section 5.5).
    pub stamp_life: Dur,
    /// The segment that ends the handshake must echo a timestamp of a SYN-ACK, or none (`tcp_check_req`).
    pub checks_echo_of_third_segment: bool,
    /// A segment without data is acceptable from the position of the last ACK on; otherwise from RCV.NXT on (`tcp_sequence`). Resets
    /// below RCV.NXT are challenged accordingly.
    pub accepts_from_last_ack: bool,
    /// An ACK older than all that was acknowledged is not acceptable (`bytes_acked`).
    pub bounds_old_acks_by_acked: bool,
    /// The condition under which an ACK may change the peer's window.
    pub window_update: WindowUpdate,
    /// The receiver's round-trip time is that of the first full segment with an echo (`tcp_rcv_rtt_measure_ts`).
    pub rtt_of_first_full_segment: bool,
    /// An echo of the present tick of the timestamp clock is no round trip of the receiver; otherwise it counts as one tick
    /// (`tcp_rcv_rtt_measure_ts`).
    pub echo_of_this_tick_is_no_sample: bool,
    /// Data after the peer's FIN, some of them old, reset the connection (`tcp_rcv_state_process`).
    pub resets_on_data_after_fin: bool,
    /// A reset carries the window and the SACK blocks of an ACK (`tcp_send_active_reset`).
    pub reset_has_window_and_sack: bool,
    /// Any SYN in SYN-RECEIVED is a retransmission; otherwise only one with the same sequence number.
    pub any_syn_is_retransmission: bool,
    /// After crossing SYNs a repeated SYN is challenged, and one with an ACK is reported as a duplicate
    /// (`tcp_validate_incoming`).
    pub challenges_crossed_syn: bool,
    /// A close after crossing SYNs sends data and FIN at once, and not after the handshake (`tcp_close_state`).
    pub closes_before_handshake: bool,
    /// The largest window of a client begins with the third segment of the handshake, not with its SYN
    /// (`tcp_create_openreq_child`).
    pub largest_window_of_third_ack: bool,
    /// A SYN in the window of SYN-RECEIVED returns a passive open to LISTEN (RFC 9293 section 3.10.7.4, fourth).
    pub syn_returns_to_listen: bool,
    /// Resets are compared with the last ACK sent and FreeBSD's window; otherwise with RCV.NXT and the window.
    pub resets_count_from_last_ack: bool,
    /// A reset in CLOSING or LAST-ACK is an error.
    pub reset_while_closing_is_error: bool,
    /// A reset in CLOSE-WAIT is reported as a broken pipe (Linux `tcp_reset`); otherwise as a connection reset.
    pub reset_in_close_wait_breaks_pipe: bool,
}
