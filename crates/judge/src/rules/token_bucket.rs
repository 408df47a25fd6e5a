//! What leaves a token bucket: its rate and, in addition, its depth (tc-tbf(8), RFC 2697 section 3).

use super::names::BOUNDS as NAME;
use crate::facts::HEADERS;
use crate::finding::Findings;
use crate::step::{Context, Step};
use std::collections::BTreeMap;
use tcpassay_case::QueueKind;
use tcpassay_measure::EventKind;
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// The largest super-segment, which passes as a whole.
const SUPER_SEGMENT: u64 = 65_536;

/// The bucket of a path, as the arrivals behind it show it.
#[derive(Clone, Copy, Debug)]
struct Meter {
    rate: Rate,
    depth: u64,
    tokens: u64,
    at: Time,
}

/// For each path, by its hosts, a meter if it has a single shaper.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenBucket {
    meters: BTreeMap<(u32, u32), Option<Meter>>,
}

fn meter(context: &Context<'_>, from: u32, to: u32) -> Option<Meter> {
    let facts = context.facts?;
    let links = facts.links(from, to)?;
    let shaper = |queue: &&tcpassay_case::params::QueueSettings| {
        matches!(queue.kind, QueueKind::Tbf | QueueKind::Htb) && queue.classes <= 1
    };
    let mut shapers = links.iter().map(|link| &link.queue).filter(shaper);
    let (queue, None) = (shapers.next()?, shapers.next()) else { return None };
    let (rate, nic) = (queue.rate?, &facts.host(to)?.nic);
    // What holds packets behind the bucket lets them arrive together.
    let steady = |link: &&&tcpassay_case::params::LinkSettings| {
        link.jitter.size.is_zero() && link.slot.is_none() && link.pause.is_none() && link.duplicate <= 0.0
    };
    if !links.iter().all(|link| steady(&link))
        || nic.adaptive != tcpassay_case::params::Adaptive::Off
        || from != 0
    {
        return None;
    }
    let held = nic.rx_delay + nic.gro_timeout + nic.rx_cost * 64 + Dur::from_millis(1);
    let burst = queue.burst.map_or(0, Bytes::get).max(rate.bytes_in(Dur::from_millis(1)).get());
    let depth =
        burst.max(10 * (facts.host(from)?.mtu.get() + HEADERS)) + rate.bytes_in(held).get() + SUPER_SEGMENT;
    Some(Meter { rate, depth, tokens: depth, at: Time::ZERO })
}

impl TokenBucket {
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if step.event.kind != EventKind::In || step.len() == 0 || !context.in_virtual_time() {
            return;
        }
        let flow = &context.recording.flows[step.peer];
        let path = (flow.from, flow.to);
        let known = self.meters.entry(path).or_insert_with(|| meter(context, path.0, path.1));
        let Some(meter) = known else { return };
        let earned = meter.rate.bytes_in(step.at().since(meter.at)).get();
        meter.tokens = meter.depth.min(meter.tokens.saturating_add(earned));
        meter.at = step.at();
        if let Some(left) = meter.tokens.checked_sub(step.len()) {
            meter.tokens = left;
            return;
        }
        let Meter { rate, depth, .. } = *meter;
        meter.tokens = depth;
        found.add(step.of_receiver(context, NAME, "more than the token bucket lets pass"), || {
            format!(
                "Up to now {} bytes in a row arrived at {} faster than {rate} and more than {depth}, the depth of the bucket of this path with \
                 everything that may hold packets behind it.", step.len(), context.who(step.flow)
            )
        });
    }
}
