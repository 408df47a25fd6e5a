//! Types, kinds and substrates that rows in several modules use.

use crate::params::host::HostSettings;
use crate::params::kind::ValueKind;
use crate::params::row::Row;
use crate::params::spec::Substrates;
use tcpassay_units::Dur;

pub(super) type P = Row<HostSettings>;
pub(super) const MKH: Substrates = Substrates::MKH;
pub(super) const MK: Substrates = Substrates::MK;
pub(super) const M: Substrates = Substrates::M;

pub(super) const PROFILE: &[&str] = &["profile"];
pub(super) const ON_OFF: &[&str] = &["profile", "off", "on"];
const TIME: ValueKind = ValueKind::Dur { min: Dur::from_micros(1), max: Dur::from_secs(3600) };
pub(super) const TIME_OR_PROFILE: ValueKind = ValueKind::Or(PROFILE, &TIME);
