//! One endpoint of a connection: bytes to write and bytes to read.

use crate::completion::{AppCompletion, AppCompletionKind};
use crate::schedule::{ConnKey, TrafficSchedule};
use crate::size::SizeDistribution;
use crate::sockets::{SocketId, Sockets};
use crate::spec::{Behaviour, WorkloadSpec};
use crate::streams::{FRAME, Message, Streams};
use std::collections::VecDeque;
use tcpassay_units::{Bytes, Carry, Stream, Time};

/// The read size of a slow reader when `app.read_size` is not set.
const SLOW_READ: Bytes = Bytes::new(16_384);

/// One endpoint of a connection.
#[derive(Clone, Debug)]
pub(crate) struct AppEndpoint {
    pub key: ConnKey,
    /// Index of the client at this host; `None` at the accepting endpoint.
    pub client: Option<u32>,
    /// False when the socket id is free.
    pub live: bool,
    /// Distinguishes successive connections with the same socket id.
    pub generation: u32,
    /// The earliest timer of this endpoint.
    pub wake_at: Time,
    role: Role,
    /// Bytes to write that the socket has not accepted.
    owed: u64,
    /// Close this direction when all bytes are written.
    shut: bool,
    /// This direction is closed.
    was_shut: bool,
    /// Time of a slow reader's next read.
    next_read: Time,
    read_carry: Carry,
    /// The random stream for sizes, the same at both endpoints.
    sizes: Stream,
}

#[derive(Clone, Debug)]
enum Role {
    /// Sends data; finished when the peer has read all data and closed.
    Source { started: Time, total: u64, feed: DataSource },
    /// Sends requests and expects responses in order.
    Requester { waiting: VecDeque<Request> },
    /// Sends the frames of several messages, and expects an answer to each.
    Streams(Streams),
    /// Expects requests and responds to each complete one.
    Responder { left: u64, response: u64 },
    /// Returns each byte that arrives.
    Echo,
    /// Writes its response from the first byte of a request on, and reads the request when it is written.
    Exchanger { left: u64, response: u64, begun: bool },
    /// Reads.
    Sink,
}

/// How a source produces its data.
#[derive(Clone, Debug)]
enum DataSource {
    /// All bytes were produced at the start.
    Given,
    /// As many bytes as the socket accepts.
    Endless,
    /// A burst at each tick of a clock.
    Paced { next: Time, carry: Carry },
    /// A burst, then a pause after the socket accepted it.
    OnOff { next: Time },
}

#[derive(Clone, Copy, Debug)]
struct Request {
    start: Time,
    asks: u64,
    answer: u64,
    left: u64,
}

/// The result of a step.
pub(crate) struct EndpointStep {
    /// The time at which the endpoint must be processed again, independent of socket events.
    pub next: Time,
    /// The endpoint closed its socket.
    pub over: bool,
}

impl AppEndpoint {
    fn new(schedule: &TrafficSchedule, key: ConnKey, client: Option<u32>, role: Role) -> AppEndpoint {
        AppEndpoint {
            key,
            client,
            live: true,
            generation: 0,
            wake_at: Time::MAX,
            role,
            owed: 0,
            shut: false,
            was_shut: false,
            next_read: Time::ZERO,
            read_carry: Carry::default(),
            sizes: schedule.stream(&key.to_string()),
        }
    }

