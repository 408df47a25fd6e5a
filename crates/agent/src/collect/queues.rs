//! The counters of the queues that the recording contains.

use crate::netns::ack_marks::AckMarks;
use crate::netns::build::{MarkingProgram, NetnsSet};
use crate::netns::topology::{MonitoredQueue, NetnsTopology};
use crate::system::Failure;
use std::collections::BTreeMap;
use std::io;
use tcpassay_case::QueueKind;
use tcpassay_linux::netlink::{Netlink, Qdisc};
use tcpassay_measure::{DeviceSampler, EntitySeries};
use tcpassay_units::Dur;

/// The counters of the monitored queues. They begin at the start of the traffic: the probes of the path do not count.
pub struct QueueMonitor {
    /// For each monitored queue: its interface, and a netlink socket of its namespace.
    sockets: Vec<(i32, Netlink)>,
    marking_programs: Vec<MarkingProgram>,
    ack_marks: Vec<AckMarks>,
    /// The counters at the start of the traffic.
    at_start: Vec<Qdisc>,
    /// The packets that other queues had dropped at the start of the traffic.
    elsewhere_at_start: u64,
    samplers: Vec<DeviceSampler>,
    /// The largest backlog of each queue at a tick, by its name, in bytes.
    pub max_backlog: BTreeMap<String, u64>,
    /// The series of the recording contains queues.
    series: bool,
}

impl QueueMonitor {
    /// A monitor of the queues of a topology that was built.
    pub fn new(
        topology: &NetnsTopology,
        marking_programs: Vec<MarkingProgram>,
        ack_marks: Vec<AckMarks>,
        series: Option<Dur>,
    ) -> QueueMonitor {
        QueueMonitor {
            sockets: Vec::new(),
            marking_programs,
            ack_marks,
            at_start: Vec::new(),
            elsewhere_at_start: 0,
            samplers: vec![DeviceSampler::default(); topology.monitored.len()],
            max_backlog: BTreeMap::new(),
            series: series.is_some(),
        }
    }

    /// Reads the counters at the start of the traffic.
    pub fn start(&mut self, topology: &NetnsTopology, namespaces: &mut NetnsSet) -> Result<(), Failure> {
        self.at_start = self.read(topology, namespaces)?;
        self.elsewhere_at_start = all_dropped_elsewhere(topology, namespaces)?;
        Ok(())
    }

