//! Construction of the random impairments of a link.

use crate::element::{CorruptSpec, DuplicateSpec, JitterSpec, LossSpec, PacketFilter};
use tcpassay_case::LinkSettings;
use tcpassay_case::draws::{self, LossProcess};
use tcpassay_units::Dur;

pub(super) fn loss(link: &LinkSettings) -> Option<LossSpec> {
    let model = draws::losses(link)?;
    let which = if matches!(model, LossProcess::List(_)) { PacketFilter::Data } else { PacketFilter::All };
    Some(LossSpec { model, which })
}

pub(super) fn ack_loss(link: &LinkSettings) -> Option<LossSpec> {
    draws::ack_losses(link).map(|model| LossSpec { model, which: PacketFilter::PureAcks })
}

pub(super) fn corrupt(link: &LinkSettings) -> Option<CorruptSpec> {
    (link.corrupt > 0.0).then_some(CorruptSpec { probability: link.corrupt })
}

pub(super) fn duplicate(link: &LinkSettings) -> Option<DuplicateSpec> {
    (link.duplicate > 0.0).then_some(DuplicateSpec { probability: link.duplicate })
}

/// The element that delays packets of a link with jitter, instead of the wire.
pub(super) fn jitter(link: &LinkSettings) -> Option<JitterSpec> {
    (link.jitter.size > Dur::ZERO).then_some(JitterSpec {
        delay: link.delay,
        jitter: link.jitter.size,
        correlation: link.jitter.correlation,
        distribution: link.jitter.distribution,
        keep_order: false,
    })
}
