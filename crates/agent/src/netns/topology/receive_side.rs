//! What delays and sorts packets where they are received: NICs, interrupts, and ports with two buffers.

use super::{DelayingNic, MonitoredQueue, NetnsTopology, VethDevice};
use crate::netns::qdiscs;
use tcpassay_case::Case;
use tcpassay_case::params::grammar::Buffers;
use tcpassay_case::topology::Node;

impl NetnsTopology {
    /// Lets the NICs at the ends of a link delay what arrives for their hosts.
    pub(super) fn delaying_nics(&mut self, case: &Case, [start, end]: [Node; 2], veth_pairs: &[usize]) {
        for (node, at_start) in [(start, true), (end, false)] {
            let Node::Host(host) = node else { continue };
            if self.real || !case.hosts[host].nic.has_own_receive_rule() {
                continue;
            }
            let last = veth_pairs.len() - 1;
            let (from, to) = if at_start {
                (veth_pairs[1], veth_pairs[0] + 1)
            } else {
                (veth_pairs[last - 1] + 1, veth_pairs[last])
            };
            let VethDevice { name, queues, .. } = &mut self.devices[to];
            *queues = vec![qdiscs::one_poll(name)];
            self.delaying_nics.push(DelayingNic { host, from, to });
        }
    }

    /// Sorts the packets of ports with two buffers by their input ports: the first buffer has those that no filter selects.
    pub(super) fn serve_second_buffers(&mut self, case: &Case) {
        let Buffers::Dual(_) = case.network.buffers else { return };
        for &MonitoredQueue { dev, link, .. } in &self.monitored {
            let port = self.switch_devices.iter().find(|(_, _, device)| *device == dev);
            let Some(&(_, switch, _)) = port else { continue };
            let inputs = self.switch_devices.iter().filter(|(input, at, _)| {
                *at == switch && *input != link && case.net.input_half(switch, *input) == 1
            });
            let names: Vec<String> = inputs.map(|(.., device)| self.devices[*device].name.clone()).collect();
            let VethDevice { name, queues, .. } = &mut self.devices[dev];
            queues.extend(names.iter().map(|input| qdiscs::second_buffer(name, input)));
        }
    }

    /// Delays the receive interrupts of hosts in a guest, each with its device.
    pub(super) fn delay_interrupts(&mut self, case: &Case, ends: [(Node, usize); 2]) {
        for (node, dev) in ends {
            let Node::Host(i) = node else { continue };
            let delay = self.interrupt_delay(case, i);
            if !delay.is_zero() {
                let peer = self.devices[dev].peer;
                let VethDevice { name, queues, .. } = &mut self.devices[peer];
                qdiscs::delay_interrupts(name, queues, delay);
            }
        }
    }
}
