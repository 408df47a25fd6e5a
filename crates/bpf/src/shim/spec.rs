//! What a shim runs, and what it has done.

use crate::{Connection, Decision, Error, Record};
use hdrhistogram::Histogram;
use tcpassay_cc::{Params, build};
use tcpassay_units::{Dur, Seed};

/// What to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The controller, by its name in `cc`.
    pub controller: String,
    /// Its parameters. Each connection has a random stream of its own, seeded from this one.
    pub params: Params,
    /// The kernel's name for it, at most 15 bytes; `ta_` and the controller's when none is given.
    pub name: Option<String>,
    /// Whether sockets that have it negotiate ECN without being asked, and receivers answer each change of the mark at once (DCTCP).
    pub dctcp_ecn: bool,
    /// Whether the thread spins instead of sleeping until a record comes: the answers are sooner, and a processor is busy.
    pub spin: bool,
    /// Bytes of the ring, a power of two of at least 4096; a record takes 136.
    pub ring: u32,
    /// Keep every record and decision, for [`Outcome::trace`].
    pub trace: bool,
}

impl Spec {
    /// The controller with its defaults; ECN as DCTCP has it for `dctcp` alone.
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

    /// The name for `TCP_CONGESTION`.
    pub fn kernel_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("ta_{}", self.controller))
    }

    /// # Errors
    ///
    /// No such controller, a parameter that it has not, or a name that the kernel cannot hold.
    pub fn check(&self) -> Result<(), Error> {
        build(&self.controller, &self.params).map_err(|e| Error::Controller(e.to_string()))?;
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

    /// The connection that the shim calls `id`, at its beginning: what replays a trace. `tick` is [`Outcome::tick`].
    ///
    /// # Panics
    ///
    /// Where [`Spec::check`] has an error.
    pub fn connection(&self, id: u32, tick: Dur) -> Connection {
        let mut params = self.params.clone();
        params.rng = Seed(u64::from(params.rng.bits32())).stream(&format!("connection {id}"));
        Connection::new(build(&self.controller, &params).expect("the controller is checked"), tick)
    }
}

/// A record, and what was decided on it.
pub type Traced = (Record, Option<Decision>);

/// What a shim has done.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kernel's tick (1/HZ).
    pub tick: Dur,
    /// Connections that had it.
    pub connections: u64,
    /// Records read.
    pub records: u64,
    /// Records for which the ring had no room: what the controllers never learned.
    pub lost: u64,
    /// Decisions made.
    pub decided: u64,
    /// Decisions written: one that another has overtaken in the same look at the ring is not.
    pub written: u64,
    /// Decisions that a socket is known to have followed; the others were overtaken before its next ACK, or it had no more.
    pub applied: u64,
    /// Windows below one segment that a controller asked for.
    pub clamps: u64,
    /// Nanoseconds from the event in the kernel to the decision written.
    pub latency: Histogram<u64>,
    /// CPU time of the thread, seconds.
    pub cpu: f64,
    /// Every record and decision in the order in which they were read, when asked for.
    pub trace: Vec<Traced>,
}