    /// The endpoint that opens the connection.
    pub fn client(schedule: &TrafficSchedule, key: ConnKey, client: u32, now: Time) -> AppEndpoint {
        let spec = &schedule.part(key).spec;
        let feed = match spec.behaviour {
            Behaviour::Paced => DataSource::Paced { next: now, carry: Carry::default() },
            Behaviour::OnOff => DataSource::OnOff { next: now },
            Behaviour::Bulk if spec.flow_size.is_some() => DataSource::Given,
            Behaviour::Bulk => DataSource::Endless,
            Behaviour::Rpc
            | Behaviour::RpcOpen
            | Behaviour::Incast
            | Behaviour::Echo
            | Behaviour::Exchange => {
                return AppEndpoint::new(
                    schedule,
                    key,
                    Some(client),
                    Role::Requester { waiting: VecDeque::new() },
                );
            }
            Behaviour::Streams => {
                return AppEndpoint::new(schedule, key, Some(client), Role::Streams(Streams::default()));
            }
            Behaviour::Mix => unreachable!("a mix is split into its members"),
        };
        let mut end =
            AppEndpoint::new(schedule, key, Some(client), Role::Source { started: now, total: 0, feed });
        if let (Behaviour::Bulk, Some(size)) = (spec.behaviour, &spec.flow_size) {
            end.owed = size.draw(&mut end.sizes).get();
            end.shut = true;
        }
        end
    }

    /// The endpoint that accepts the connection.
    pub fn server(schedule: &TrafficSchedule, key: ConnKey) -> AppEndpoint {
        let spec = &schedule.part(key).spec;
        match spec.behaviour {
            Behaviour::Rpc | Behaviour::RpcOpen | Behaviour::Incast => {
                let mut end = AppEndpoint::new(schedule, key, None, Role::Responder { left: 0, response: 0 });
                let (left, response) = end.draw_message(spec);
                end.role = Role::Responder { left, response };
                end
            }
            Behaviour::Echo => AppEndpoint::new(schedule, key, None, Role::Echo),
            Behaviour::Streams => {
                let response = answer(spec);
                AppEndpoint::new(schedule, key, None, Role::Responder { left: FRAME, response })
            }
            Behaviour::Exchange => {
                let mut end = AppEndpoint::new(schedule, key, None, Role::Sink);
                let (left, response) = end.draw_message(spec);
                end.role = Role::Exchanger { left, response, begun: false };
                end
            }
            _ => AppEndpoint::new(schedule, key, None, Role::Sink),
        }
    }

    /// Whether it only reads.
    pub fn is_sink(&self) -> bool {
        matches!(self.role, Role::Sink)
    }

    /// The sizes of the next request and response of the connection: the same sequence at both endpoints.
    fn draw_message(&mut self, spec: &WorkloadSpec) -> (u64, u64) {
        let request = spec.request.draw(&mut self.sizes).get();
        (request, spec.response.draw(&mut self.sizes).get())
    }

    /// A request arrives; the next step writes it.
    pub fn request(&mut self, now: Time, spec: &WorkloadSpec) {
        let (request, response) = self.draw_message(spec);
        if let Role::Streams(streams) = &mut self.role {
            streams.begin(now, Bytes::new(request), Bytes::new(answer(spec)));
            return;
        }
        let response = if spec.behaviour == Behaviour::Echo { request } else { response };
        let Role::Requester { waiting } = &mut self.role else { panic!("only a requester has requests") };
        waiting.push_back(Request { start: now, asks: request, answer: response, left: response });
        self.owed += request;
    }

    /// Number of requests without a complete response.
    pub fn outstanding(&self) -> usize {
        match &self.role {
            Role::Requester { waiting } => waiting.len(),
            Role::Streams(streams) => streams.outstanding(),
            _ => 0,
        }
    }

    /// Starts no further transfer and closes this direction after the pending data.
    pub fn finish(&mut self) {
        self.shut = true;
        if let Role::Source { feed, .. } = &mut self.role {
            *feed = DataSource::Given;
        }
    }

