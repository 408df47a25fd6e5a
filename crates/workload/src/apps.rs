//! Every application of one host.

use crate::client::Client;
use crate::completion::AppCompletion;
use crate::endpoint::AppEndpoint;
use crate::schedule::{ConnKey, HostIndex, TrafficSchedule};
use crate::sockets::{SocketId, Sockets};
use crate::spec::{Behaviour, Reboot};
use crate::timer::AppTimer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tcpassay_units::{Bytes, Time};

/// All applications of one host; see the [crate](crate) for the order of calls.
#[derive(Clone, Debug)]
pub struct Apps {
    pub(crate) schedule: Arc<TrafficSchedule>,
    pub(crate) host: HostIndex,
    pub(crate) clients: Vec<Client>,
    pub(crate) ends: Vec<AppEndpoint>,
    free: Vec<u32>,
    wakes: BinaryHeap<Reverse<(Time, u64, AppTimer)>>,
    inserted: u64,
    pub(crate) done: Vec<AppCompletion>,
}

impl TrafficSchedule {
    /// The applications of `host`.
    pub fn apps(self: &Arc<Self>, host: HostIndex) -> Apps {
        Apps::new(Arc::clone(self), host)
    }
}

impl Apps {
    pub(crate) fn new(schedule: Arc<TrafficSchedule>, host: HostIndex) -> Apps {
        let clients = (0u16..)
            .zip(schedule.parts())
            .filter_map(|(at, part)| Client::new(&schedule, at, part, host))
            .collect();
        Apps {
            schedule,
            host,
            clients,
            ends: Vec::new(),
            free: Vec::new(),
            wakes: BinaryHeap::new(),
            inserted: 0,
            done: Vec::new(),
        }
    }

    /// The host of these applications.
    pub fn host(&self) -> HostIndex {
        self.host
    }

    /// Sets the timers of clients that start later. Opens no connection.
    pub fn start(&mut self, now: Time) {
        let mut reboots = false;
        for at in 0..self.clients.len() {
            let spec = &self.schedule.parts()[usize::from(self.clients[at].part)].spec;
            let begin = now + spec.start;
            let stop = spec.duration.map(|d| begin.saturating_add(d));
            // The members of a mix have one reboot: that of their host.
            let reboot = spec.reboot.filter(|_| !std::mem::replace(&mut reboots, spec.reboot.is_some()));
            let at = u32::try_from(at).expect("few clients");
            self.at(begin, AppTimer::Begin(at));
            if let Some(Reboot { after, down }) = reboot {
                self.at(begin + after, AppTimer::Halt(down));
            }
            if let Some(stop) = stop {
                self.at(stop, AppTimer::Stop(at));
            }
        }
    }

    /// The time at which [`Apps::wake`] must be called next; `None` if no timer is set.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Processes the timers that are due at `now`.
    pub fn wake(&mut self, now: Time, sockets: &mut impl Sockets) {
        while let Some(Reverse((at, _, what))) = self.wakes.peek().copied() {
            if at > now {
                return;
            }
            self.wakes.pop();
            match what {
                AppTimer::Halt(down) => self.halt(now, down, sockets),
                AppTimer::Boot => self.boot(now, sockets),
                AppTimer::Begin(client) => self.begin(now, client, sockets),
                AppTimer::Arrive(client, n) => self.arrive(now, client, n, sockets),
                AppTimer::Stop(client) => self.stop(now, client, sockets),
                AppTimer::Round(client) => self.round(now, client, sockets),
                AppTimer::Next(client, server) => self.next_flow(now, client, server, sockets),
                AppTimer::Think(slot, generation) => {
                    if self.lives(slot, generation) {
                        self.next_request(now, slot, sockets);
                    }
                }
                AppTimer::Endpoint(slot, generation) => {
                    if self.lives(slot, generation) {
                        self.ends[slot as usize].wake_at = Time::MAX;
                        self.ready(now, SocketId(slot), sockets);
                    }
                }
            }
        }
    }