    /// The counters of every monitored queue since the start of the traffic.
    pub fn read(
        &mut self,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<Vec<Qdisc>, Failure> {
        if self.sockets.is_empty() {
            for monitored in &topology.monitored {
                let device = &topology.devices[monitored.dev];
                namespaces.enter(device.netns)?;
                let netlink = Netlink::open().map_err(|e| qdisc_error(&e))?;
                let index = netlink.interface_index(&device.name).map_err(|e| qdisc_error(&e))?;
                self.sockets.push((index, netlink));
            }
        }
        let mut all = Vec::new();
        for ((index, netlink), monitored) in self.sockets.iter().zip(&topology.monitored) {
            let there = netlink.qdiscs(QueueKind::mark_offsets).map_err(|e| qdisc_error(&e))?;
            let mut qdisc = find(&there, *index, monitored)?;
            for program in self.marking_programs.iter().filter(|program| program.dev == monitored.dev) {
                qdisc.marks += program.marks()?;
            }
            let of_acks = self.ack_marks.iter().filter(|marking| marking.dev == monitored.dev);
            qdisc.marks += of_acks.map(AckMarks::marks).sum::<u64>();
            all.push(qdisc);
        }
        for (qdisc, at_start) in all.iter_mut().zip(&self.at_start) {
            subtract(qdisc, at_start);
        }
        Ok(all)
    }

    /// The packets that queues which are not monitored have dropped since the start of the traffic: wires, NICs, policers.
    pub fn dropped_elsewhere(
        &self,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<u64, Failure> {
        Ok(all_dropped_elsewhere(topology, namespaces)?.saturating_sub(self.elsewhere_at_start))
    }

    /// Adds a row of each queue to the series, at the end of an interval.
    pub fn sample(&mut self, topology: &NetnsTopology, namespaces: &mut NetnsSet) -> Result<(), Failure> {
        let all = self.read(topology, namespaces)?;
        for ((qdisc, sampler), monitored) in all.iter().zip(&mut self.samplers).zip(&topology.monitored) {
            sampler.sample([qdisc.bytes, qdisc.drops, qdisc.marks], qdisc.backlog);
            // The largest backlog is that at the begin or at the end of the interval. A peak between the two is not seen.
            sampler.seen(sampler.len() - 1, qdisc.backlog);
            let most = self.max_backlog.entry(monitored.name.clone()).or_default();
            *most = (*most).max(qdisc.backlog);
        }
        Ok(())
    }

    /// The columns of all queues; empty if the recording has no series.
    pub fn entities(&self, topology: &NetnsTopology) -> Vec<EntitySeries> {
        if !self.series {
            return Vec::new();
        }
        let monitored = topology.monitored.iter().zip(&self.samplers);
        monitored.map(|(monitored, sampler)| sampler.clone().into_series(&monitored.name)).collect()
    }
}

fn qdisc_error(e: &io::Error) -> Failure {
    format!("qdiscs: {e}")
}

/// The counters of a queue: the sum over its buffers.
fn find(all: &[Qdisc], interface: i32, monitored: &MonitoredQueue) -> Result<Qdisc, Failure> {
    let buffers = monitored.handles.iter().map(|handle| {
        let buffer = all.iter().find(|q| q.interface == interface && q.handle == *handle);
        buffer.ok_or_else(|| format!("the qdisc of {} is gone", monitored.name))
    });
    let mut sum: Option<Qdisc> = None;
    for buffer in buffers {
        let buffer = buffer?;
        match &mut sum {
            None => sum = Some(buffer.clone()),
            Some(sum) => {
                sum.bytes += buffer.bytes;
                sum.packets += buffer.packets;
                sum.drops += buffer.drops;
                sum.marks += buffer.marks;
                sum.backlog += buffer.backlog;
            }
        }
    }
    Ok(sum.expect("a queue has a buffer"))
}

/// Counts a queue from the start of the traffic on. The backlog is not a counter.
fn subtract(qdisc: &mut Qdisc, at_start: &Qdisc) {
    qdisc.bytes -= at_start.bytes;
    qdisc.packets -= at_start.packets;
    qdisc.drops -= at_start.drops;
    qdisc.marks -= at_start.marks;
}

/// The packets that unmonitored queues have dropped since the topology was built.
fn all_dropped_elsewhere(topology: &NetnsTopology, namespaces: &mut NetnsSet) -> Result<u64, Failure> {
    let mut drops = 0;
    for netns in (0..topology.namespaces.len()).filter(|netns| topology.namespaces[*netns].local) {
        namespaces.enter(netns)?;
        let netlink = Netlink::open().map_err(|e| qdisc_error(&e))?;
        let mut devices = Vec::new();
        for (at, device) in topology.devices.iter().enumerate().filter(|(_, device)| device.netns == netns) {
            let monitored = topology.monitored.iter().any(|monitored| monitored.dev == at);
            let relayed = topology.relayed.iter().any(|relayed| relayed.from == at)
                || topology.ack_marking.iter().any(|marking| marking.dev == at)
                || topology.delaying_nics.iter().any(|nic| nic.from == at);
            devices.push((
                netlink.interface_index(&device.name).map_err(|e| qdisc_error(&e))?,
                monitored,
                relayed,
            ));
        }
        for qdisc in netlink.qdiscs(|_| &[]).map_err(|e| qdisc_error(&e))? {
            if counts_elsewhere(&qdisc, &devices) {
                drops += qdisc.drops;
            }
        }
    }
    Ok(drops)
}

/// Returns true if the drops of a qdisc are drops of unmonitored queues. `devices`: interface, whether its queue is monitored, and whether
/// a relay takes its packets. What a relay takes is dropped by the `clsact` of its device, and is no loss.
fn counts_elsewhere(qdisc: &Qdisc, devices: &[(i32, bool, bool)]) -> bool {
    devices.iter().any(|(interface, monitored, relayed)| {
        qdisc.interface == *interface && (qdisc.is_root && !monitored || qdisc.kind == "clsact" && !relayed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(bytes: u64, drops: u64, marks: u64, backlog: u64) -> Qdisc {
        Qdisc { bytes, drops, marks, backlog, packets: bytes / 1500, ..Qdisc::default() }
    }

    #[test]
    fn packets_before_the_traffic_do_not_count_but_the_backlog_does() {
        let mut now = qdisc(9000, 5, 3, 700);
        subtract(&mut now, &qdisc(6000, 4, 1, 900));
        assert_eq!((now.bytes, now.packets, now.drops, now.marks, now.backlog), (3000, 2, 1, 2, 700));
    }

    #[test]
    fn drops_elsewhere_are_those_of_unmonitored_roots_and_of_policers() {
        let devices = [(4, true, false), (5, false, false), (6, false, true)];
        let root = |interface| Qdisc { interface, is_root: true, ..Qdisc::default() };
        let clsact = |interface| Qdisc { interface, kind: "clsact".to_owned(), ..Qdisc::default() };
        assert!(!counts_elsewhere(&root(4), &devices));
        assert!(counts_elsewhere(&root(5), &devices) && counts_elsewhere(&root(6), &devices));
        // A policer is on the clsact of its device; so is the filter of a relay.
        assert!(counts_elsewhere(&clsact(4), &devices));
        assert!(!counts_elsewhere(&clsact(6), &devices));
        // Neither the root nor clsact: a queue inside of another one, whose drops its parent counts.
        assert!(!counts_elsewhere(&Qdisc { interface: 5, ..Qdisc::default() }, &devices));
        assert!(!counts_elsewhere(&root(9), &devices));
    }

    #[test]
    fn a_queue_is_found_by_interface_and_handle_and_two_buffers_are_counted_together() {
        let mut monitored = MonitoredQueue {
            name: "queue.bottleneck".to_owned(),
            kind: QueueKind::Red,
            rate: tcpassay_units::Rate::from_mbit(10),
            dev: 0,
            handles: vec![0x10],
            link: 0,
        };
        let all =
            [(3, 0x10, 1), (4, 0x1, 2), (4, 0x10, 3), (4, 0x20, 40)].map(|(interface, handle, drops)| {
                Qdisc { interface, handle, drops, backlog: 2 * drops, ..Qdisc::default() }
            });
        assert_eq!(find(&all, 4, &monitored).unwrap().drops, 3);
        assert_eq!(find(&all, 7, &monitored).unwrap_err(), "the qdisc of queue.bottleneck is gone");
        monitored.handles = vec![0x10, 0x20];
        let both = find(&all, 4, &monitored).unwrap();
        assert_eq!((both.drops, both.backlog), (43, 86));
    }
}