    /// Reads, writes and closes as far as possible.
    pub fn step(
        &mut self,
        now: Time,
        slot: SocketId,
        spec: &WorkloadSpec,
        sockets: &mut impl Sockets,
        done: &mut Vec<AppCompletion>,
    ) -> EndpointStep {
        let mut next = self.read(now, slot, spec, sockets, done);
        next = next.min(self.write(now, slot, spec, sockets));
        if spec.behaviour == Behaviour::Exchange && self.owed == 0 {
            next = next.min(self.read(now, slot, spec, sockets, done));
        }
        if self.shut && self.owed == 0 && !self.was_shut && !self.has_frame() {
            self.was_shut = true;
            sockets.shutdown(slot);
        }
        // A peer that closed only its direction still waits for the response.
        let over = sockets.peer_closed(slot) && !(spec.half_close && self.owed > 0);
        if over {
            match self.role {
                Role::Source { .. } if self.was_shut => done.push(self.flow_over(now, true)),
                // The peer closed before this endpoint finished.
                Role::Source { .. } | Role::Requester { .. } | Role::Streams(_) => self.fail(now, done),
                // Responses that the socket has not accepted have no reader any more.
                Role::Responder { .. } | Role::Echo | Role::Exchanger { .. } | Role::Sink => {}
            }
            sockets.close(slot);
        }
        EndpointStep { next: if over { Time::MAX } else { next }, over }
    }

    fn read(
        &mut self,
        now: Time,
        slot: SocketId,
        spec: &WorkloadSpec,
        sockets: &mut impl Sockets,
        done: &mut Vec<AppCompletion>,
    ) -> Time {
        loop {
            let readable = sockets.readable(slot);
            if readable.is_zero() {
                return Time::MAX;
            }
            if spec.behaviour == Behaviour::Exchange {
                if let Role::Exchanger { response, begun, .. } = &mut self.role
                    && !std::mem::replace(begun, true)
                {
                    self.owed += *response;
                }
                if self.owed > 0 {
                    return Time::MAX;
                }
            }
            let mut n = readable.min(spec.read_size.unwrap_or(Bytes::MAX));
            if let Some(rate) = spec.read_rate {
                if now < self.next_read {
                    return self.next_read;
                }
                n = n.min(spec.read_size.unwrap_or(SLOW_READ));
                self.next_read = now.max(self.next_read) + rate.tx_time(n, &mut self.read_carry);
            }
            let got = sockets.read(slot, n);
            if got.is_zero() {
                return Time::MAX;
            }
            self.consume(now, got.get(), spec, done);
            if got == readable {
                return Time::MAX;
            }
        }
    }

    /// Bytes arrived; messages are delimited by their length.
    fn consume(&mut self, now: Time, mut n: u64, spec: &WorkloadSpec, done: &mut Vec<AppCompletion>) {
        match &mut self.role {
            Role::Source { .. } | Role::Sink => {}
            Role::Echo => self.owed += n,
            Role::Exchanger { left, .. } => {
                // The client sends its next request when it has the response to this one.
                *left = left.saturating_sub(n);
                if *left == 0 {
                    let (left, response) = self.draw_message(spec);
                    self.role = Role::Exchanger { left, response, begun: false };
                }
            }
            Role::Requester { waiting } => {
                while let (true, Some(first)) = (n > 0, waiting.front_mut()) {
                    let taken = n.min(first.left);
                    first.left -= taken;
                    n -= taken;
                    if first.left == 0 {
                        let request = waiting.pop_front().expect("it is the first");
                        done.push(completion(self.key, request, now, true));
                    }
                }
            }
            Role::Streams(streams) => {
                done.extend(
                    streams.answered(n).into_iter().map(|message| message_over(self.key, message, now, true)),
                );
            }
            Role::Responder { .. } => {
                while n > 0 {
                    let Role::Responder { left, response } = &mut self.role else { unreachable!() };
                    let taken = n.min(*left);
                    *left -= taken;
                    n -= taken;
                    if *left == 0 {
                        self.owed += *response;
                        let (left, response) = match spec.behaviour {
                            Behaviour::Streams => (FRAME, *response),
                            _ => self.draw_message(spec),
                        };
                        self.role = Role::Responder { left, response };
                    }
                }
            }
        }
    }

