//! The controllers of `cc` on a real Linux sender, in the manner of CCP: a BPF `tcp_congestion_ops` is the data path, the decision is
//! made here, by the code that decides in the model.
//!
//! [`Shim::start`] registers the kernel's side under a name for `TCP_CONGESTION` and starts a thread that reads its records, asks a
//! controller for each connection, and writes back what it decides. Dropping the [`Shim`] takes the name away.
//!
//! Several run side by side, each with a name, a program and a thread of its own.

#[cfg(feature = "bpf")]
mod run;
#[cfg(feature = "bpf")]
mod sys;

use crate::{Connection, Decision, Error, Record};
use hdrhistogram::Histogram;
use tcpassay_cc::{Params, build};
use tcpassay_units::{Dur, Seed};

/// Arguments of `cong_control` in the kernel's `struct tcp_congestion_ops` that the shim needs: Linux 6.10 gave it the ACK's
/// number and its flags beside the rate sample.
#[cfg(any(feature = "bpf", test))]
const ARGUMENTS: usize = 4;

/// Whether the shim can run here: BPF can be used, and the kernel tells its controllers enough. Object files may do with less.
///
/// # Errors
///
/// What is missing, and how to get it.
pub fn available() -> Result<(), Error> {
    crate::available()?;
    #[cfg(feature = "bpf")]
    tells_enough(crate::load::arguments_of("cong_control"))?;
    Ok(())
}

#[cfg(any(feature = "bpf", test))]
fn tells_enough(arguments: Option<usize>) -> Result<(), Error> {
    if arguments.is_some_and(|n| n >= ARGUMENTS) {
        return Ok(());
    }
    Err(Error::Missing {
        what: "what the shim is told of each ACK (tcp_congestion_ops.cong_control with four arguments)",
        remedy: "Linux 6.10 or newer; the kernel's own controllers work, and BPF object files that it takes",
    })
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The controller, by its name in `cc`.
    pub controller: String,
    /// Its parameters. Each connection has dice of its own, drawn from these.
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
        params.dice = Seed(u64::from(params.dice.bits32())).stream(&format!("connection {id}"));
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

/// A controller of `cc` in the kernel's list.
#[derive(Debug)]
pub struct Shim {
    name: String,
    #[cfg(feature = "bpf")]
    inner: run::Running,
}

impl Shim {
    /// Registers it and starts deciding.
    ///
    /// # Errors
    ///
    /// BPF is not available; there is no such controller; or the kernel refuses (no right, too old, the name is taken).
    pub fn start(spec: &Spec) -> Result<Shim, Error> {
        available()?;
        spec.check()?;
        #[cfg(feature = "bpf")]
        return Ok(Shim { name: spec.kernel_name(), inner: run::Running::start(spec)? });
        #[cfg(not(feature = "bpf"))]
        Err(Error::NotBuilt)
    }

    /// The name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the name away, waits for the records that are there, and says what was done. Sockets that still have it keep the last window
    /// that was decided, and the rules that the data path has of its own.
    ///
    /// # Errors
    ///
    /// The thread could not read or write what the kernel shares with it.
    pub fn stop(self) -> Result<Outcome, Error> {
        #[cfg(feature = "bpf")]
        return self.inner.stop();
        #[cfg(not(feature = "bpf"))]
        Err(Error::NotBuilt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_tells_too_little_of_an_ack_is_refused_with_the_version_that_does() {
        for arguments in [None, Some(2)] {
            let error = tells_enough(arguments).unwrap_err().to_string();
            assert!(error.contains("cong_control") && error.contains("Linux 6.10 or newer"), "{error}");
        }
        assert!(tells_enough(Some(4)).is_ok());
    }
}
