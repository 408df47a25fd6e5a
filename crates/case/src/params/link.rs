//! Links: the settings of a link, and the parameters that set them.

use super::grammar::{
    BackRate, ForwardingOffload, IcmpReport, LinkRate, LossModel, PauseText, PolicerText, ReorderRule,
    RewriteRules, Slot, check,
};
use super::kind::ValueKind;
use super::linux::{Knob, LinkDirection};
use super::queue::QueueSettings;
use super::row::{Row, put};
use super::spec::{ParamSpec, Substrates};
use super::words::Words;
use crate::draws::Distribution;
use tcpassay_units::{Bytes, Dur, Rate};

type P = Row<LinkSettings>;
const MKH: Substrates = Substrates::MKH;
const MK: Substrates = Substrates::MK;

/// The settings of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSettings {
    /// `link.rate`.
    pub rate: LinkRate,
    /// `link.back_rate`; `None`: that of the forward direction.
    pub back_rate: Option<LinkRate>,
    /// `link.delay`.
    pub delay: Dur,
    /// `link.back_delay`; `None`: that of the forward direction.
    pub back_delay: Option<Dur>,
    /// `link.jitter`, `link.jitter_correlation`, `link.jitter_distribution`.
    pub jitter: JitterSettings,
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
    pub reorder: ReorderRule,
    /// `link.drawn_by`.
    pub drawn_by: DrawnBy,
    /// `link.duplicate`.
    pub duplicate: f64,
    /// `link.corrupt`.
    pub corrupt: f64,
    /// `link.policer`: rate and burst.
    pub policer: Option<(Rate, Bytes)>,
    /// `link.slot`: the shortest and the longest gap, and the number of packets of a slot.
    pub slot: Option<(Dur, Dur, u32)>,
    /// `link.pause`: the time between the beginnings of two pauses, and the length of each.
    pub pause: Option<(Dur, Dur)>,
    /// `link.mtu`: the largest IP packet that the link carries; `None`: any that its hosts send.
    pub mtu: Option<Bytes>,
    /// `link.icmp`: what the router before the link says about longer packets.
    pub icmp: IcmpReport,
    /// `link.offload`: how the router before the link merges packets.
    pub offload: Option<ForwardingOffload>,
    /// `link.rewrite`: what a middlebox changes in packets.
    pub rewrite: RewriteRules,
    /// `link.idle_timeout`: after this time without a packet a middlebox forgets a connection; `None`: never.
    pub idle_timeout: Option<Dur>,
    /// `queue.*`.
    pub queue: QueueSettings,
}

/// The variation of the delay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JitterSettings {
    /// The size of the variation. Zero means no jitter.
    pub size: Dur,
    /// The correlation of one packet with the next, from 0 to 1.
    pub correlation: f64,
    /// The distribution of the variation.
    pub distribution: Distribution,
}

/// `link.drawn_by`: the component that makes the random decisions about packets on a link of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrawnBy {
    /// The random streams of the model.
    Model,
    /// The queue discipline `netem` of Linux.
    Netem,
}

impl LinkSettings {
    /// A link that only transmits, at 1 Gbit/s.
    pub(crate) fn plain() -> LinkSettings {
        LinkSettings {
            rate: LinkRate::Fixed(Rate::from_gbit(1)),
            back_rate: None,
            delay: Dur::ZERO,
            back_delay: None,
            jitter: JitterSettings { size: Dur::ZERO, correlation: 0.0, distribution: Distribution::Uniform },
            loss: 0.0,
            loss_correlation: 0.0,
            loss_model: LossModel::Bernoulli,
            ack_loss: 0.0,
            ack_thinning: 1,
            ack_thinning_wait: Dur::ZERO,
            reorder: ReorderRule::Off,
            drawn_by: DrawnBy::Model,
            duplicate: 0.0,
            corrupt: 0.0,
            policer: None,
            slot: None,
            pause: None,
            mtu: None,
            icmp: IcmpReport::Always,
            offload: None,
            rewrite: RewriteRules::NONE,
            idle_timeout: None,
            queue: QueueSettings::plain(),
        }
    }
}

