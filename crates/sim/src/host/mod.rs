//! Hosts: connections and applications at the edge of the network.
//!
//! A host connects three components that do not depend on each other: [`tcpassay_tcp::Connection`], the applications
//! of [`tcpassay_workload::Apps`], and the elements of the network. Every input (a segment, a timer, a socket call)
//! is processed in the same order: the connection processes it; pending segments are sent; the application receives
//! the resulting events; the segments that follow from its calls are sent; the timer of the connection is moved when
//! it is due earlier than before.
//!
//! Known differences from a real host: an application runs at the instant at which it is woken; it is woken for
//! writing as in Linux (`sk_stream_is_writeable`: a third of the buffer is free); when a small queue delays data of
//! one direction, it also delays the pure ACKs behind them.
//!
//! This module does not depend on the parameter table; it receives [`HostSettings`].

mod data_path;
mod datagrams;
mod endpoint;
mod fast_open;
mod line;
mod log;
mod real;
mod real_begin;
mod real_flows;
mod real_places;
mod real_state;
mod reboot;
mod recording;
mod sockets;
mod stacks;
mod summary;

pub(crate) use real::RealHost;
pub(crate) use stacks::{Stacks, StacksConfig, TimerOwner};

use crate::engine::{
    Core, FlowLabel, HostId, Hosts, NodeId, Packet, PacketEvent, PacketId, Protocol, TimerId, prefetch,
};
use data_path::NextAction;
use sockets::HostSockets;
use tcpassay_case::{Case, Implementation};
use tcpassay_measure::StackUnderTest;
use tcpassay_stack::StackError;
use tcpassay_stack::process::Commands;
use tcpassay_units::{Bytes, Seed, Time};
use tcpassay_wire::Flags;
use tcpassay_workload::{Apps, HostIndex, SocketId};

/// The stacks and applications of all hosts.
#[derive(Debug)]
pub(crate) struct SimHosts {
    pub stacks: Stacks,
    apps: Vec<HostApps>,
    /// Number of hosts whose applications have not finished; 0 after a real stack failed.
    busy: usize,
    /// The hosts whose TCP is not the model, by index of the host; empty if there are none.
    real: Vec<Option<Box<RealHost>>>,
    /// A real stack failed, which ends the run.
    failed: bool,
}

#[derive(Debug)]
struct HostApps {
    apps: Apps,
    timer: TimerId,
    armed: Time,
    busy: bool,
}

impl SimHosts {
    /// Creates hosts with the applications `apps`, which start at time 0.
    pub fn new(net: &mut Core, mut stacks: Stacks, apps: Vec<Apps>) -> SimHosts {
        let apps: Vec<HostApps> = (0u32..)
            .zip(apps)
            .map(|(host, mut apps)| {
                apps.start(Time::ZERO);
                let timer = stacks.add_timer(net, TimerOwner::Apps(host));
                let armed = apps.next_wake().unwrap_or(Time::MAX);
                if armed != Time::MAX {
                    net.set_timer(timer, armed);
                }
                HostApps { busy: !apps.is_idle(), apps, timer, armed }
            })
            .collect();
        stacks.start_datagrams(net);
        net.record_send_times(stacks.recorder.wants_send_times());
        let busy = apps.iter().filter(|a| a.busy).count();
        SimHosts { stacks, apps, busy, real: Vec::new(), failed: false }
    }

