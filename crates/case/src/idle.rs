//! What a transfer would take were it alone, and the recording's row of one that ended.

use crate::case::Case;
use tcpassay_measure::{Completion, CompletionKind};
use tcpassay_units::{Bytes, Dur, Rate};
use tcpassay_workload::TrafficSchedule;

/// The path between two hosts when nothing else is on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlePath {
    /// Round-trip time of a full packet and its ACK.
    pub rtt: Dur,
    /// Of its slowest link.
    pub rate: Rate,
}

impl IdlePath {
    /// One round trip, and `payload` at the rate of the path, with the headers of full packets.
    pub fn ideal(&self, payload: Bytes) -> Dur {
        self.rtt + self.rate.time_for(payload).mul_f64(1500.0 / 1460.0)
    }
}

impl Case {
    /// The path from one host to another; `None` when there is none.
    pub fn idle_path(&self, from: usize, to: usize) -> Option<IdlePath> {
        let rate = self.bottleneck_rate(from, to)?;
        Some(IdlePath { rtt: self.base_rtt(from, to, self.hosts[from].mtu), rate })
    }
}

/// What the recording says of a flow, a request or a round of `plan` that ended.
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
