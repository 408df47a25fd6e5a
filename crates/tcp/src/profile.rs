//! The named profiles of the configuration.
//!
//! Each value has a comment with its source. Deviations of a profile from the real stack are listed in
//! `docs/deviations.md`. Settings that other parameters of a case decide (ECN, MSS, offloads, buffers) have
//! their simplest value here: `ecn` off, `tso` off, an MTU of 1500 with IPv4.

use crate::tick::TimerTicks;
use crate::{
    AccurateUse, AckCheck, AckCompression, AfterIdle, Config, ControlEcn, DctcpReceiver, DelayedAck, EcnForm,
    EcnMode, LossDetection, MemoryRules, Nagle, Pacing, Persist, Profile, PrrBound, Recovery,
    RecoveryExitRule, RecvBuffer, RecvTuning, RtoBounds, Skbs, StackFlavor, Tlp, TsoAutosize, Undo,
};
use tcpassay_cc::{Arithmetic, ByteCounting, HystartDetect, HystartMode};
use tcpassay_units::{Bytes, Dur};

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: [Profile; 7] = [
        Profile::Rfc,
        Profile::Linux,
        Profile::Linux61,
        Profile::Linux73,
        Profile::Linux46,
        Profile::FreeBsd,
        Profile::FreeBsdRack,
    ];

    /// Its name in the parameter table.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Rfc => "rfc",
            Profile::Linux => "linux",
            Profile::Linux61 => "linux-6.1",
            Profile::Linux73 => "linux-7.3",
            Profile::Linux46 => "linux-4.6",
            Profile::FreeBsd => "freebsd",
            Profile::FreeBsdRack => "freebsd-rack",
        }
    }

    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|p| p.name() == name)
    }

    /// The profile of a kernel by its release, as in `6.1.176-tcpassay`; `None` if no profile describes it.
    pub fn of_release(release: &str) -> Option<Profile> {
        let series = |p: &Profile| {
            p.name().strip_prefix("linux-").is_some_and(|s| release.starts_with(&format!("{s}.")))
        };
        Profile::ALL.into_iter().find(series)
    }
}

impl Config {
    /// The configuration of a named profile.
    pub fn profile(profile: Profile) -> Config {
        match profile {
            Profile::Rfc => rfc(),
            Profile::Linux => linux(),
            Profile::Linux61 => linux_6_1(),
            Profile::Linux73 => linux_7_3(),
            Profile::Linux46 => linux_4_6(),
            Profile::FreeBsd => freebsd(),
            Profile::FreeBsdRack => freebsd_rack(),
        }
    }
}

impl Config {
    /// What Linux 6.1 does otherwise than the newest version, whatever else is set.
    pub const fn as_linux_6_1(&mut self) {
        self.syn_linear = 0; // tcp_syn_linear_timeouts, since 6.5
        self.challenge_unsent = false; // tcp_ack, since 7.1 and in the stable series of 6.18
        self.shut_by_duplicate = false; // tcp_may_update_window, since 6.6
    }

    /// What Linux 7.3 does otherwise than 6.1, whatever else is set. `flavor/linux_7_3.rs` has the rules that no field describes.
    pub fn as_linux_7_3(&mut self) {
        self.flavor = StackFlavor::Linux73;
        if let Some(compression) = &mut self.ack_compression {
            // tcp_comp_sack_rtt_percent and tcp_comp_sack_slack_ns, since 6.19
            (compression.percent, compression.slack) = (33, Dur::from_micros(10));
        }
        self.buffers_as_linux_7_3();
        self.delay_acks_below_rto();
    }

    /// The memory of buffers in 7.3, in a connection that has that of 6.1.
    pub fn buffers_as_linux_7_3(&mut self) {
        // Buffers of other sizes, as those of other drivers and configurations, have no head of 512 B.
        let newer = |empty| if empty == Skbs::EMPTY { Skbs::EMPTY_SINCE_6_3 } else { empty };
        if let Some(memory) = &mut self.recv_memory {
            memory.rules = MemoryRules::Measured; // scaling_ratio, since 6.6
            memory.buffer = memory.buffer.map(newer);
        }
        if let Some(skbs) = &mut self.skbs {
            skbs.overhead = newer(skbs.overhead);
        }
    }

