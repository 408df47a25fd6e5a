//! The settings of a shim and its counts.

use crate::{ControlledConnection, Decision, Error, Record};
use hdrhistogram::Histogram;
use tcpassay_cc::{Params, build, window_based};
use tcpassay_units::{Dur, Seed};

/// The settings of a shim.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The controller, by its name in `cc`.
    pub controller: String,
    /// Its parameters. Each connection has a random stream of its own, derived from theirs.
    pub params: Params,
    /// The name in the kernel, at most 15 bytes. The default is `ta_` followed by the name of the controller.
    pub name: Option<String>,
    /// Sockets negotiate ECN without a setting of their own, and receivers acknowledge each change of the CE mark at once (DCTCP).
    pub dctcp_ecn: bool,
    /// The thread polls instead of sleeping: decisions are faster, and one processor is always busy.
    pub spin: bool,
    /// The size of the ring in bytes, a power of two of at least 4096. A record takes 136 bytes.
    pub ring: u32,
    /// All records and decisions are kept for [`ShimCounts::trace`].
    pub trace: bool,
}

impl Spec {
    /// A controller with default settings; `dctcp_ecn` is set for `dctcp`.
    pub fn new(controller: &str) -> Spec {
        Spec {
            controller: controller.to_owned(),
            params: Params::default(),
            name: None,
            dctcp_ecn: controller == "dctcp",
            spin: false,
            ring: 4 << 20,
            trace: false,
        }
    }

    /// The name in the kernel, for `TCP_CONGESTION`.
    pub fn kernel_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("ta_{}", self.controller))
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// The controller or a parameter does not exist, the name is invalid in the kernel, or the ring has an invalid size.
    pub fn check(&self) -> Result<(), Error> {
        let controller =
            build(&self.controller, &self.params).map_err(|e| Error::Controller(e.to_string()))?;
        if controller.governs_recovery() {
            return Err(Error::Controller(format!(
                "`{}` also decides while losses are repaired, which the shim leaves to the kernel; allowed are {}",
                self.controller,
                window_based().join(", ")
            )));
        }
        let name = self.kernel_name();
        if name.is_empty() || name.len() > 15 || !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Error::Controller(format!(
                "`{name}` cannot be the name of a controller in the kernel; allowed are 1 to 15 printable characters"
            )));
        }
        if !self.ring.is_power_of_two() || self.ring < 4096 {
            let why = format!("a ring of {} bytes; allowed are powers of two from 4096", self.ring);
            return Err(Error::Controller(why));
        }
        Ok(())
    }

    /// A new connection with the number `id`, as the shim creates it; used to replay a trace. `tick` is [`ShimCounts::tick`].
    ///
    /// # Panics
    ///
    /// If [`Spec::check`] fails.
    pub fn connection(&self, id: u32, tick: Dur) -> ControlledConnection {
        let mut params = self.params.clone();
        params.rng = Seed(u64::from(params.rng.bits32())).stream(&format!("connection {id}"));
        ControlledConnection::new(build(&self.controller, &params).expect("the controller is checked"), tick)
    }
}

/// A record, and the decision that it caused.
pub type Traced = (Record, Option<Decision>);

/// The counts of a shim.
#[derive(Clone, Debug)]
pub struct ShimCounts {
    /// The kernel's tick (1/HZ).
    pub tick: Dur,
    /// Connections that used the controller.
    pub connections: u64,
    /// Records read.
    pub records: u64,
    /// Records that were lost because the ring was full.
    pub lost: u64,
    /// Decisions made.
    pub decided: u64,
    /// Decisions written. A decision is not written if a later record of the same batch caused another one.
    pub written: u64,
    /// Decisions that a socket has applied. The others were replaced before the next ACK, or no ACK followed.
    pub applied: u64,
    /// Number of times that a controller requested a window below one segment.
    pub clamps: u64,
    /// Time from the event in the kernel to the written decision, in nanoseconds.
    pub latency: Histogram<u64>,
    /// CPU time of the thread in seconds.
    pub cpu: f64,
    /// All records and decisions in the order of reading, if [`Spec::trace`] is set.
    pub trace: Vec<Traced>,
}