impl LinkSettings {
    /// The rate of a direction.
    pub fn rate_of(&self, way: LinkDirection) -> &LinkRate {
        match (way, &self.back_rate) {
            (LinkDirection::Backward, Some(rate)) => rate,
            _ => &self.rate,
        }
    }

    /// The delay of a direction, without jitter.
    pub fn delay_of(&self, way: LinkDirection) -> Dur {
        match way {
            LinkDirection::Forward => self.delay,
            LinkDirection::Backward => self.back_delay.unwrap_or(self.delay),
        }
    }

    /// Whether single packets are impaired in a way that netem also implements.
    pub fn has_drawn_impairments(&self) -> bool {
        self.loss > 0.0
            || matches!(self.loss_model, LossModel::GilbertElliott { .. })
            || self.corrupt > 0.0
            || self.duplicate > 0.0
            || self.ack_loss > 0.0
            || !self.jitter.size.is_zero()
    }

    /// Whether single packets are impaired in a way that Linux does not have.
    pub fn has_own_impairments(&self) -> bool {
        self.reorder != ReorderRule::Off
            || self.ack_thinning > 1
            || self.pause.is_some()
            || self.has_middlebox()
            || matches!(self.loss_model, LossModel::List(_))
    }

    /// Whether a middlebox changes packets or forgets connections.
    pub fn has_middlebox(&self) -> bool {
        self.rewrite != RewriteRules::NONE || self.idle_timeout.is_some()
    }

    /// Whether the delay of this direction varies.
    fn jitters(&self, way: LinkDirection) -> bool {
        way == LinkDirection::Forward && !self.jitter.size.is_zero()
    }

    /// Whether packets of this direction are lost independently of each other or correlated.
    fn loses(&self, way: LinkDirection) -> bool {
        way == LinkDirection::Forward && self.loss > 0.0 && self.loss_model == LossModel::Bernoulli
    }

    /// The arguments of `tc` for netem in one direction: each parameter that requires some, with its
    /// arguments.
    pub fn netem(&self, way: LinkDirection) -> impl Iterator<Item = (&'static ParamSpec, String)> {
        ROWS.iter().flat_map(move |row| {
            row.linux.iter().filter_map(move |knob| match knob {
                Knob::Netem(words) => words(self, way).map(|words| (&row.spec, words)),
                _ => None,
            })
        })
    }
}

/// Formats a duration for `tc` in microseconds with three decimals, because not every version of `tc`
/// accepts `ns`.
fn time(d: Dur) -> String {
    format!("{}.{:03}us", d.as_micros(), d.as_nanos() % 1000)
}

/// netem serves a link at one rate.
fn has_one_rate(rate: &LinkRate) -> Result<(), &'static str> {
    match rate {
        LinkRate::Fixed(_) => Ok(()),
        LinkRate::Trace(_) => Err("netem has one rate; the model supports traces"),
    }
}

fn percent(p: f64) -> String {
    format!("{}%", p * 100.0)
}

/// The distributions of jitter, with the words of `tc`.
pub static DISTRIBUTIONS: Words<Distribution, 4> = Words::new([
    ("uniform", Distribution::Uniform),
    ("normal", Distribution::Normal),
    ("pareto", Distribution::Pareto),
    ("paretonormal", Distribution::ParetoNormal),
]);
static DRAWN_BY: Words<DrawnBy, 2> = Words::new([("model", DrawnBy::Model), ("netem", DrawnBy::Netem)]);