    /// A connection arrived for this host; it is assigned a socket. [`Apps::ready`] follows when data arrives.
    pub fn accept(&mut self, key: ConnKey) -> SocketId {
        let end = AppEndpoint::server(&self.schedule, key);
        self.place(end)
    }

    /// A socket became connected, readable, writable, or closed by its peer. Additional calls are harmless.
    pub fn ready(&mut self, now: Time, slot: SocketId, sockets: &mut impl Sockets) {
        let end = &mut self.ends[slot.0 as usize];
        let spec = &self.schedule.parts()[usize::from(end.key.part)].spec;
        let before = self.done.len();
        let step = end.step(now, slot, spec, sockets, &mut self.done);
        if step.next < end.wake_at {
            end.wake_at = step.next;
            let generation = end.generation;
            self.at(step.next, AppTimer::Endpoint(slot.0, generation));
        }
        self.settle(now, slot, before, step.over, sockets);
    }

    /// Whether this endpoint only reads all arriving data immediately. The host may then read on its behalf, and need
    /// not call [`Apps::ready`] before the peer has closed.
    pub fn only_reads(&self, slot: SocketId) -> bool {
        let end = &self.ends[slot.0 as usize];
        let spec = &self.schedule.parts()[usize::from(end.key.part)].spec;
        end.is_sink() && spec.read_size.is_none() && spec.read_rate.is_none()
    }

    /// If what arrives is read at once, before anything else is done: the largest number of bytes of a call.
    pub fn reads_at_once(&self, slot: SocketId) -> Option<Bytes> {
        let end = &self.ends[slot.0 as usize];
        let spec = &self.schedule.parts()[usize::from(end.key.part)].spec;
        let at_once = spec.read_rate.is_none() && spec.behaviour != Behaviour::Exchange;
        at_once.then(|| spec.read_size.unwrap_or(Bytes::MAX))
    }

    /// The connection failed (reset, refused, timed out). Its transfers are recorded as failed and the socket id is
    /// free; the host releases the socket.
    pub fn failed(&mut self, now: Time, slot: SocketId, sockets: &mut impl Sockets) {
        let before = self.done.len();
        self.ends[slot.0 as usize].fail(now, &mut self.done);
        self.settle(now, slot, before, true, sockets);
    }

    /// The completions since the last call, in order of time.
    pub fn drain_completions(&mut self) -> std::vec::Drain<'_, AppCompletion> {
        self.done.drain(..)
    }

    /// Whether no transfer is in progress and none will begin.
    pub fn is_idle(&self) -> bool {
        self.wakes.is_empty() && self.free.len() == self.ends.len()
    }

    /// Releases the socket of an endpoint that has finished, and reports completions to its client.
    fn settle(&mut self, now: Time, slot: SocketId, before: usize, over: bool, sockets: &mut impl Sockets) {
        let completed = self.done.len() - before;
        if completed == 0 && !over {
            return;
        }
        let client = self.ends[slot.0 as usize].client;
        if over {
            self.vacate(slot);
        }
        if let Some(client) = client {
            self.completed(now, client, slot, completed, over, sockets);
        }
    }

    pub(crate) fn at(&mut self, when: Time, what: AppTimer) {
        self.wakes.push(Reverse((when, self.inserted, what)));
        self.inserted += 1;
    }

    pub(crate) fn place(&mut self, mut end: AppEndpoint) -> SocketId {
        if let Some(at) = self.free.pop() {
            end.generation = self.ends[at as usize].generation + 1;
            self.ends[at as usize] = end;
            return SocketId(at);
        }
        let at = u32::try_from(self.ends.len()).expect("fewer than 2^32 connections");
        self.ends.push(end);
        SocketId(at)
    }

    pub(crate) fn vacate(&mut self, slot: SocketId) {
        let end = &mut self.ends[slot.0 as usize];
        assert!(end.live, "socket id {} is released twice", slot.0);
        end.live = false;
        self.free.push(slot.0);
    }

    fn lives(&self, slot: u32, generation: u32) -> bool {
        let end = &self.ends[slot as usize];
        end.live && end.generation == generation
    }
}
