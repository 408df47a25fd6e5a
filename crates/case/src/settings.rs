//! The typed settings of the entities of a case.

use crate::given::Scope;
use crate::params::Substrate;
use crate::params::grammar::{
    Abc, DelayedAck, Limit, LinkRate, LossDetection, LossModel, Pacing, Policer, Reorder, Slot, Undo,
};
use std::collections::BTreeMap;
use tcpassay_cc::{Arithmetic, HystartDetect, HystartMode};
use tcpassay_tcp::{
    AckCheck, AfterIdle, Config, DctcpReceiver, EcnForm, EcnMode, Keepalive, MemoryRules, Nagle, Profile,
    PrrBound, Recovery, RecoveryExit, RecvBuffer, RecvMemory, Skbs, StackFlavor, Tlp, TsoAutosize,
};
use tcpassay_units::{Bytes, Dur, Rate};

/// IPv4 and TCP headers without options.
pub(crate) const HEADERS: u64 = 40;

/// A host: its stack, its controller, its NIC.
#[derive(Clone, PartialEq, Debug)]
pub struct HostSettings {
    /// Switches of the stack, with the socket options of `app` and what the NIC lets it do.
    pub stack: Config,
    /// The profile that they started from.
    pub profile: Profile,
    /// `stack.cc`.
    pub cc: String,
    /// `stack.cc.<name>` that hold here and that the controller has.
    pub cc_values: BTreeMap<String, f64>,
    /// `stack.mtu`.
    pub mtu: Bytes,
    /// `stack.small_queues`.
    pub small_queues: SmallQueues,
    /// `stack.fastopen`.
    pub fastopen: bool,
    /// `app.linger`.
    pub linger: Option<Dur>,
    /// `nic.*`.
    pub nic: NicSettings,
}

/// How much a connection may have in the queues of its own host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallQueues {
    /// No bound.
    Off,
    /// What the connection's rate passes in a millisecond, at least two super-segments (Linux's `tcp_small_queue_check`).
    Auto,
    /// So much.
    Bytes(Bytes),
}

/// A network interface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NicSettings {
    /// `nic.tso`.
    pub tso: bool,
    /// `nic.gro`.
    pub gro: bool,
    /// `nic.gro_max`.
    pub gro_max: Bytes,
    /// `nic.gro_timeout`.
    pub gro_timeout: Dur,
    /// `nic.lro_order` is `stale-hash`.
    pub stale_hash: bool,
    /// `nic.rx_usecs`.
    pub rx_delay: Dur,
    /// `nic.rx_frames`; 0: none.
    pub rx_frames: u32,
    /// `nic.rx_cost`.
    pub rx_cost: Dur,
    /// `nic.tx_usecs`.
    pub tx_delay: Dur,
    /// `nic.adaptive`.
    pub adaptive: Adaptive,
    /// `nic.rate`; `None` follows the link.
    pub rate: Option<Rate>,
    /// `nic.queue` in packets.
    pub queue: Option<u32>,
    /// `nic.ecn_threshold`.
    pub mark_above: Option<Bytes>,
    /// `nic.ring` in packets.
    pub ring: Option<u32>,
}

/// `nic.adaptive`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adaptive {
    /// Coalescing as set.
    Off,
    /// Coalescing follows the load.
    On,
    /// A firmware that does not do what it is told.
    Hidden,
}

/// A link: what it carries and what it does to packets.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSettings {
    /// `link.rate`.
    pub rate: LinkRate,
    /// `link.delay`.
    pub delay: Dur,
    /// `link.jitter`, `link.jitter_correlation`, `link.jitter_distribution`.
    pub jitter: Jitter,
    /// `link.loss`.
    pub loss: f64,
    /// `link.loss_correlation`.
    pub loss_correlation: f64,
    /// `link.loss_model`.
    pub loss_model: LossModel,
    /// `link.ack_loss`.
    pub ack_loss: f64,
    /// `link.ack_thinning`.
    pub ack_thinning: u32,
    /// `link.ack_thinning_wait`.
    pub ack_thinning_wait: Dur,
    /// `link.reorder`.
    pub reorder: Reorder,
    /// `link.duplicate`.
    pub duplicate: f64,
    /// `link.corrupt`.
    pub corrupt: f64,
    /// `link.policer`.
    pub policer: Option<(Rate, Bytes)>,
    /// `link.slot`.
    pub slot: Option<(Dur, Dur, u32)>,
    /// `queue.*`.
    pub queue: QueueSettings,
}

/// Jitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// Its size; zero is none.
    pub size: Dur,
    /// Correlation of one packet with the next.
    pub correlation: f64,
    /// `uniform`, `normal`, `pareto`, `paretonormal`.
    pub distribution: &'static str,
}

/// What the step marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Nothing.
    Off,
    /// CE on data.
    Data,
    /// ECE on returning ACKs.
    Ack,
}

/// A queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSettings {
    /// `queue.kind`.
    pub kind: &'static str,
    /// `queue.limit`; `None` is automatic.
    pub limit: Option<Limit>,
    /// `queue.place`; `none` for a queue that no path reaches.
    pub place: &'static str,
    /// `queue.rate`.
    pub rate: Option<Rate>,
    /// `queue.burst`; `None` is automatic.
    pub burst: Option<Bytes>,
    /// `queue.classes`.
    pub classes: u32,
    /// `queue.ecn_mark`.
    pub mark: Mark,
    /// `queue.ecn_threshold`.
    pub threshold: Bytes,
    /// `queue.red_min`, `queue.red_max`, `queue.red_probability`.
    pub red: (Bytes, Bytes, f64),
    /// `queue.target`.
    pub target: Option<Dur>,
    /// `queue.interval`.
    pub interval: Option<Dur>,
    /// `queue.ecn`.
    pub ecn: bool,
}

impl QueueSettings {
    /// A plain FIFO without a limit, for places that no `queue.` path reaches.
    pub fn plain() -> QueueSettings {
        QueueSettings {
            kind: "fifo",
            limit: None,
            place: "none",
            rate: None,
            burst: None,
            classes: 1,
            mark: Mark::Off,
            threshold: Bytes::MAX,
            red: (Bytes::ZERO, Bytes::ZERO, 0.0),
            target: None,
            interval: None,
            ecn: false,
        }
    }

    fn of(s: &Scope) -> QueueSettings {
        QueueSettings {
            kind: s.word("queue.kind"),
            limit: s.maybe("queue.limit"),
            place: s.word("queue.place"),
            rate: s.maybe_rate("queue.rate"),
            burst: s.maybe_bytes("queue.burst"),
            classes: s.int("queue.classes"),
            mark: match s.word("queue.ecn_mark") {
                "data" => Mark::Data,
                "ack" => Mark::Ack,
                _ => Mark::Off,
            },
            threshold: s.bytes("queue.ecn_threshold"),
            red: (s.bytes("queue.red_min"), s.bytes("queue.red_max"), s.chance("queue.red_probability")),
            target: s.maybe_dur("queue.target"),
            interval: s.maybe_dur("queue.interval"),
            ecn: s.on("queue.ecn"),
        }
    }
}

impl LinkSettings {
    pub(super) fn of(s: &Scope) -> LinkSettings {
        LinkSettings {
            rate: s.read("link.rate"),
            delay: s.dur("link.delay"),
            jitter: Jitter {
                size: s.dur("link.jitter"),
                correlation: s.chance("link.jitter_correlation"),
                distribution: s.word("link.jitter_distribution"),
            },
            loss: s.chance("link.loss"),
            loss_correlation: s.chance("link.loss_correlation"),
            loss_model: s.read("link.loss_model"),
            ack_loss: s.chance("link.ack_loss"),
            ack_thinning: s.int("link.ack_thinning"),
            ack_thinning_wait: s.dur("link.ack_thinning_wait"),
            reorder: s.read("link.reorder"),
            duplicate: s.chance("link.duplicate"),
            corrupt: s.chance("link.corrupt"),
            policer: s.read::<Policer>("link.policer").0,
            slot: s.read::<Slot>("link.slot").0,
            queue: QueueSettings::of(s),
        }
    }
}

