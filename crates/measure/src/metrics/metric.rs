//! The declaration of a metric.

use super::context::MetricContext;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// One metric.
pub struct Metric {
    /// The name in plans, tables and JSON.
    pub name: &'static str,
    /// The unit: `s`, `bit/s`, `B`, `1` for a ratio, or the counted item.
    pub unit: &'static str,
    /// Whether higher or lower values are better.
    pub direction: Direction,
    /// The exact definition.
    pub doc: &'static str,
    /// The function that computes the metric.
    pub(super) of: Compute,
}

/// Whether higher or lower values of a metric are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Direction {
    /// A higher value is better.
    Higher,
    /// A lower value is better.
    Lower,
    /// A difference is neither an improvement nor a regression.
    Neither,
}

/// The function that computes a metric; `None` if the recording has no data for it.
pub(super) type Compute = fn(&MetricContext<'_>) -> Option<f64>;

pub(super) const fn higher(name: &'static str, unit: &'static str, doc: &'static str, of: Compute) -> Metric {
    Metric { name, unit, direction: Direction::Higher, doc, of }
}

pub(super) const fn lower(name: &'static str, unit: &'static str, doc: &'static str, of: Compute) -> Metric {
    Metric { name, unit, direction: Direction::Lower, doc, of }
}

pub(super) const fn neither(
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
    of: Compute,
) -> Metric {
    Metric { name, unit, direction: Direction::Neither, doc, of }
}