    /// The delay of an ACK stays a tick below the smallest timeout, so that a peer with the same one does not time out (`tcp_delack_max`,
    /// since 6.7).
    pub fn delay_acks_below_rto(&mut self) {
        let tick = Dur::from_millis(1);
        self.delayed_ack.timeout = self.delayed_ack.timeout.min(self.rto.min.saturating_sub(tick).max(tick));
    }
}

fn rfc() -> Config {
    Config {
        mss: Bytes::new(1460),
        sack: true,
        dsack: true,
        timestamps: true,
        window_scale: true,
        initial_window: 10, // RFC 6928
        rto: RtoBounds {
            initial: Dur::from_secs(1), // RFC 6298 section 2.1
            min: Dur::from_secs(1),     // section 2.4
            slop: Dur::ZERO,
            max: Dur::from_secs(60), // section 2.5
            min_on_variance: false,
        },
        ecn: EcnMode::Off,
        control_ecn: ControlEcn::Off,
        ecn_option: true, // RFC 9768 section 3.2.3: RECOMMENDED; Linux tcp_ecn_option = 2
        ecn_form: EcnForm::Rfc,
        accurate: AccurateUse::default(),
        dctcp_receiver: DctcpReceiver::Immediate,
        ack_check: AckCheck::Always,
        ack_compression: None,
        // RFC 1122 section 4.2.3.2: at least every second segment, less than half a second.
        delayed_ack: DelayedAck { every: 2, timeout: Dur::from_millis(200), adaptive: false, quick_ack: 0 },
        loss_detection: LossDetection::DupThresh { threshold: 3, adaptive: false }, // RFC 5681
        recovery: Recovery::Sack,                                                   // RFC 6675
        prr_bound: PrrBound::SafeAck,
        recovery_exit: RecoveryExitRule::Rfc6582,
        cwr_by_prr: false,
        undo: Undo::default(),
        tlp: Tlp::Off,
        frto: false,
        limited_transmit: true, // RFC 5681 section 3.2: SHOULD
        early_retransmit: false,
        hystart: HystartMode::Off,
        cc_arithmetic: Arithmetic::Rfc,
        byte_counting: ByteCounting::Limit(1), // RFC 5681 equation 2: min(N, SMSS)
        after_idle: AfterIdle::Restart,        // RFC 5681 section 4.1
        pacing: Pacing::Off,
        tso: None,
        tso_win_divisor: 3,
        min_tso_segs: 2,
        timer_floor: Dur::ZERO,
        tso_defer: false,
        tso_defer_recent: false,
        tso_autosize: TsoAutosize::Off,
        send_buffer: None,
        max_send_buffer: Bytes::MAX,
        path_mss: None,
        mtu_probing: None,
        skbs: None,
        timer_ticks: TimerTicks::Off,
        recv_buffer: RecvBuffer::Fixed(Bytes::new(16 << 20)),
        recv_memory: None,
        recv_tuning: RecvTuning::Plain,
        push_super: false,
        reduce_from_cwnd: false,
        reset_unread: true,
        cwr_on_retransmission: false,
        mark_stops_one_segment: true, // RFC 3168 section 6.1.2
        stamp_resets: true,           // RFC 7323 section 5.2
        plain_syns: false,
        tolerate_missing_timestamps: false,
        count_small_segments: false,
        ack_partial: false,
        fin_on_acks: false,
        bsd_window: false,
        nagle: Nagle::All,
        nodelay: false,
        cork: false,
        quickack: false,
        notsent_lowat: None,
        keepalive: None,
        user_timeout: Some(Dur::from_secs(300)), // RFC 9293 section 3.9.1.1: five minutes
        // RFC 9293 section 3.8.3: R2 of a SYN is at least 3 minutes; 1+2+4+8+16+32+60+60 s = 183 s.
        syn_retries: 7,
        syn_linear: 0,
        synack_retries: 7,
        synack_linear: 0,
        drop_synfin: false,
        shut_by_duplicate: true,
        reset_by_reports: false,
        challenge_unsent: true, // RFC 9293 section 3.10.7.4, fifth
        ecn_syns: 1,
        connect_timeout: None,
        flavor: StackFlavor::Rfc,
        weak_resets: false,
        weak_syns: false,
        invalid_ratelimit: None,
        persist: None,
        retries: 15,
        time_wait: Dur::from_secs(240), // 2 MSL, RFC 9293 section 3.4.2
        fin_wait2: Dur::from_secs(240),
    }
}

