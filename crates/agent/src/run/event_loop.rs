//! The loop that runs the applications.
//!
//! The loop sleeps in epoll until a socket is ready, a timer of an application is due, or the next tick (1 ms, or the interval of the
//! series). In real time a tick that was missed is made up for with the present values.

use crate::environment::Environment;
use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::run::collectors::{Collectors, TICK};
use crate::system::Failure;
use crate::traffic::app_calls::AppCalls;
use crate::traffic::runtime::TrafficRuntime;
use crate::traffic::udp_background::UdpBackground;
use crate::traffic::{EpollToken, Readiness};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tcpassay_case::{Case, completion};
use tcpassay_linux::sys;
use tcpassay_units::{Dur, Time};
use tcpassay_workload::{Apps, HostIndex, TrafficSchedule};

/// In real time the process wakes this long before the start and does not sleep again until then, in nanoseconds: a processor that was idle
/// wakes late, and a process that has slept has lost its place in the caches.
const EARLY: u64 = 500_000;
/// An agent that opens no connection goes first from this time before the start, in nanoseconds. It is above the usual difference of the
/// clocks of two agents.
const NEAR: u64 = 50_000;

/// The controller of a testbed, as the run on one machine sees it.
pub trait Conductor {
    /// The descriptor on which the controller's messages arrive.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Lets a time pass.
    ///
    /// # Errors
    /// The connection to the controller ended.
    fn wait(&mut self, time: Duration) -> Result<(), Failure>;
    /// Opens what measures the paths to other machines, before they report that they are ready.
    ///
    /// # Errors
    /// A socket that cannot be opened.
    fn open_path(
        &mut self,
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<(), Failure>;
    /// Reports that everything is ready, and waits. Returns when the traffic starts, by the clock of this machine in nanoseconds.
    ///
    /// # Errors
    /// As for [`Conductor::wait`].
    fn start(&mut self) -> Result<u64, Failure>;
    /// Other agents that share the processor, and open connections at the start, wait for this one from now on.
    fn go_first(&mut self);
    /// The first connections of this machine have sent their SYNs.
    ///
    /// # Errors
    /// A system call that fails.
    fn started(&mut self) -> Result<(), Failure>;
    /// Reports whether all applications of this machine have finished.
    ///
    /// # Errors
    /// As for [`Conductor::wait`].
    fn report_idle(&mut self, at: Time, idle: bool) -> Result<(), Failure>;
    /// Reads a message. Returns when the run ended, if the controller ends it.
    ///
    /// # Errors
    /// As for [`Conductor::wait`].
    fn read(&mut self) -> Result<Option<Time>, Failure>;
}

/// The applications of a run, their sockets and the collectors.
pub struct EventLoop<'a> {
    pub case: &'a Case,
    pub runtime: TrafficRuntime<'a>,
    pub collectors: Collectors<'a>,
    pub udp: Option<UdpBackground>,
    /// The longest delay of a tick.
    pub max_delay: Dur,
    /// The delay of the first action of the applications.
    pub start_delay: Dur,
    /// All applications finished before the end of the case.
    pub finished: bool,
    /// Time at which all applications of a testbed had finished.
    pub ended: Option<Time>,
    /// The controller of a testbed.
    pub conductor: Option<&'a mut dyn Conductor>,
    /// The state that was last reported: true if all applications of this machine have finished.
    idle: bool,
    /// The start of the run by the kernel's clock, in nanoseconds.
    start: u64,
    real_time: bool,
    schedule: Arc<TrafficSchedule>,
    apps: Vec<Apps>,
}

/// The times at which the loop acts without an event.
struct Timetable {
    /// The interval of ticks.
    interval: Dur,
    /// The next tick.
    tick: Time,
    /// The latest time at which the collectors are read.
    collect: Time,
    /// The time to which the timer is set; `Time::MAX` if it is not set.
    armed: Time,
}