impl NicSettings {
    fn of(s: &Scope) -> NicSettings {
        NicSettings {
            tso: s.on("nic.tso"),
            gro: s.on("nic.gro"),
            gro_max: s.bytes("nic.gro_max"),
            gro_timeout: s.dur("nic.gro_timeout"),
            stale_hash: s.word("nic.lro_order") == "stale-hash",
            rx_delay: s.dur("nic.rx_usecs"),
            rx_frames: s.int("nic.rx_frames"),
            rx_cost: s.dur("nic.rx_cost"),
            tx_delay: s.dur("nic.tx_usecs"),
            adaptive: match s.word("nic.adaptive") {
                "on" => Adaptive::On,
                "hidden" => Adaptive::Hidden,
                _ => Adaptive::Off,
            },
            rate: s.maybe_rate("nic.rate"),
            queue: s.maybe_int("nic.queue"),
            mark_above: s.maybe_bytes("nic.ecn_threshold"),
            ring: s.maybe_int("nic.ring"),
        }
    }
}

impl HostSettings {
    pub(super) fn of(s: &Scope) -> HostSettings {
        let profile = match s.substrate() {
            Substrate::Model => {
                Profile::by_name(s.word("stack.profile")).expect("the table's words are the profiles")
            }
            Substrate::Kernel | Substrate::Host => Profile::Linux,
        };
        let mtu = s.bytes("stack.mtu");
        let cc = s.word("stack.cc");
        let known: Vec<&str> = tcpassay_cc::params(cc).iter().map(|info| info.name).collect();
        let mut cc_values = s.controller_values();
        cc_values.retain(|name, _| known.contains(&name.as_str()));
        HostSettings {
            stack: config(s, profile, mtu),
            profile,
            cc: cc.to_owned(),
            cc_values,
            mtu,
            small_queues: match s.maybe_bytes("stack.small_queues") {
                Some(bytes) => SmallQueues::Bytes(bytes),
                None if s.word("stack.small_queues") == "auto" => SmallQueues::Auto,
                None => SmallQueues::Off,
            },
            fastopen: s.on("stack.fastopen"),
            linger: s.maybe_dur("app.linger"),
            nic: NicSettings::of(s),
        }
    }
}

