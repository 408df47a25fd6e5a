//! The counters of the queues that the recording contains.

use crate::netns::build::{MarkingProgram, NetnsSet};
use crate::netns::topology::{MonitoredQueue, NetnsTopology};
use crate::system::Failure;
use tcpassay_linux::netlink::{Netlink, Qdisc};
use tcpassay_linux::sys;
use tcpassay_measure::{EntitySeries, SeriesColumn};
use tcpassay_units::Dur;

/// What the queues say at every tick. Counters begin at the start of the run: probes do not count.
pub struct QueueMonitor {
    sockets: Vec<(usize, i32, Netlink)>,
    steps: Vec<MarkingProgram>,
    pub before: Vec<Qdisc>,
    /// What was dropped elsewhere before the start.
    pub before_elsewhere: u64,
    last: Vec<[u64; 3]>,
    columns: Vec<[Vec<f64>; 4]>,
    /// What waited at the last look.
    waiting: Vec<u64>,
    pub most: std::collections::BTreeMap<String, u64>,
    series: bool,
}

impl QueueMonitor {
    pub fn new(topology: &NetnsTopology, steps: Vec<MarkingProgram>, series: Option<Dur>) -> QueueMonitor {
        let n = topology.monitored.len();
        QueueMonitor {
            sockets: Vec::new(),
            steps,
            before: Vec::new(),
            before_elsewhere: 0,
            last: vec![[0; 3]; n],
            columns: vec![Default::default(); n],
            waiting: vec![0; n],
            most: std::collections::BTreeMap::new(),
            series: series.is_some(),
        }
    }

    /// The counters of every monitored queue since the start.
    pub fn read(
        &mut self,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<Vec<Qdisc>, Failure> {
        let io = |e: std::io::Error| format!("qdiscs: {e}");
        if self.sockets.is_empty() {
            for monitored in &topology.monitored {
                let dev = &topology.devices[monitored.dev];
                namespaces.enter(dev.netns)?;
                let index = sys::interface_index(&dev.name).map_err(io)?;
                self.sockets.push((dev.netns, index, Netlink::open().map_err(io)?));
            }
        }
        let mut all = Vec::new();
        for ((_, index, netlink), monitored) in self.sockets.iter().zip(&topology.monitored) {
            let found = netlink.qdiscs().map_err(io)?;
            let of = found.into_iter().find(|q| q.interface == *index && q.handle == monitored.handle);
            let mut of = of.ok_or_else(|| format!("the qdisc of {} is gone", monitored.name))?;
            for step in self.steps.iter().filter(|step| step.dev == monitored.dev) {
                of.marks += step.marks()?;
            }
            all.push(of);
        }
        for (q, before) in all.iter_mut().zip(&self.before) {
            q.bytes -= before.bytes;
            q.packets -= before.packets;
            q.drops -= before.drops;
            q.marks -= before.marks;
        }
        Ok(all)
    }

    /// Packets that qdiscs other than the monitored dropped since the machine was built: wires, NICs, policers.
    pub fn dropped_elsewhere(topology: &NetnsTopology, namespaces: &mut NetnsSet) -> Result<u64, Failure> {
        let io = |e: std::io::Error| format!("qdiscs: {e}");
        let mut drops = 0;
        for netns in 0..topology.namespaces.len() {
            namespaces.enter(netns)?;
            let devices = topology.devices.iter().enumerate().filter(|(_, dev)| dev.netns == netns);
            let mut indices = Vec::new();
            for (at, dev) in devices {
                let monitored = topology.monitored.iter().any(|monitored| monitored.dev == at);
                // What a relay takes is dropped behind it (`relay`).
                let relayed = topology.relayed.iter().any(|relayed| relayed.from == at);
                indices.push((sys::interface_index(&dev.name).map_err(io)?, monitored, relayed));
            }
            for q in Netlink::open().and_then(|n| n.qdiscs()).map_err(io)? {
                let counts = indices.iter().any(|(index, monitored, relayed)| {
                    q.interface == *index && (q.is_root && !monitored || q.kind == "clsact" && !relayed)
                });
                drops += if counts { q.drops } else { 0 };
            }
        }
        Ok(drops)
    }

    pub fn sample(&mut self, topology: &NetnsTopology, namespaces: &mut NetnsSet) -> Result<(), Failure> {
        let all = self.read(topology, namespaces)?;
        for (i, (q, monitored)) in all.iter().zip(&topology.monitored).enumerate() {
            let present = [q.bytes, q.drops, q.marks];
            for (k, column) in self.columns[i].iter_mut().take(3).enumerate() {
                column.push(float(present[k] - self.last[i][k]));
            }
            // What waited when the interval began, or waits now; a peak between two looks is not seen.
            self.columns[i][3].push(float(q.backlog.max(std::mem::replace(&mut self.waiting[i], q.backlog))));
            self.last[i] = present;
            let most = self.most.entry(monitored.name.clone()).or_default();
            *most = (*most).max(q.backlog);
        }
        Ok(())
    }

    pub fn entities(&self, topology: &NetnsTopology) -> Vec<EntitySeries> {
        let names = ["out_bytes", "drops", "marks", "max_backlog_bytes"];
        let of = |(monitored, columns): (&MonitoredQueue, &[Vec<f64>; 4])| EntitySeries {
            entity: monitored.name.clone(),
            first: 0,
            columns: names
                .into_iter()
                .zip(columns)
                .map(|(name, values)| SeriesColumn { name: name.to_owned(), values: values.clone() })
                .collect(),
        };
        if !self.series {
            return Vec::new();
        }
        topology.monitored.iter().zip(&self.columns).map(of).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of an interval are below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}