    /// Replaces the TCP of hosts by real stacks, before the run begins.
    ///
    /// # Errors
    /// A stack that cannot be used, with its host.
    pub fn replace(
        &mut self,
        net: &mut Core,
        case: &Case,
        seed: Seed,
        commands: Option<&Commands>,
    ) -> Result<(), (usize, StackError)> {
        if case.hosts.iter().all(|host| host.implementation == Implementation::Model) {
            return Ok(());
        }
        let state = self.stacks.recorder.collector.wants_events();
        for index in 0..case.hosts.len() {
            let number = u32::try_from(index).expect("few hosts");
            let id = self.stacks.hosts[index].id;
            let timer = self.stacks.add_timer(net, TimerOwner::Real(number));
            let mut host = RealHost::new(case, index, (id, timer), seed, commands, state)
                .map_err(|why| (index, why))?
                .map(Box::new);
            if let Some(host) = &mut host {
                for (part, port) in self.stacks.plan.parts().iter().zip(recording::SERVER_PORT..) {
                    if part.accepts_at(HostIndex(number)) && !part.spec.both_open {
                        host.listen(port);
                    }
                }
            }
            self.real.push(host);
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// The real stacks.
    pub fn under_test(&self) -> impl Iterator<Item = StackUnderTest> {
        self.real.iter().flatten().map(|host| host.under_test())
    }

    /// Why a real stack cannot be used any more: its host and the reason.
    pub fn failure(&self) -> Option<(usize, StackError)> {
        let why =
            |(index, host): (usize, &Option<Box<RealHost>>)| Some((index, host.as_ref()?.failure()?.clone()));
        self.real.iter().enumerate().find_map(why)
    }

    /// Writes the final counters of all connections.
    pub fn summarise_all(&mut self, now: Time) {
        self.stacks.summarise_all(now);
        for host in self.real.iter().flatten() {
            host.summarise(&mut self.stacks);
        }
    }

    /// The host, if its TCP is not the model.
    fn real(&mut self, host: usize) -> Option<(&mut RealHost, &mut Stacks, &mut Apps)> {
        let real = self.real.get_mut(host)?.as_deref_mut()?;
        Some((real, &mut self.stacks, &mut self.apps[host].apps))
    }

    /// Completes the processing after a real stack received an input.
    fn settle(&mut self, net: &mut Core, host: usize) {
        if let Some((real, stacks, apps)) = self.real(host) {
            real.settle(stacks, net, apps);
            let failed = real.failure().is_some();
            self.after_apps(net, host);
            if failed {
                (self.busy, self.failed) = (0, true);
            }
        }
    }

    /// Whether all applications have finished.
    pub fn is_finished(&self) -> bool {
        self.busy == 0 && (self.failed || self.stacks.datagrams.is_none())
    }

    /// Completes the processing after connection `c` received an input.
    #[inline]
    fn serve(&mut self, net: &mut Core, c: u32) {
        let after = self.stacks.serve(net, c);
        self.follow(net, c, after);
    }

    #[inline]
    fn follow(&mut self, net: &mut Core, c: u32, after: NextAction) {
        match after {
            NextAction::Nothing => {}
            NextAction::Tell(host, slot) => {
                self.notify_application(net, c, host, slot);
                if self.stacks.is_over(c) {
                    self.stacks.remove(net, c);
                }
            }
            NextAction::Remove => self.stacks.remove(net, c),
        }
    }

    /// Delivers an event to an application, and sends the data that it wrote.
    fn notify_application(&mut self, net: &mut Core, c: u32, host: usize, slot: SocketId) {
        let now = net.now();
        let failed = self.stacks.has_failed(c);
        if failed {
            self.stacks.detach(c);
        }
        let apps = &mut self.apps[host].apps;
        let mut calls = HostSockets { stacks: &mut self.stacks, net, host };
        if failed {
            apps.failed(now, slot, &mut calls);
        } else {
            apps.ready(now, slot, &mut calls);
        }
        self.stacks.mark_modified(c);
        self.after_apps(net, host);
    }

    /// Sends what socket calls made available, records completions, and sets the next timer of the applications.
    fn after_apps(&mut self, net: &mut Core, host: usize) {
        while let Some(c) = self.stacks.next_modified() {
            self.stacks.transmit(net, c);
            self.stacks.arm(net, c);
            if self.stacks.is_over(c) {
                self.stacks.remove(net, c);
            }
        }
        let a = &mut self.apps[host];
        let due = a.apps.next_wake().unwrap_or(Time::MAX);
        if due < a.armed {
            a.armed = due;
            net.set_timer(a.timer, due);
        }
        for completion in a.apps.drain_completions() {
            self.stacks.completed(&completion);
        }
        let busy = !a.apps.is_idle();
        if busy != a.busy {
            a.busy = busy;
            self.busy = if busy { self.busy + 1 } else { self.busy - 1 };
        }
        while let Some((server, place)) = self.stacks.next_crossing() {
            self.open_too(net, server, place);
        }
    }

    /// The server opens the connection of an entry, as its client just did.
    fn open_too(&mut self, net: &mut Core, server: usize, place: usize) {
        let slot = self.apps[server].apps.accept(self.stacks.key_at(place));
        if let Some((real, stacks, _)) = self.real(server) {
            real.open(stacks, net.now(), slot, place);
            self.settle(net, server);
            return;
        }
        let c = self.stacks.open(net, place, true);
        self.stacks.attach(c, slot);
        self.stacks.conn(c).only_reads = self.apps[server].apps.only_reads(slot);
        self.serve(net, c);
        self.after_apps(net, server);
    }

    /// A datagram or an ICMP message arrives.
    #[cold]
    fn other_protocol(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        let packet = net.packet(id).clone();
        if packet.kind == Protocol::Udp {
            self.stacks.recorder.state.datagrams_received += 1;
        } else if let Some(c) = self.stacks.too_long(net.now(), host, &packet) {
            self.serve(net, c);
        }
    }

    /// Processes a SYN for a connection that its server does not have yet.
    fn accept(&mut self, net: &mut Core, flow: usize, id: PacketId) {
        let c = self.stacks.listen(net, flow);
        let (host, key) = self.stacks.end_of(c);
        let slot = self.apps[host].apps.accept(key);
        self.stacks.attach(c, slot);
        self.stacks.conn(c).only_reads = self.apps[host].apps.only_reads(slot);
        let after = self.stacks.input(net, c, id);
        self.follow(net, c, after);
    }
}

impl Hosts for SimHosts {
    #[expect(clippy::inline_always, reason = "called in the run loop")]
    #[inline(always)]
    fn receive(&mut self, net: &mut Core, host: HostId, id: PacketId) {
        let packet = net.packet(id);
        if packet.kind != Protocol::Tcp {
            self.other_protocol(net, host, id);
            return;
        }
        match self.stacks.find(host, packet.flow) {
            Ok(c) => {
                let after = self.stacks.input(net, c, id);
                self.follow(net, c, after);
            }
            Err(_) if self.stacks.is_down(host) => {}
            Err(_) if self.real.get(usize::from(host.0)).is_some_and(Option::is_some) => {
                let packet = packet.clone();
                let host = usize::from(host.0);
                if let Some((real, stacks, apps)) = self.real(host) {
                    real.arrival(stacks, net, apps, &packet);
                }
                self.settle(net, host);
            }
            Err(Some(flow))
                if packet.segment.flags.has(Flags::SYN) && !packet.segment.flags.has(Flags::ACK) =>
            {
                self.accept(net, flow, id);
            }
            Err(_) => self.stacks.reset_unknown(net, host, id),
        }
    }

    #[inline]
    fn expect(&self, host: HostId, flow: FlowLabel) {
        if let Ok(c) = self.stacks.find(host, flow) {
            prefetch(self.stacks.conn_ref(c), 0..size_of::<endpoint::HostEndpoint>());
        }
    }

    fn timer(&mut self, net: &mut Core, timer: TimerId) {
        match self.stacks.owner(timer) {
            TimerOwner::Conn(c) => {
                if self.stacks.on_timer(net, c) {
                    self.serve(net, c);
                } else {
                    self.stacks.arm(net, c);
                }
            }
            TimerOwner::Apps(host) => {
                let host = host as usize;
                let now = net.now();
                let a = &mut self.apps[host];
                a.armed = Time::MAX;
                if let Some((real, stacks, apps)) = self.real(host) {
                    apps.wake(now, &mut real::RealSockets { host: real, stacks, net });
                    self.settle(net, host);
                    return;
                }
                self.apps[host].apps.wake(now, &mut HostSockets { stacks: &mut self.stacks, net, host });
                self.after_apps(net, host);
            }
            TimerOwner::Real(host) => {
                let host = host as usize;
                if let Some((real, _, _)) = self.real(host) {
                    real.on_timer(net.now());
                }
                self.settle(net, host);
            }
            TimerOwner::Datagrams => self.stacks.send_datagram(net),
            TimerOwner::Unused => {}
        }
    }

    fn sent(&mut self, net: &mut Core, host: HostId, flow: FlowLabel, bytes: Bytes) {
        if let Ok(c) = self.stacks.find(host, flow) {
            self.stacks.left_host(c, bytes);
            self.serve(net, c);
        }
    }

    fn observe(&mut self, now: Time, node: NodeId, what: PacketEvent, id: PacketId, packet: &Packet) {
        self.stacks.observe(now, node, what, id, packet);
    }
}
