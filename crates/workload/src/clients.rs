//! The connections of a client: opening, arrivals, barriers, end.

use crate::apps::Apps;
use crate::arrival::ArrivalProcess;
use crate::client::{BarrierRound, Client};
use crate::completion::{AppCompletion, AppCompletionKind};
use crate::endpoint::AppEndpoint;
use crate::schedule::{ConnKey, HostIndex};
use crate::sockets::{SocketId, Sockets};
use crate::spec::{Behaviour, WorkloadSpec};
use crate::timer::AppTimer;
use tcpassay_units::{Bytes, Time};

impl Apps {
    pub(crate) fn client(&mut self, client: u32) -> (&mut Client, &WorkloadSpec) {
        let client = &mut self.clients[client as usize];
        let part = usize::from(client.part);
        (client, &self.schedule.parts()[part].spec)
    }

    /// Opens a connection and starts it.
    fn open(&mut self, now: Time, client: u32, server: HostIndex, sockets: &mut impl Sockets) -> SocketId {
        self.open_after(now, client, server, None, sockets)
    }

    /// Opens a connection and starts it, from the port of the connection `before`, if there was one.
    pub(crate) fn open_after(
        &mut self,
        now: Time,
        client: u32,
        server: HostIndex,
        before: Option<ConnKey>,
        sockets: &mut impl Sockets,
    ) -> SocketId {
        let state = &mut self.clients[client as usize];
        let key = ConnKey { client: self.host, server, part: state.part, index: state.opened };
        state.opened += 1;
        let end = AppEndpoint::client(&self.schedule, key, client, now);
        let slot = self.place(end);
        self.clients[client as usize].open.push(slot);
        match before {
            Some(before) => sockets.connect_again(slot, key, before),
            None => sockets.connect(slot, key),
        }
        slot
    }

    pub(crate) fn begin(&mut self, now: Time, client: u32, sockets: &mut impl Sockets) {
        let (state, spec) = self.client(client);
        let (behaviour, arrival, flows) = (spec.behaviour, spec.arrival, spec.flows);
        let concurrency = if behaviour.is_closed_loop() { spec.concurrency } else { 0 };
        if behaviour == Behaviour::Bulk && arrival != ArrivalProcess::Closed {
            self.first_arrival(now, client, sockets);
            return;
        }
        for server in state.servers.clone() {
            for _ in 0..flows {
                let slot = self.open(now, client, server, sockets);
                for _ in 0..concurrency {
                    self.issue(now, slot);
                }
                self.ready(now, slot, sockets);
            }
        }
        match behaviour {
            Behaviour::RpcOpen => self.first_arrival(now, client, sockets),
            Behaviour::Incast => self.round(now, client, sockets),
            _ => {}
        }
    }

    /// Uniform arrivals and bursts start immediately; the first Poisson arrival waits for its interarrival time.
    fn first_arrival(&mut self, now: Time, client: u32, sockets: &mut impl Sockets) {
        match self.client(client).1.arrival {
            ArrivalProcess::Closed => {}
            ArrivalProcess::Poisson(_) => self.next_arrival(now, client),
            ArrivalProcess::Uniform(_) => self.arrive(now, client, 1, sockets),
            ArrivalProcess::Burst(n) => self.arrive(now, client, n, sockets),
        }
    }

    fn next_arrival(&mut self, now: Time, client: u32) {
        let (state, spec) = self.client(client);
        let mean = match (&spec.flow_size, spec.behaviour) {
            (Some(size), Behaviour::Bulk) => size.mean(),
            // The load of a request is the load of the direction with more bytes.
            _ => spec.request.mean().max(spec.response.mean()),
        };
        if let Some((gap, n)) = spec.arrival.next(mean, spec.gap, &mut state.arrivals) {
            self.at(now.saturating_add(gap), AppTimer::Arrive(client, n));
        }
    }

    /// `n` flows or requests arrive, independent of completions.
    pub(crate) fn arrive(&mut self, now: Time, client: u32, n: u32, sockets: &mut impl Sockets) {
        if self.clients[client as usize].stopped {
            return;
        }
        self.next_arrival(now, client);
        if self.clients[client as usize].down {
            return;
        }
        for _ in 0..n {
            let (state, spec) = self.client(client);
            if spec.behaviour == Behaviour::Bulk {
                let servers = u64::try_from(state.servers.len()).expect("few servers");
                let at = usize::try_from(state.choice.below(servers)).expect("below its length");
                let server = state.servers[at];
                let slot = self.open(now, client, server, sockets);
                self.ready(now, slot, sockets);
            } else if !state.open.is_empty() {
                let slot = state.open[state.turn % state.open.len()];
                state.turn += 1;
                self.issue(now, slot);
                self.ready(now, slot, sockets);
            }
        }
    }

    /// Queues a request on a connection without writing it.
    pub(crate) fn issue(&mut self, now: Time, slot: SocketId) {
        let end = &mut self.ends[slot.0 as usize];
        let spec = &self.schedule.parts()[usize::from(end.key.part)].spec;
        end.request(now, spec);
        if spec.half_close {
            end.finish();
        }
    }

    /// The think time of a connection ended; it sends its next request.
    pub(crate) fn next_request(&mut self, now: Time, slot: u32, sockets: &mut impl Sockets) {
        let client = self.ends[slot as usize].client.expect("think timers belong to clients");
        if !self.clients[client as usize].stopped {
            self.issue(now, SocketId(slot));
            self.ready(now, SocketId(slot), sockets);
        }
    }