/// The profile's switches, and over them what the case says.
fn config(s: &Scope, profile: Profile, mtu: Bytes) -> Config {
    let mut c = Config::profile(profile);
    c.mss = s.maybe_bytes("stack.mss").unwrap_or(Bytes::new(mtu.get() - HEADERS));
    set(&mut c.sack, s.switch("stack.sack"));
    set(&mut c.dsack, s.switch("stack.dsack"));
    if !c.sack {
        c.dsack = false;
    }
    set(&mut c.timestamps, s.switch("stack.timestamps"));
    set(&mut c.window_scale, s.switch("stack.window_scale"));
    set(&mut c.initial_window, s.maybe_int("stack.initial_window"));
    set(&mut c.rto.initial, s.maybe_dur("stack.initial_rto"));
    set(&mut c.rto.min, s.maybe_dur("stack.min_rto"));
    set(&mut c.rto.slop, s.maybe_dur("stack.rto_slop"));
    set(&mut c.rto.max, s.maybe_dur("stack.max_rto"));
    set(&mut c.rto.min_on_variance, chosen(s, "stack.rto_floor", &[("rto", false), ("variance", true)]));
    c.ecn = match s.word("stack.ecn") {
        "classic" => EcnMode::Classic,
        "dctcp" => EcnMode::Dctcp,
        "accurate" => EcnMode::Accurate,
        _ => EcnMode::Off,
    };
    let receivers = [
        ("clear-timer", DctcpReceiver::ClearTimer),
        ("rearm", DctcpReceiver::Rearm),
        ("immediate", DctcpReceiver::Immediate),
    ];
    set(&mut c.dctcp_receiver, chosen(s, "stack.dctcp_receiver", &receivers));
    let checks =
        [("always", AckCheck::Always), ("if-scheduled-on-slow-path", AckCheck::IfScheduledOnSlowPath)];
    set(&mut c.ack_check, chosen(s, "stack.ack_check", &checks));
    set(&mut c.delayed_ack, s.maybe::<DelayedAck>("stack.delayed_ack").map(|d| d.0));
    set(&mut c.loss_detection, s.maybe::<LossDetection>("stack.loss_detection").map(|d| d.0));
    let recoveries = [
        ("newreno", Recovery::NewReno),
        ("sack", Recovery::Sack),
        ("prr", Recovery::Prr),
        ("freebsd", Recovery::FreeBsd { pipe: false }),
    ];
    set(&mut c.recovery, chosen(s, "stack.recovery", &recoveries));
    let exits = [
        ("ssthresh", RecoveryExit::Ssthresh),
        ("rfc3782-less-careful", RecoveryExit::Rfc3782LessCareful),
        ("rfc6582", RecoveryExit::Rfc6582),
    ];
    set(&mut c.recovery_exit, chosen(s, "stack.recovery_exit", &exits));
    set(&mut c.cwr_by_prr, chosen(s, "stack.cwr", &[("at-once", false), ("prr", true)]));
    set(&mut c.undo, s.maybe::<Undo>("stack.undo").map(|u| u.0));
    set(
        &mut c.tlp,
        chosen(s, "stack.tlp", &[("off", Tlp::Off), ("open-only", Tlp::OpenOnly), ("on", Tlp::On)]),
    );
    set(&mut c.frto, s.switch("stack.frto"));
    set(&mut c.ecn_option, s.switch("stack.ecn_option"));
    set(&mut c.ecn_form, chosen(s, "stack.ecn_form", &[("rfc", EcnForm::Rfc), ("linux", EcnForm::Linux)]));
    set(&mut c.limited_transmit, s.switch("stack.limited_transmit"));
    set(&mut c.early_retransmit, s.switch("stack.early_retransmit"));
    let only = |train, delay| HystartMode::Linux(HystartDetect { train, delay });
    let ends = [
        ("off", HystartMode::Off),
        ("hystart++", HystartMode::PlusPlus),
        ("linux", only(true, true)),
        ("linux-train", only(true, false)),
        ("linux-delay", only(false, true)),
    ];
    set(&mut c.hystart, chosen(s, "stack.hystart", &ends));
    let flavor =
        [("rfc", StackFlavor::Rfc), ("linux", StackFlavor::Linux), ("freebsd", StackFlavor::FreeBsd)];
    set(&mut c.flavor, chosen(s, "stack.flavor", &flavor));
    let arithmetics =
        [("rfc", Arithmetic::Rfc), ("linux", Arithmetic::Linux), ("freebsd", Arithmetic::FreeBsd)];
    set(&mut c.cc_arithmetic, chosen(s, "stack.cc_arithmetic", &arithmetics));
    set(&mut c.byte_counting, s.maybe::<Abc>("stack.abc").map(|a| a.0));
    let idle = [("off", AfterIdle::Keep), ("on", AfterIdle::Restart), ("decay", AfterIdle::Decay)];
    set(&mut c.after_idle, chosen(s, "stack.slow_start_after_idle", &idle));
    set(&mut c.pacing, s.maybe::<Pacing>("stack.pacing").map(|p| p.0));
    let bound = [("safe-ack", PrrBound::SafeAck), ("repair", PrrBound::Repair)];
    set(&mut c.prr_bound, chosen(s, "stack.prr_bound", &bound));
    let nagle = [("all", Nagle::All), ("idle", Nagle::Idle), ("small", Nagle::Small)];
    set(&mut c.nagle, chosen(s, "stack.nagle", &nagle));
    set(&mut c.tso_defer, s.switch("stack.tso_defer"));
    let sizes =
        [("off", TsoAutosize::Off), ("rate", TsoAutosize::Rate), ("rate-and-rtt", TsoAutosize::RateAndRtt)];
    set(&mut c.tso_autosize, chosen(s, "stack.tso_autosize", &sizes));
    c.tso = s.on("nic.tso").then(|| s.bytes("nic.gso_max"));
    if profile == Profile::Linux {
        linux_buffers(s, &mut c);
    } else {
        buffers(s, &mut c);
    }
    application(s, &mut c);
    c
}