    /// Writes pending data. Returns the time at which a timer produces more data.
    fn write(&mut self, now: Time, slot: SocketId, spec: &WorkloadSpec, sockets: &mut impl Sockets) -> Time {
        let call = spec.write_size.unwrap_or(Bytes::MAX);
        let mut written = 0;
        let mut next = Time::MAX;
        if let Role::Source { feed, .. } = &mut self.role {
            match feed {
                DataSource::Given => {}
                DataSource::Endless => loop {
                    let want = call.min(Bytes::new(1 << 40));
                    let taken = sockets.write(slot, want);
                    written += taken.get();
                    if taken < want {
                        break;
                    }
                },
                DataSource::Paced { next: tick, carry } => {
                    while *tick <= now {
                        let burst = spec.burst.draw(&mut self.sizes);
                        self.owed += burst.get();
                        *tick += spec.rate.expect("checked: paced has a rate").tx_time(burst, carry);
                    }
                    next = *tick;
                }
                DataSource::OnOff { next: tick } => {
                    if self.owed == 0 && *tick <= now {
                        self.owed = spec.burst.draw(&mut self.sizes).get();
                    }
                }
            }
        }
        while self.owed > 0 || self.take_frame(spec) {
            let want = call.min(Bytes::new(self.owed));
            let taken = sockets.write(slot, want);
            self.owed -= taken.get();
            written += taken.get();
            if taken < want {
                break;
            }
        }
        if let Role::Source { total, feed, .. } = &mut self.role {
            *total += written;
            if let DataSource::OnOff { next: tick } = feed {
                if written > 0 && self.owed == 0 {
                    *tick = now.saturating_add(spec.gap.draw(&mut self.sizes));
                }
                if self.owed == 0 {
                    next = *tick;
                }
            }
        }
        next
    }

    fn has_frame(&self) -> bool {
        matches!(&self.role, Role::Streams(streams) if streams.has_frame())
    }

    /// Whether a frame of a stream is to be written next, as soon as the one before was taken.
    fn take_frame(&mut self, spec: &WorkloadSpec) -> bool {
        let Role::Streams(streams) = &mut self.role else { return false };
        self.owed = streams.next_frame(spec.order, answer(spec)).unwrap_or(0);
        self.owed > 0
    }

    /// All transfers in progress have failed.
    pub fn fail(&mut self, now: Time, done: &mut Vec<AppCompletion>) {
        if let Role::Requester { waiting } = &mut self.role {
            for request in waiting.drain(..) {
                done.push(completion(self.key, request, now, false));
            }
        } else if let Role::Streams(streams) = &mut self.role {
            let lost = streams.fail();
            done.extend(lost.into_iter().map(|message| message_over(self.key, message, now, false)));
        } else if let Role::Source { .. } = self.role {
            done.push(self.flow_over(now, false));
        }
    }

    fn flow_over(&self, now: Time, ok: bool) -> AppCompletion {
        let Role::Source { started, total, .. } = self.role else { panic!("only a source is a flow") };
        AppCompletion {
            kind: AppCompletionKind::Flow,
            key: self.key,
            request: Bytes::new(total),
            response: Bytes::ZERO,
            start: started,
            end: now,
            ok,
        }
    }
}

fn completion(key: ConnKey, request: Request, end: Time, ok: bool) -> AppCompletion {
    AppCompletion {
        kind: AppCompletionKind::Rpc,
        key,
        request: Bytes::new(request.asks),
        response: Bytes::new(request.answer),
        start: request.start,
        end,
        ok,
    }
}

fn message_over(key: ConnKey, message: Message, end: Time, ok: bool) -> AppCompletion {
    let Message { start, asks, answers, .. } = message;
    completion(key, Request { start, asks, answer: answers, left: 0 }, end, ok)
}

/// Bytes of the answer to a frame.
fn answer(spec: &WorkloadSpec) -> u64 {
    match spec.response {
        SizeDistribution::Fixed(bytes) => bytes.get().max(1),
        _ => unreachable!("checked: answers to frames have one size"),
    }
}
