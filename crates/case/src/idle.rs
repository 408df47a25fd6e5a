//! The ideal duration of a transfer on an idle path, and the row of the recording for a finished transfer.

use crate::case::Case;
use tcpassay_measure::{Completion, CompletionKind};
use tcpassay_units::{Bytes, Dur, Rate};
use tcpassay_workload::TrafficSchedule;

/// The path between two hosts without other traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlePath {
    /// Round-trip time of a full packet and its ACK.
    pub rtt: Dur,
    /// Rate of its slowest link.
    pub rate: Rate,
}

impl IdlePath {
    /// The ideal duration of a transfer: one round trip, and the transmission of `payload` in full packets
    /// at the rate of the path.
    pub fn ideal(&self, payload: Bytes) -> Dur {
        self.rtt + self.rate.time_for(payload).mul_f64(1500.0 / 1460.0)
    }
}

impl Case {
    /// The path from one host to another; `None` if they are not connected.
    pub fn idle_path(&self, from: usize, to: usize) -> Option<IdlePath> {
        let rate = self.bottleneck_rate(from, to)?;
        Some(IdlePath { rtt: self.base_rtt(from, to, self.hosts[from].mtu), rate })
    }
}

/// The row of the recording for a flow, a request or a round of `plan` that ended.
pub fn completion(
    done: &tcpassay_workload::AppCompletion,
    plan: &TrafficSchedule,
    path: Option<IdlePath>,
) -> Completion {
    let key = done.key;
    Completion {
        kind: match done.kind {
            tcpassay_workload::AppCompletionKind::Flow => CompletionKind::Flow,
            tcpassay_workload::AppCompletionKind::Rpc => CompletionKind::Rpc,
            tcpassay_workload::AppCompletionKind::Round => CompletionKind::Round,
        },
        class: plan.part(key).class.clone(),
        client: key.client.0,
        server: key.server.0,
        connection: key.index,
        request: done.request,
        response: done.response,
        start: done.start,
        end: done.end,
        ideal: path.map(|path| path.ideal(done.request + done.response)),
        ok: done.ok,
    }
}