/// What the application says of its sockets, and limits of time and of repetitions.
fn application(s: &Scope, c: &mut Config) {
    c.nodelay = s.on("app.nodelay");
    c.cork = s.on("app.cork");
    c.quickack = s.on("app.quickack");
    c.notsent_lowat = s.maybe_bytes("app.notsent_lowat");
    c.keepalive = s.maybe_dur("app.keepalive").map(|idle| Keepalive { idle, interval: idle / 10, count: 9 });
    if let Some(d) = s.maybe_dur("app.user_timeout") {
        c.user_timeout = Some(d);
    }
    if let Some(n) = s.maybe_int("stack.syn_retries") {
        // All of them, also those that come at the same interval.
        (c.syn_retries, c.syn_linear) = (n, 0);
    }
    set(&mut c.retries, s.maybe_int("stack.retries"));
    set(&mut c.time_wait, s.maybe_dur("stack.time_wait"));
    set(&mut c.fin_wait2, s.maybe_dur("stack.fin_wait2"));
}

/// Buffers as Linux 6.1 counts them, with what a packet costs besides its bytes. The rows of a window say half of the buffer.
fn linux_buffers(s: &Scope, c: &mut Config) {
    /// `SKB_TRUESIZE` of an empty buffer: 512 B for headers and `skb_shared_info`, and `struct sk_buff`.
    const BUFFER: Bytes = Bytes::new(768);
    /// `tcp_rmem`
    const RMEM: (u64, u64) = (131_072, 6 << 20);
    /// `net.core.rmem_max`, from which the window scale follows, too (`tcp_select_initial_window`).
    const RMEM_MAX: u64 = 212_992;
    /// `tcp_wmem`
    const WMEM: u64 = 16_384;
    c.send_buffer = s.maybe_bytes("app.sndbuf");
    set(&mut c.max_send_buffer, s.maybe_bytes("stack.max_sndbuf"));
    let initial = Bytes::new(WMEM).min(c.max_send_buffer);
    c.skbs = Some(Skbs { overhead: BUFFER, headers: Bytes::new(192), initial });
    let max = s.maybe_bytes("stack.max_rwnd").map_or(RMEM.1, |window| 2 * window.get());
    let asked = s.maybe_bytes("app.rcvbuf").map(Bytes::get);
    let size = asked.unwrap_or(RMEM.0.min(max));
    c.recv_buffer = match asked {
        Some(size) => RecvBuffer::Fixed(Bytes::new(size / 2)),
        None => RecvBuffer::Auto { initial: Bytes::new(size / 2), max: Bytes::new(max.max(RMEM_MAX)) },
    };
    c.recv_memory = Some(RecvMemory {
        size: Bytes::new(size),
        max: Bytes::new(max),
        locked: asked.is_some() || s.switch("stack.rcv_autotune") == Some(false),
        shrink: false,
        passive: false,
        ip: Bytes::new(20),
        gso: None,
        rules: MemoryRules::Half,
        buffer: Some(BUFFER),
    });
}

/// Send and receive buffers: the application's word wins, then the stack's rows, then the profile.
fn buffers(s: &Scope, c: &mut Config) {
    c.send_buffer = s.maybe_bytes("app.sndbuf");
    set(&mut c.max_send_buffer, s.maybe_bytes("stack.max_sndbuf"));
    let (initial, max) = match c.recv_buffer {
        RecvBuffer::Fixed(size) => (size, size),
        RecvBuffer::Auto { initial, max } => (initial, max),
    };
    let max = s.maybe_bytes("stack.max_rwnd").unwrap_or(max);
    let tunes = s.switch("stack.rcv_autotune").unwrap_or(matches!(c.recv_buffer, RecvBuffer::Auto { .. }));
    c.recv_buffer = match s.maybe_bytes("app.rcvbuf") {
        Some(size) => RecvBuffer::Fixed(size),
        // What starts at its maximum has nothing to tune: begin at Linux's 64 KiB.
        None if tunes => RecvBuffer::Auto { initial: initial.min(max).min(Bytes::new(65_536)), max },
        None => RecvBuffer::Fixed(max),
    };
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// The value of a word; `None` for `profile`.
fn chosen<T: Copy>(s: &Scope, path: &str, words: &[(&str, T)]) -> Option<T> {
    let word = s.word(path);
    words.iter().find(|(w, _)| *w == word).map(|(_, value)| *value)
}
