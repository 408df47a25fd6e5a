//! The first interface for controllers, [`Controller`], and the parameters from which controllers are created.

use crate::event::{Control, Event, View};
use std::collections::BTreeMap;
use std::fmt;
use tcpassay_units::{Seed, Stream};

/// A congestion controller that receives every event.
///
/// `on` is a pure function of the state, the view and the event. It uses no clock and no environment; random numbers
/// come only from the stream in [`Params`]. A clone is an independent controller in the same state.
pub trait Controller: fmt::Debug + Send {
    /// The name for [`build`](crate::build), as in `"reno"`.
    fn name(&self) -> &'static str;

    /// Processes an event. The result replaces the current control completely.
    fn on(&mut self, view: &View, event: &Event) -> Control;

    /// An ACK was counted (Linux `in_ack_event`). The events that follow from it come after this call.
    fn counted(&mut self, _count: &AckCount) {}

    /// Whether [`Controller::counted`] does anything.
    fn wants_counts(&self) -> bool {
        false
    }

    /// Named internal variables for recordings (`("alpha", 0.06)`), windows in bytes and times in seconds; empty when
    /// there are none.
    fn internals(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// DCTCP's estimate of the share of marked bytes (RFC 8257 section 3.3); `None` for other controllers.
    /// [`Controller::internals`] contains it, too; this function avoids the vector, because series sample each
    /// connection in each interval.
    fn alpha(&self) -> Option<f64> {
        None
    }

    /// The transmissions for which [`Event::Sent`] can change the state; the sender omits the others.
    fn wants_sent_events(&self) -> Transmissions {
        Transmissions::All
    }

    /// Whether the window applies in every congestion state, so that the controller decides also while losses are repaired (Linux
    /// `cong_control`). Then there are no rules of the data path (PRR, the window of RFC 6582, restart after idle), and
    /// [`Event::Resume`] does not occur.
    fn governs_recovery(&self) -> bool {
        false
    }

    /// An independent copy in the same state.
    fn boxed_clone(&self) -> Box<dyn Controller>;
}

/// What an ACK delivers, before the sender decides anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckCount {
    /// Position of the stream up to which everything is acknowledged.
    pub acked: u64,
    /// Position up to which data were sent.
    pub sent: u64,
    /// Packets newly delivered, also by SACK.
    pub packets: u64,
    /// The ACK reports marks.
    pub marked: bool,
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// The transmissions of which a controller is notified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmissions {
    /// None.
    None,
    /// Those with nothing in flight before.
    IntoEmptyPath,
    /// All.
    All,
}

/// How slow start counts acknowledged bytes (the parameter `stack.abc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteCounting {
    /// One MSS per ACK, the maximum of RFC 5681 section 3.1 without RFC 3465; a delayed ACK counts once.
    PerAck,
    /// Appropriate byte counting with a limit of `n` MSS per ACK (RFC 3465; L = 2).
    Limit(u32),
    /// All acknowledged bytes (Linux since 3.13; RFC 9406 recommends this with pacing).
    #[default]
    All,
}

/// The algorithm that ends the first slow start before a loss (the parameter `stack.hystart`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HystartMode {
    /// None: slow start continues until ssthresh or a loss.
    #[default]
    Off,
    /// HyStart++ (RFC 9406), for every controller based on [`Windowed`](crate::Windowed).
    PlusPlus,
    /// HyStart as in Linux's CUBIC; other controllers ignore it.
    Linux(HystartDetect),
}

/// The enabled detections of HyStart (`hystart_detect`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HystartDetect {
    /// Detection by the length of ACK trains.
    pub train: bool,
    /// Detection by the increase of the round-trip time.
    pub delay: bool,
}

impl HystartDetect {
    /// Linux's default.
    pub const ALL: HystartDetect = HystartDetect { train: true, delay: true };
}

