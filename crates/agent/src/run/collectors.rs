//! The collectors that the event loop reads: taps, trace events, queues, sockets.

use crate::collect::inet_diag::InetDiag;
use crate::collect::queues::QueueMonitor;
use crate::collect::trace_events::KernelTrace;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use crate::traffic::runtime::TrafficRuntime;
use tcpassay_units::{Dur, Time};

/// The longest interval at which the collectors are read.
pub const TICK: Dur = Dur::from_millis(1);

/// All collectors of a run.
pub struct Collectors<'a> {
    /// The start of the run by the kernel's clock, in nanoseconds.
    pub start: u64,
    pub topology: &'a NetnsTopology,
    pub trace: KernelTrace,
    pub queues: QueueMonitor,
    pub inet_diag: InetDiag,
}

impl Collectors<'_> {
    /// Reads the counters at the start of the traffic, from which the recording counts.
    pub fn start(&mut self, runtime: &mut TrafficRuntime) -> Result<(), Failure> {
        self.queues.start(self.topology, &mut runtime.namespaces)
    }

    /// Reads the trace events since the last call.
    pub fn read_trace(&mut self, runtime: &mut TrafficRuntime) {
        let until = runtime.taps.complete_until();
        self.trace.drain((self.start, until), &runtime.flow_tracker, &mut runtime.collector);
    }

    /// Reads everything that is read at a tick, which is due at `at`.
    pub fn sample(&mut self, at: Time, runtime: &mut TrafficRuntime) -> Result<(), Failure> {
        runtime.read_packets();
        self.read_trace(runtime);
        if let (true, Some(interval)) = (at > Time::ZERO, runtime.collector.collect().series) {
            runtime.sample(at);
            self.queues.sample(self.topology, &mut runtime.namespaces)?;
            self.inet_diag.sample(
                self.topology,
                (at, interval),
                &mut runtime.namespaces,
                &runtime.flow_tracker,
                &mut runtime.new_sockets,
            )?;
        }
        Ok(())
    }
}
