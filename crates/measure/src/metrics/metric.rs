//! What the declaration of a metric says.

use super::context::MetricContext;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// One metric.
pub struct Metric {
    /// The name in plans, tables and JSON.
    pub name: &'static str,
    /// The unit: `s`, `bit/s`, `B`, `1` for a ratio, or the counted item.
    pub unit: &'static str,
    /// Which way is good.
    pub direction: Direction,
    /// The exact definition.
    pub doc: &'static str,
    /// The function that computes the metric.
    pub(super) of: Compute,
}

/// Which way of a metric is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Direction {
    /// A higher value is better.
    Higher,
    /// A lower value is better.
    Lower,
    /// A difference is no improvement and no regression.
    Neither,
}

/// How a metric is computed.
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