    /// Starts the next bulk flow after one that ended, or the next request with a separate connection.
    pub(crate) fn next_flow(
        &mut self,
        now: Time,
        client: u32,
        server: HostIndex,
        sockets: &mut impl Sockets,
    ) {
        let state = &mut self.clients[client as usize];
        if state.down {
            state.lost.push((server, None));
        } else if !state.stopped {
            let slot = self.open(now, client, server, sockets);
            if self.client(client).1.behaviour.is_closed_loop() {
                self.issue(now, slot);
            }
            self.ready(now, slot, sockets);
        }
    }

    /// Sends a request to every server at the same time.
    pub(crate) fn round(&mut self, now: Time, client: u32, sockets: &mut impl Sockets) {
        let state = &mut self.clients[client as usize];
        if state.stopped || state.open.is_empty() || state.round.is_some() {
            return;
        }
        let slots = state.open.clone();
        state.round = Some(BarrierRound {
            start: now,
            left: slots.len(),
            request: Bytes::ZERO,
            response: Bytes::ZERO,
            ok: true,
        });
        // All requests are queued before any is written, so that they leave together.
        for &slot in &slots {
            self.issue(now, slot);
        }
        for slot in slots {
            self.ready(now, slot, sockets);
        }
    }

    /// Starts no further transfers; those in progress complete.
    pub(crate) fn stop(&mut self, now: Time, client: u32, sockets: &mut impl Sockets) {
        self.clients[client as usize].stopped = true;
        for slot in self.clients[client as usize].open.clone() {
            self.finish_if_quiet(now, slot, sockets);
        }
    }

    /// Closes a connection of a stopped client when no request is outstanding.
    fn finish_if_quiet(&mut self, now: Time, slot: SocketId, sockets: &mut impl Sockets) {
        let end = &mut self.ends[slot.0 as usize];
        if end.live && end.outstanding() == 0 {
            end.finish();
            self.ready(now, slot, sockets);
        }
    }

    /// `n` transfers completed on a connection, which may be closed (`over`).
    pub(crate) fn completed(
        &mut self,
        now: Time,
        client: u32,
        slot: SocketId,
        n: usize,
        over: bool,
        sockets: &mut impl Sockets,
    ) {
        let server = self.ends[slot.0 as usize].key.server;
        if over {
            self.clients[client as usize].open.retain(|open| *open != slot);
        }
        if self.clients[client as usize].round.is_some() {
            self.count_round(now, client, slot, n);
        }
        let (state, spec) = self.client(client);
        let think = spec.think;
        match spec.behaviour {
            Behaviour::Bulk => {
                let again = over && spec.flow_size.is_some() && spec.duration.is_some();
                if again && spec.arrival == ArrivalProcess::Closed && !state.stopped {
                    let wait = think.draw(&mut state.think);
                    self.at(now.saturating_add(wait), AppTimer::Next(client, server));
                }
            }
            // A connection that is half closed is over when the server has closed it, too.
            Behaviour::Rpc if over && spec.half_close && !state.stopped => {
                let wait = think.draw(&mut state.think);
                self.at(now.saturating_add(wait), AppTimer::Next(client, server));
            }
            Behaviour::Rpc if !over && !state.stopped && !spec.reuse && !spec.half_close => {
                for _ in 0..n {
                    let wait = think.draw(&mut self.clients[client as usize].think);
                    self.at(now.saturating_add(wait), AppTimer::Next(client, server));
                }
                if n > 0 {
                    self.finish_if_quiet(now, slot, sockets);
                }
            }
            Behaviour::Rpc | Behaviour::Echo | Behaviour::Exchange | Behaviour::Streams
                if !over && !state.stopped && !spec.half_close =>
            {
                let generation = self.ends[slot.0 as usize].generation;
                for _ in 0..n {
                    let wait = think.draw(&mut self.clients[client as usize].think);
                    self.at(now.saturating_add(wait), AppTimer::Think(slot.0, generation));
                }
            }
            Behaviour::Rpc
            | Behaviour::RpcOpen
            | Behaviour::Echo
            | Behaviour::Exchange
            | Behaviour::Streams
                if !over && state.stopped =>
            {
                self.finish_if_quiet(now, slot, sockets);
            }
            Behaviour::Incast if state.round.is_none() && n > 0 => {
                if state.stopped {
                    for slot in state.open.clone() {
                        self.finish_if_quiet(now, slot, sockets);
                    }
                } else {
                    let wait = think.draw(&mut state.think);
                    self.at(now.saturating_add(wait), AppTimer::Round(client));
                }
            }
            _ => {}
        }
    }

    /// Counts responses towards the barrier, and records the round with the last one.
    fn count_round(&mut self, now: Time, client: u32, slot: SocketId, n: usize) {
        let key = self.ends[slot.0 as usize].key;
        let state = &mut self.clients[client as usize];
        let round = state.round.as_mut().expect("there is a round");
        for completion in &self.done[self.done.len() - n..] {
            round.left -= 1;
            round.request += completion.request;
            round.response += completion.response;
            round.ok &= completion.ok;
        }
        if round.left == 0 {
            let BarrierRound { start, request, response, ok, .. } = *round;
            state.round = None;
            self.done.push(AppCompletion {
                kind: AppCompletionKind::Round,
                key,
                request,
                response,
                start,
                end: now,
                ok,
            });
        }
    }
}