fn linux() -> Config {
    Config {
        rto: RtoBounds {
            initial: Dur::from_secs(1), // TCP_TIMEOUT_INIT
            min: Dur::from_millis(200), // TCP_RTO_MIN
            slop: Dur::ZERO,
            max: Dur::from_secs(120), // TCP_RTO_MAX
            min_on_variance: true,    // tcp_rtt_estimator keeps mdev_max at or above it
        },
        ecn_form: EcnForm::Linux,                   // tcp_ecn.h
        ack_check: AckCheck::IfScheduledOnSlowPath, // tcp_rcv_established, tcp_ack_snd_check
        // tcp_comp_sack_nr, tcp_comp_sack_delay_ns, tcp_comp_sack_slack_ns
        ack_compression: Some(AckCompression {
            most: 44,
            delay: Dur::from_millis(1),
            percent: 5,
            slack: Dur::from_micros(100),
        }),
        // TCP_DELACK_MAX, TCP_MAX_QUICKACKS
        delayed_ack: DelayedAck { every: 2, timeout: Dur::from_millis(200), adaptive: true, quick_ack: 16 },
        loss_detection: LossDetection::Rack { dsack_adaptation: true }, // tcp_recovery = 1
        recovery: Recovery::Prr,
        recovery_exit: RecoveryExitRule::Ssthresh, // tcp_end_cwnd_reduction
        cwr_by_prr: true,                          // tcp_enter_cwr
        undo: Undo { eifel: true, dsack: true, ..Undo::default() }, // tcp_may_undo
        tlp: Tlp::On,                              // tcp_early_retrans = 3
        timer_floor: Dur::from_millis(2),          // TCP_TIMEOUT_MIN with HZ = 1000
        frto: true,                                // tcp_frto = 2
        hystart: HystartMode::Linux(HystartDetect::ALL), // hystart = 1, hystart_detect = 3 of tcp_cubic.c
        cc_arithmetic: Arithmetic::Linux,          // tcp_cong_avoid_ai, bictcp_update
        byte_counting: ByteCounting::All,          // tcp_slow_start since 3.13
        after_idle: AfterIdle::Decay,              // tcp_cwnd_restart
        tso_defer: true,
        tso_defer_recent: true,                // tcp_tso_should_defer
        tso_autosize: TsoAutosize::RateAndRtt, // tcp_tso_autosize, tcp_tso_rtt_log = 9
        max_send_buffer: Bytes::new(4 << 20),  // tcp_wmem[2], tcp_sndbuf_expand
        // SKB_TRUESIZE since 6.3 (`skbuff_small_head`), tcp_wmem[1]
        skbs: Some(Skbs { overhead: Bytes::new(896), headers: Bytes::new(320), initial: Bytes::new(16_384) }),
        nagle: Nagle::Small,               // tcp_minshall_check
        reduce_from_cwnd: true,            // tcp_reno_ssthresh, cubictcp_recalc_ssthresh
        push_super: true,                  // __tcp_transmit_skb
        mark_stops_one_segment: false,     // dctcp_ssthresh, tcp_reno_ssthresh: two segments
        stamp_resets: false,               // tcp_v4_send_reset
        tolerate_missing_timestamps: true, // tcp_validate_incoming checks only `saw_tstamp`
        reset_by_reports: true,            // tcp_validate_incoming, tcp_reset_check
        // tcp_rmem 131072 and 6291456, half of which is window with tcp_adv_win_scale = 1.
        recv_buffer: RecvBuffer::Auto { initial: Bytes::new(65_536), max: Bytes::new(3 << 20) },
        recv_tuning: RecvTuning::Linux, // tcp_rcv_space_adjust
        user_timeout: None,
        flavor: StackFlavor::Linux,
        syn_retries: 6,                // tcp_syn_retries
        syn_linear: 4,                 // tcp_syn_linear_timeouts, since 6.5
        synack_retries: 5,             // tcp_synack_retries
        retries: 15,                   // tcp_retries2
        time_wait: Dur::from_secs(60), // TCP_TIMEWAIT_LEN
        fin_wait2: Dur::from_secs(60), // tcp_fin_timeout
        ..rfc()
    }
}