pub(super) const ROWS: &[P] = &[
    P::new(
        "link.rate",
        ValueKind::Text {
            form: "a rate, as in `1Gbit`, or `trace:<file>` (of Mahimahi: lines of `ms`, one 1500-byte opportunity each; or lines of \
                   `seconds,rate`), or `steps:<seconds>,<rate>;...` (the last step ends the cycle)",
            check: check::<LinkRate>,
        },
        "1Gbit",
        &["1Gbit", "100Mbit", "10Gbit"],
        MKH,
        "Capacity in each direction; with link.back_rate only of the forward direction",
        |l, v| put(&mut l.rate, v.parsed()),
    )
    .linux(&[Knob::Builtin(|_, l| has_one_rate(&l.rate))]),
    P::new(
        "link.back_rate",
        ValueKind::Text {
            form: "same, or a rate, as in `1Gbit`, or `trace:<file>` or `steps:<seconds>,<rate>;...` as of link.rate",
            check: check::<BackRate>,
        },
        "same",
        &["same", "10Mbit", "1Mbit"],
        MKH,
        "Capacity in the backward direction, that of ACKs; same: link.rate",
        |l, v| put(&mut l.back_rate, v.parsed::<BackRate>().map(|text| text.0)),
    )
    .linux(&[Knob::Builtin(|_, l| l.back_rate.as_ref().map_or(Ok(()), has_one_rate))]),
    P::new(
        "link.delay",
        ValueKind::DUR,
        "50us",
        &["50us", "5ms", "50ms"],
        MKH,
        "One-way delay of the path; with link.back_delay only of the forward direction",
        |l, v| put(&mut l.delay, v.dur()),
    )
    .linux(&[Knob::Netem(|l, way| {
        let delay = l.delay_of(way);
        (!delay.is_zero() || l.jitters(way)).then(|| format!("delay {}", time(delay)))
    })]),
    P::new(
        "link.back_delay",
        ValueKind::Or(&["same"], &ValueKind::DUR),
        "same",
        &["same", "1ms", "50ms"],
        MKH,
        "One-way delay of the backward direction; same: link.delay",
        |l, v| l.back_delay = v.dur(),
    ),
    P::new(
        "link.jitter",
        ValueKind::DUR,
        "0s",
        &["0s", "1ms"],
        MKH,
        "Random delay added, as netem's (plus or minus). A packet overtakes the one before it when its delay is shorter by \
         more than the time between them, so packets stay in order only if twice the jitter is less than the transmission time \
         of the shortest packet",
        |l, v| put(&mut l.jitter.size, v.dur()),
    )
    .linux(&[Knob::Netem(|l, way| l.jitters(way).then(|| time(l.jitter.size)))]),
    P::new(
        "link.jitter_correlation",
        ValueKind::Probability,
        "0",
        &["0", "25%"],
        MKH,
        "Correlation of one packet's jitter with the next",
        |l, v| put(&mut l.jitter.correlation, v.probability()),
    )
    .linux(&[Knob::Netem(|l, way| {
        (l.jitters(way) && l.jitter.correlation > 0.0).then(|| percent(l.jitter.correlation))
    })]),
    P::new(
        "link.jitter_distribution",
        ValueKind::Choice(DISTRIBUTIONS.names()),
        "uniform",
        &["uniform", "normal", "pareto"],
        MKH,
        "Distribution of the jitter, as netem's",
        |l, v| l.jitter.distribution = DISTRIBUTIONS.of(v),
    )
    .linux(&[Knob::Netem(|l, way| {
        let drawn = l.jitters(way) && l.jitter.distribution != Distribution::Uniform;
        drawn.then(|| format!("distribution {}", DISTRIBUTIONS.name_of(l.jitter.distribution)))
    })]),
    P::new(
        "link.loss",
        ValueKind::Probability,
        "0",
        &["0", "0.1%", "1%"],
        MKH,
        "Loss probability of a packet in the forward direction, from the senders",
        |l, v| put(&mut l.loss, v.probability()),
    )
    .linux(&[Knob::Netem(|l, way| l.loses(way).then(|| format!("loss {}", percent(l.loss))))]),
    P::new(
        "link.loss_correlation",
        ValueKind::Probability,
        "0",
        &["0", "25%"],
        MKH,
        "Correlation of one loss with the next",
        |l, v| put(&mut l.loss_correlation, v.probability()),
    )
    .linux(&[Knob::Netem(|l, way| (l.loses(way) && l.loss_correlation > 0.0).then(|| percent(l.loss_correlation)))]),
    P::new(
        "link.loss_model",
        ValueKind::Text {
            form: "`bernoulli`, `gilbert-elliott:<p>,<r>[,<bad>,<good>]` or `list:<n>,<n>,...`",
            check: check::<LossModel>,
        },
        "bernoulli",
        &["bernoulli", "gilbert-elliott:1%,25%", "list:100"],
        MKH,
        "Model of the losses; `list` drops exactly these data packets, counted from 1 (not on `host`)",
        |l, v| put(&mut l.loss_model, v.parsed()),
    )
    .linux(&[Knob::Netem(|l, way| match &l.loss_model {
        LossModel::GilbertElliott { p, r, bad, good } if way == LinkDirection::Forward => {
            let [p, r, bad, good] = [*p, *r, *bad, *good].map(percent);
            Some(format!("loss gemodel {p} {r} {bad} {good}"))
        }
        _ => None,
    })]),
    P::new(
        "link.ack_loss",
        ValueKind::Probability,
        "0",
        &["0", "10%"],
        MKH,
        "Loss probability of pure ACKs on the return path",
        |l, v| put(&mut l.ack_loss, v.probability()),
    )
    .linux(&[Knob::Netem(|l, way| {
        (way == LinkDirection::Backward && l.ack_loss > 0.0).then(|| format!("loss {}", percent(l.ack_loss)))
    })]),
    P::new(
        "link.ack_thinning",
        ValueKind::Int { min: 1, max: 1000 },
        "1",
        &["1", "3"],
        MK,
        "The return path forwards only the newest of this number of pure ACKs of a connection, when the last of them arrives \
         (RFC 3449 section 5.2.1); ACKs with SACK, duplicates and ACKs whose ECN flags change are not thinned",
        |l, v| put(&mut l.ack_thinning, v.int()),
    ),
    P::new(
        "link.ack_thinning_wait",
        ValueKind::Dur { min: Dur::from_micros(1), max: Dur::from_secs(1) },
        "10ms",
        &["10ms", "1ms"],
        MK,
        "The longest time for which `link.ack_thinning` holds an ACK, from the arrival of the first ACK of the group; the \
         newest is then forwarded, even if the group is not complete",
        |l, v| put(&mut l.ack_thinning_wait, v.dur()),
    ),
    P::new(
        "link.reorder",
        ValueKind::Text { form: "`off`, `<probability>:<gap>` or `reverse-burst:<n>`", check: check::<ReorderRule> },
        "off",
        &["off", "1%:5", "reverse-burst:4"],
        MK,
        "Reordering: with this probability a packet is held until `gap` others have passed it, or bursts arrive reversed; a \
         held packet is released at the latest after four times the transmission time of those packets",
        |l, v| put(&mut l.reorder, v.parsed()),
    ),
    P::new(
        "link.drawn_by",
        ValueKind::Choice(DRAWN_BY.names()),
        "model",
        &["model", "netem"],
        Substrates::K,
        "Component that decides losses, damage, duplicates and jitter on a link of a kernel: the random streams of the model, \
         so that with the same seed the same packets are lost, damaged, duplicated or delayed on both substrates (a relay, \
         which costs about 100 us of real time per packet), or netem (docs/kernel.md)",
        |l, v| l.drawn_by = DRAWN_BY.of(v),
    ),
    P::new(
        "link.duplicate",
        ValueKind::Probability,
        "0",
        &["0", "1%"],
        MKH,
        "Probability that a packet arrives twice",
        |l, v| put(&mut l.duplicate, v.probability()),
    )
    .linux(&[Knob::Netem(|l, way| {
        (way == LinkDirection::Forward && l.duplicate > 0.0).then(|| format!("duplicate {}", percent(l.duplicate)))
    })]),
    P::new(
        "link.corrupt",
        ValueKind::Probability,
        "0",
        &["0", "0.1%"],
        MKH,
        "Probability that a packet arrives damaged (the checksum drops it)",
        |l, v| put(&mut l.corrupt, v.probability()),
    )
    .linux(&[Knob::Netem(|l, way| {
        (way == LinkDirection::Forward && l.corrupt > 0.0).then(|| format!("corrupt {}", percent(l.corrupt)))
    })]),
    P::new(
        "link.policer",
        ValueKind::Text { form: "`off` or `<rate>,<burst>`", check: check::<PolicerText> },
        "off",
        &["off", "500Mbit,100KB"],
        MK,
        "Drops what exceeds a token bucket",
        |l, v| put(&mut l.policer, v.parsed::<PolicerText>().map(|text| text.0)),
    ),
    P::new(
        "link.slot",
        ValueKind::Text { form: "`off` or `<shortest>,<longest>[,<packets>]`", check: check::<Slot> },
        "off",
        &["off", "1ms,5ms"],
        MKH,
        "Bursty scheduling as on a shared radio channel: packets are sent only in slots (netem's slot)",
        |l, v| put(&mut l.slot, v.parsed::<Slot>().map(|text| text.0)),
    )
    .linux(&[Knob::Netem(|l, way| {
        let (shortest, longest, packets) = l.slot.filter(|_| way == LinkDirection::Forward)?;
        let most = if packets < u32::MAX { format!(" packets {packets}") } else { String::new() };
        Some(format!("slot {} {}{most}", time(shortest), time(longest)))
    })]),
    P::new(
        "link.pause",
        ValueKind::Text { form: "`off` or `<every>,<length>`", check: check::<PauseText> },
        "off",
        &["off", "1s,400ms"],
        MK,
        "The path pauses and loses nothing, as during a handover: at each multiple of the first time since the beginning of the \
         run no packet arrives in either direction for the second time; those that come meanwhile arrive together at its end, \
         in their order",
        |l, v| put(&mut l.pause, v.parsed::<PauseText>().map(|text| text.0)),
    ),
    P::new(
        "link.mtu",
        ValueKind::Or(&["auto"], &ValueKind::Bytes { min: Bytes::new(576), max: Bytes::new(9216) }),
        "auto",
        &["auto", "1400B"],
        MKH,
        "Largest IP packet that the link carries, in both directions; the router before it drops longer ones (all packets have DF set: RFC \
         1191); auto: no limit. A kernel drops them where it forwards: behind the queue of `queue.*` if that is before a switch's link",
        |l, v| l.mtu = v.bytes(),
    ),
    P::new(
        "link.icmp",
        ValueKind::Text { form: "`on`, `off` or `<n>/s`", check: check::<IcmpReport> },
        "on",
        &["on", "off"],
        MKH,
        "ICMP `fragmentation needed` of the router before a link with link.mtu: for each packet that is too long, never (a black hole), or at \
         most so many per second",
        |l, v| put(&mut l.icmp, v.parsed()),
    )
    .linux(&[Knob::Builtin(|_, l| match l.icmp {
        IcmpReport::PerSecond(_) => {
            Err("Linux exempts this message from its limits (icmpv4_mask_allow); the model supports a rate")
        }
        IcmpReport::Always | IcmpReport::Never => Ok(()),
    })])
    .needs("link.mtu"),
    P::new(
        "link.offload",
        ValueKind::Or(
            &["off"],
            &ValueKind::Text { form: "`gro` or `lro`, with a time of at most 100ms as in `lro:50us`", check: check::<ForwardingOffload> },
        ),
        "off",
        &["off", "gro", "lro", "lro:200us"],
        Substrates::M,
        "Receive offload of the router before the link, in both directions: segments that arrive within this time (50us) are merged up to 64 KiB; gro \
         segments them again, lro forwards what it merged, so that packets are too long for the MTU of the link (link.mtu, or that of the hosts)",
        |l, v| l.offload = v.parsed(),
    ),
    P::new(
        "link.rewrite",
        ValueKind::Text {
            form: "`none`, or `no-sack`, `no-timestamps`, `no-window-scale`, `window-scale:<n>`, `mss:<bytes>`, `no-ecn-flags`, `no-ect`, \
                   `sequence` joined by `+`",
            check: check::<RewriteRules>,
        },
        "none",
        &["none", "no-sack", "no-window-scale", "no-ect", "sequence"],
        MK,
        "A middlebox changes packets of both directions: it removes options of SYNs, sets their window scale, lowers their MSS, clears the ECN \
         flags of SYNs or the ECN field of all packets, or adds a random number to the sequence numbers of each direction and leaves SACK blocks \
         as they were. On a kernel a relay does so, as for link.drawn_by = model; in real time it would change the path that is measured",
        |l, v| put(&mut l.rewrite, v.parsed()),
    ),
    P::new(
        "link.idle_timeout",
        ValueKind::Or(&["off"], &ValueKind::Dur { min: Dur::from_millis(1), max: Dur::from_secs(86_400) }),
        "off",
        &["off", "30s"],
        MK,
        "A NAT or firewall forgets a connection after this time without a packet in either direction, and drops its later segments silently, except \
         SYNs. On a kernel a relay does so",
        |l, v| l.idle_timeout = v.dur(),
    ),
];