impl<'a> EventLoop<'a> {
    /// A loop for the applications of `schedule`. The run begins at `start` of the kernel's clock.
    pub fn new(
        case: &'a Case,
        environment: &Environment,
        schedule: Arc<TrafficSchedule>,
        start: u64,
        runtime: TrafficRuntime<'a>,
        collectors: Collectors<'a>,
        udp: Option<UdpBackground>,
    ) -> EventLoop<'a> {
        let apps = (0u32..).zip(&case.hosts).map(|(i, _)| schedule.apps(HostIndex(i))).collect();
        EventLoop {
            case,
            runtime,
            collectors,
            udp,
            max_delay: Dur::ZERO,
            start_delay: Dur::ZERO,
            finished: false,
            ended: None,
            conductor: None,
            idle: false,
            start,
            real_time: environment.is_host(),
            schedule,
            apps,
        }
    }

    /// Runs to the end of the case, or until all applications have finished.
    pub fn run(&mut self) -> Result<(), Failure> {
        let end = Time::ZERO + self.case.end;
        let topology = self.collectors.topology;
        for (_, apps) in self.apps.iter_mut().enumerate().filter(|(host, _)| topology.has_host(*host)) {
            apps.start(Time::ZERO);
        }
        if let Some(conductor) = &self.conductor {
            let token = EpollToken::Control.number();
            sys::watch(self.runtime.epoll.as_fd(), conductor.fd(), libc::EPOLLIN, token)
                .map_err(|e| epoll_error(&e))?;
        }
        self.collectors.start(&mut self.runtime)?;
        let timer = self.wait_for_start()?;
        let interval = self.runtime.collector.collect().series.unwrap_or(TICK);
        let mut timetable = Timetable { interval, tick: Time::ZERO, collect: Time::ZERO, armed: Time::MAX };
        let mut events = Vec::new();
        loop {
            let now = self.runtime.now();
            self.tick(now, &mut timetable)?;
            if now >= end {
                return Ok(());
            }
            self.run_applications(now);
            if let Some(why) = self.runtime.failure.take() {
                return Err(why);
            }
            if self.is_over(now)? {
                self.finished = true;
                return self.collectors.sample(now, &mut self.runtime);
            }
            if now >= timetable.collect {
                // A guest's packets are read after every wake-up. In real time a reader would delay the applications, so that the
                // packets are read only as often as the rings of the taps need it.
                if self.real_time {
                    self.runtime.read_packets();
                }
                self.collectors.read_trace(&mut self.runtime);
                timetable.collect = now + TICK;
            }
            self.sleep(&timer, end, &mut timetable, &mut events)?;
            self.dispatch(&events, &mut timetable)?;
        }
    }

    /// Returns true if all applications have finished. On a testbed the controller knows whether those of other machines have.
    fn is_over(&mut self, now: Time) -> Result<bool, Failure> {
        let idle = self.udp.is_none() && self.apps.iter().all(Apps::is_idle);
        let Some(conductor) = &mut self.conductor else { return Ok(idle) };
        if idle != self.idle {
            self.idle = idle;
            conductor.report_idle(now, idle)?;
        }
        Ok(self.ended.is_some())
    }

    /// Sleeps until the start of the run; in real time the applications begin. Returns the timer of the loop, which epoll watches.
    fn wait_for_start(&mut self) -> Result<OwnedFd, Failure> {
        let timer = sys::timer().map_err(|e| epoll_error(&e))?;
        let epoll = self.runtime.epoll.as_fd();
        sys::watch(epoll, timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, EpollToken::Timer.number())
            .map_err(|e| epoll_error(&e))?;
        let wake = self.start - if self.real_time { EARLY } else { 0 };
        sys::set_timer(timer.as_fd(), wake).map_err(|e| epoll_error(&e))?;
        let mut events = Vec::new();
        while sys::now() < wake {
            sys::wait(epoll, &mut events).map_err(|e| epoll_error(&e))?;
            if let (Some(conductor), true) = (&mut self.conductor, is_control(&events)) {
                conductor.read()?;
            }
        }
        let take_turns_until = |instant: u64| {
            while sys::now() < instant {
                // The turns of agents that share a processor are longest after a sleep.
                std::thread::yield_now();
            }
        };
        take_turns_until(self.start - NEAR);
        if let (Some(conductor), false) = (&mut self.conductor, self.runtime.opens_at_start()) {
            // It needs only microseconds, and a SYN takes ten times as long.
            conductor.go_first();
        }
        take_turns_until(self.start);
        self.runtime.update_clock(None);
        let now = self.runtime.now();
        self.start_delay = now - Time::ZERO;
        self.runtime.connect_opened()?;
        // From here on other processes may run first, such as agents that start at the same instant on the same processor.
        if let Some(conductor) = &mut self.conductor {
            conductor.started()?;
        }
        if self.real_time {
            // The collectors would delay the first actions.
            self.run_applications(now);
        }
        Ok(timer)
    }

    /// Reads the collectors for each tick that is due.
    fn tick(&mut self, now: Time, timetable: &mut Timetable) -> Result<(), Failure> {
        if now >= timetable.tick {
            self.max_delay = self.max_delay.max(now - timetable.tick);
        }
        while now >= timetable.tick {
            self.collectors.sample(timetable.tick, &mut self.runtime)?;
            (timetable.tick, timetable.collect) = (timetable.tick + timetable.interval, now + TICK);
        }
        Ok(())
    }

    /// Runs the applications whose timers are due, sends the background datagrams that are due, and records completions.
    fn run_applications(&mut self, now: Time) {
        for (host, apps) in self.apps.iter_mut().enumerate() {
            if apps.next_wake().is_some_and(|at| at <= now) {
                apps.wake(now, &mut AppCalls { runtime: &mut self.runtime, host });
            }
        }
        if let Some(udp) = &mut self.udp {
            udp.send(now);
        }
        for apps in &mut self.apps {
            for done in apps.drain_completions() {
                let path = self.case.idle_path(done.key.client.0 as usize, done.key.server.0 as usize);
                self.runtime.collector.completed(completion(&done, &self.schedule, path));
            }
        }
    }

    /// Sleeps until something is due or a socket is ready, and reads the clock.
    fn sleep(
        &mut self,
        timer: &OwnedFd,
        end: Time,
        timetable: &mut Timetable,
        events: &mut Vec<(u64, i32)>,
    ) -> Result<(), Failure> {
        let wake = self.apps.iter().filter_map(Apps::next_wake).min().unwrap_or(Time::MAX);
        let datagram = self.udp.as_ref().map_or(Time::MAX, UdpBackground::next);
        let due = [wake, timetable.tick, end, timetable.collect, datagram]
            .into_iter()
            .min()
            .expect("five instants");
        if due != timetable.armed {
            sys::set_timer(timer.as_fd(), self.start + due.as_nanos()).map_err(|e| epoll_error(&e))?;
            timetable.armed = due;
        }
        sys::wait(self.runtime.epoll.as_fd(), events).map_err(|e| epoll_error(&e))?;
        let packet = if self.real_time { None } else { self.runtime.read_packets() };
        self.runtime.update_clock(packet.filter(|_| caused_by_packets(events)));
        Ok(())
    }

    /// Handles the events of epoll.
    fn dispatch(&mut self, events: &[(u64, i32)], timetable: &mut Timetable) -> Result<(), Failure> {
        for (number, flags) in events {
            match EpollToken::of(*number) {
                EpollToken::Timer => timetable.armed = Time::MAX,
                EpollToken::Control => {
                    if let Some(conductor) = &mut self.conductor {
                        self.ended = conductor.read()?.or(self.ended);
                    }
                }
                EpollToken::WritesReturned => {
                    for at in self.runtime.returned_writes() {
                        self.notify(at);
                    }
                }
                EpollToken::Listener(listener) => self.accept(listener)?,
                EpollToken::Endpoint(at) => self.ready(at, *flags),
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> Result<(), Failure> {
        let apps = &mut self.apps;
        let new = self.runtime.accept(listener, |host, key| {
            let slot = apps[host].accept(key);
            (slot, apps[host].only_reads(slot))
        })?;
        for at in new {
            self.notify(at);
        }
        Ok(())
    }

    fn ready(&mut self, at: usize, flags: i32) {
        match self.runtime.update_readiness(at, flags) {
            Readiness::Closed => {}
            Readiness::Ready => {
                if !self.runtime.only_reads(at) || self.runtime.read_available(at) {
                    self.notify(at);
                }
            }
            Readiness::Failed => {
                let Some((host, slot)) = self.runtime.owner(at) else { return };
                let now = self.runtime.now();
                self.runtime.close(at, true);
                self.apps[host].failed(now, slot, &mut AppCalls { runtime: &mut self.runtime, host });
            }
        }
    }

    /// Notifies the application of an endpoint that the endpoint is ready.
    fn notify(&mut self, at: usize) {
        let Some((host, slot)) = self.runtime.owner(at) else { return };
        let now = self.runtime.now();
        self.apps[host].ready(now, slot, &mut AppCalls { runtime: &mut self.runtime, host });
    }
}

/// Returns true if a message of the controller of a testbed has arrived.
fn is_control(events: &[(u64, i32)]) -> bool {
    events.iter().any(|(number, _)| EpollToken::of(*number) == EpollToken::Control)
}

fn epoll_error(e: &std::io::Error) -> Failure {
    format!("epoll: {e}")
}

/// Returns true if packets have caused all of these events. A timer of the loop has another cause, and so have errors and hang-ups: a
/// timer of TCP may have given up.
fn caused_by_packets(events: &[(u64, i32)]) -> bool {
    let other_cause = |(number, flags): &(u64, i32)| {
        EpollToken::of(*number) == EpollToken::Timer || flags & (libc::EPOLLERR | libc::EPOLLHUP) != 0
    };
    !events.iter().any(other_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_errors_and_hang_ups_are_not_caused_by_packets() {
        let endpoint = EpollToken::Endpoint(3).number();
        assert!(caused_by_packets(&[(endpoint, libc::EPOLLIN), (endpoint, libc::EPOLLOUT)]));
        assert!(caused_by_packets(&[]));
        assert!(!caused_by_packets(&[(endpoint, libc::EPOLLIN), (0, libc::EPOLLIN)]));
        assert!(!caused_by_packets(&[(endpoint, libc::EPOLLIN | libc::EPOLLERR)]));
        assert!(!caused_by_packets(&[(endpoint, libc::EPOLLHUP)]));
    }
}