fn linux_6_1() -> Config {
    let mut config = linux();
    config.as_linux_6_1();
    config
}

fn linux_7_3() -> Config {
    let mut config = linux();
    config.as_linux_7_3();
    config
}

fn linux_4_6() -> Config {
    Config {
        ack_compression: None,                     // since 4.18
        dctcp_receiver: DctcpReceiver::ClearTimer, // dctcp_ce_state_0_to_1 before 4.17
        // RACK was added in 4.4 and marked losses beside FACK and the adaptive threshold.
        loss_detection: LossDetection::DupThresh { threshold: 3, adaptive: true },
        early_retransmit: true,          // tcp_early_retrans = 3
        prr_bound: PrrBound::Repair,     // tcp_cwnd_reduction
        tlp: Tlp::OpenOnly,              // tcp_schedule_loss_probe: only in TCP_CA_Open
        tso_autosize: TsoAutosize::Rate, // tcp_tso_autosize
        tso_defer_recent: false,
        cc_arithmetic: Arithmetic::Rfc,
        skbs: None,
        timer_ticks: TimerTicks::Off,
        push_super: false,
        syn_linear: 0,
        reset_by_reports: false,
        challenge_unsent: false,
        shut_by_duplicate: false,
        timer_floor: Dur::ZERO, // 10 ms for probes instead
        // tcp_default_init_rwnd: 20 segments; tcp_rmem[2] = 6 MiB.
        recv_buffer: RecvBuffer::Auto { initial: Bytes::new(29_200), max: Bytes::new(3 << 20) },
        recv_tuning: RecvTuning::Linux46,
        ..linux()
    }
}

fn freebsd() -> Config {
    Config {
        rto: RtoBounds {
            initial: Dur::from_secs(1),  // net.inet.tcp.rexmit_initial
            min: Dur::from_millis(30),   // rexmit_min
            slop: Dur::from_millis(200), // rexmit_slop
            max: Dur::from_secs(64),     // TCPTV_REXMTMAX
            min_on_variance: false,
        },
        delayed_ack: DelayedAck { every: 2, timeout: Dur::from_millis(40), adaptive: false, quick_ack: 0 },
        recovery: Recovery::Prr, // net.inet.tcp.do_prr = 1
        undo: Undo { eifel_timeout: true, ..Undo::default() }, // TF_PREVVALID, CC_RTO_ERR
        byte_counting: ByteCounting::Limit(2), // net.inet.tcp.abc_l_var
        cc_arithmetic: Arithmetic::FreeBsd, // newreno_cong_signal, cubic_ssthresh_update
        // recvspace 64 KiB, recvbuf_max 2 MiB
        recv_buffer: RecvBuffer::Auto { initial: Bytes::new(65_536), max: Bytes::new(2 << 20) },
        max_send_buffer: Bytes::new(2 << 20), // net.inet.tcp.sendbuf_max
        nagle: Nagle::Idle,                   // tcp_output: idle
        reduce_from_cwnd: true,               // newreno_cong_signal
        reset_unread: false,                  // tcp_disconnect flushes and sends FIN
        mark_stops_one_segment: false,        // newreno_cong_signal: two segments
        stamp_resets: false,                  // tcp_respond
        cwr_on_retransmission: true,          // tcp_ecn_output_established
        count_small_segments: true,           // DELAY_ACK
        bsd_window: true,                     // tcp_mss: roundup(bufsize, mss)
        ack_partial: true,                    // tcp_sack_partialack: TF_ACKNOW
        fin_on_acks: true,                    // tcp_outflags
        user_timeout: None,
        flavor: StackFlavor::FreeBsd,
        syn_retries: 12,                           // TCP_MAXRXTSHIFT, within keepinit
        connect_timeout: Some(Dur::from_secs(75)), // net.inet.tcp.keepinit
        synack_retries: 3,                         // SYNCACHE_MAXREXMTS
        ecn_syns: 2,                               // net.inet.tcp.ecn.maxretries = 1
        // net.inet.tcp.persmin, persmax
        persist: Some(Persist { min: Dur::from_secs(5), max: Dur::from_secs(60) }),
        retries: 12,                   // TCP_MAXRXTSHIFT
        time_wait: Dur::from_secs(60), // 2 * net.inet.tcp.msl
        fin_wait2: Dur::from_secs(60), // net.inet.tcp.finwait2_timeout
        ..rfc()
    }
}