/// The arithmetic of a controller where its RFC, Linux and FreeBSD differ (the parameter `stack.cc_arithmetic`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arithmetic {
    /// As in the RFC: bytes and nanoseconds.
    #[default]
    Rfc,
    /// As in Linux: whole segments and milliseconds. CUBIC, DCTCP, Reno and Vegas (microseconds) have this variant.
    Linux,
    /// As in FreeBSD 14: a reduction, also one caused by marks, leaves at least two segments; Reno's windows are
    /// whole segments; CUBIC's first reduction halves the window; slow start includes the window equal to ssthresh,
    /// and its last ACK may exceed ssthresh (`newreno_cong_signal`, `newreno_ack_received`, `cubic_ssthresh_update`).
    FreeBsd,
}

/// The parameters from which a controller is created.
#[derive(Clone, Debug)]
pub struct Params {
    /// Parameters of the controller by name (`stack.cc.<name>`), such as `beta = 0.7`. The others have their
    /// defaults.
    pub values: BTreeMap<String, f64>,
    /// Byte counting in slow start.
    pub byte_counting: ByteCounting,
    /// The algorithm that ends the first slow start before a loss.
    pub hystart: HystartMode,
    /// The variant of the arithmetic.
    pub arithmetic: Arithmetic,
    /// The random stream of the controller.
    pub rng: Stream,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            values: BTreeMap::new(),
            byte_counting: ByteCounting::default(),
            hystart: HystartMode::Off,
            arithmetic: Arithmetic::Rfc,
            rng: Seed(0).stream("cc"),
        }
    }
}

/// A parameter of a controller, for the parameter table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ParamInfo {
    /// Name under `stack.cc.`.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Smallest and largest allowed value, inclusive.
    pub range: (f64, f64),
    /// Description in one line.
    pub doc: &'static str,
    /// The corresponding parameter or constant of Linux's controller of the same name.
    pub linux: LinuxParam,
}

/// The counterpart of a parameter in Linux's controller of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinuxParam {
    /// A parameter of the controller's module.
    Module {
        /// The file below `/sys/module`.
        file: &'static str,
        /// The form of its value.
        form: ModuleValue,
    },
    /// A constant of the kernel, with the reason why it cannot be changed.
    Constant(&'static str),
    /// Linux has no counterpart.
    Absent,
}

/// The form of a parameter of a module of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModuleValue {
    /// A share in 1/1024, rounded.
    Per1024,
    /// `0` for zero, `1` for any other value.
    Switch,
    /// Whole packets.
    Packets,
    /// The exponent `n` of 2 to the power of `-n`, up to 10.
    Shift,
}

impl ModuleValue {
    /// The text to write for a value.
    ///
    /// # Errors
    ///
    /// The values that Linux accepts, if it does not accept this one.
    pub fn text(self, value: f64) -> Result<String, &'static str> {
        match self {
            ModuleValue::Per1024 => Ok(format!("{:.0}", (value * 1024.0).round())),
            ModuleValue::Switch => Ok(u8::from(value != 0.0).to_string()),
            ModuleValue::Packets if value.fract() == 0.0 => Ok(format!("{value:.0}")),
            ModuleValue::Packets => Err("Linux takes whole packets"),
            ModuleValue::Shift => (0..=10)
                .find(|shift| 0.5_f64.powi(*shift).to_bits() == value.to_bits())
                .map(|shift| shift.to_string())
                .ok_or("Linux takes powers of two, 1 to 1/1024 (dctcp_shift_g)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_in_the_form_of_the_module() {
        for (form, value, text) in [
            (ModuleValue::Per1024, 0.7, "717"),
            (ModuleValue::Per1024, 0.5, "512"),
            (ModuleValue::Switch, 1.0, "1"),
            (ModuleValue::Switch, 0.0, "0"),
            (ModuleValue::Packets, 6.0, "6"),
            (ModuleValue::Shift, 0.0625, "4"),
            (ModuleValue::Shift, 1.0, "0"),
        ] {
            assert_eq!(form.text(value).as_deref(), Ok(text), "{form:?}");
        }
    }

    #[test]
    fn a_value_that_the_module_does_not_take_is_an_error() {
        assert_eq!(ModuleValue::Packets.text(1.5), Err("Linux takes whole packets"));
        assert_eq!(
            ModuleValue::Shift.text(0.1),
            Err("Linux takes powers of two, 1 to 1/1024 (dctcp_shift_g)")
        );
    }
}