fn freebsd_rack() -> Config {
    Config {
        rto: RtoBounds { max: Dur::from_secs(4), ..freebsd().rto }, // rack_rto_max
        loss_detection: LossDetection::Rack { dsack_adaptation: true }, // rack.c, RFC 8985 section 6.2.4
        tlp: Tlp::On,
        undo: Undo { eifel_timeout: true, rack_restore: true, ..Undo::default() },
        ..freebsd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_by_their_names_and_by_nothing_else() {
        assert_eq!(Profile::by_name("linux-4.6"), Some(Profile::Linux46));
        assert_eq!(Profile::by_name("linux-6.1"), Some(Profile::Linux61));
        assert_eq!(Profile::by_name("freebsd-rack"), Some(Profile::FreeBsdRack));
        assert_eq!(Profile::by_name("Linux"), None);
    }

    #[test]
    fn a_kernel_has_the_profile_of_its_series_and_of_no_other() {
        assert_eq!(Profile::of_release("6.1.176-tcpassay"), Some(Profile::Linux61));
        assert_eq!(Profile::of_release("7.3.4-1~bpo13+1"), Some(Profile::Linux73));
        assert_eq!(Profile::of_release("6.12.117"), None);
        assert_eq!(Profile::of_release("7.30.1"), None);
    }

    #[test]
    fn linux_6_1_retransmits_syns_with_back_off_and_ignores_acks_of_what_was_never_sent() {
        let (old, new) = (Config::profile(Profile::Linux61), Config::profile(Profile::Linux));
        assert_eq!((old.syn_linear, old.challenge_unsent, old.shut_by_duplicate), (0, false, false));
        assert_eq!((new.syn_linear, new.challenge_unsent, new.shut_by_duplicate), (4, true, true));
        assert_eq!(old.rto, new.rto);
    }

    #[test]
    fn linux_7_3_compresses_acks_by_a_third_of_the_round_trip_and_has_the_rules_of_later_releases() {
        let (old, new) = (Config::profile(Profile::Linux61), Config::profile(Profile::Linux73));
        let compression =
            |cfg: &Config| cfg.ack_compression.map(|rule| (rule.percent, rule.slack.as_micros()));
        assert_eq!((compression(&old), compression(&new)), (Some((5, 100)), Some((33, 10))));
        assert_eq!((new.syn_linear, new.challenge_unsent, new.shut_by_duplicate), (4, true, true));
        assert!(new.flavor.is_linux() && new.flavor != old.flavor);
        // The smallest timeout of 200 ms leaves 199 ms for an ACK.
        assert_eq!((old.delayed_ack.timeout.as_millis(), new.delayed_ack.timeout.as_millis()), (200, 199));
    }

    #[test]
    fn linux_4_6_has_the_settings_that_cause_the_stalls_of_the_rate_limiter() {
        let cfg = Config::profile(Profile::Linux46);
        assert_eq!(cfg.dctcp_receiver, DctcpReceiver::ClearTimer);
        assert_eq!(cfg.ack_check, AckCheck::IfScheduledOnSlowPath);
        assert_eq!(cfg.tlp, Tlp::OpenOnly);
        assert_eq!(cfg.rto.min, Dur::from_millis(200));
    }
}
