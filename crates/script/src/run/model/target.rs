//! The model as the stack of a script: it runs in virtual time.

use super::args::{Attempt, int};
use super::connections::Route;
use super::fast_open::Cache;
use super::packets::ecn_of;
use super::socket::File;
use super::state::{Model, Target};
use super::{config, tcp_info};
use crate::ast::{Body, Call, Packet};
use crate::code::Value;
use crate::run::sequence_map::Map;
use crate::run::stack::{Answer, Sent, Stack, Step, Trouble};
use crate::run::tcp_options::{Layout, lay_out};
use crate::settings::Settings;
use tcpassay_tcp::{LogEntry, State};
use tcpassay_units::{Bytes, Dur, Time};

impl Model {
    pub(super) fn layout(&self) -> Layout {
        if self.is_bsd() { Layout::FreeBsd } else { Layout::Linux }
    }

    pub(super) fn answer(&mut self, attempt: Attempt) -> Answer {
        match attempt {
            Attempt::Done(n) => Answer::Done(n),
            Attempt::Error(errno) => Answer::Error(errno.to_owned()),
            Attempt::Blocks => Answer::Blocks,
            Attempt::New(file) => {
                self.made = Some(*file);
                Answer::New
            }
        }
    }

    /// When a `poll` that waits gives up.
    pub(super) fn gives_up(&self, call: &Call) -> Option<Time> {
        let index = match call.name.as_str() {
            "poll" => 2,
            "epoll_wait" => 3,
            _ => return None,
        };
        let ms = int(&call.args, index).ok().and_then(|ms| u64::try_from(ms).ok())?;
        Some(self.call_began.saturating_add(Dur::from_millis(ms.min(1 << 40))))
    }

    pub(super) fn next(&self) -> Option<Time> {
        let wake = self.wake.filter(|&at| at > self.world.now);
        self.world.next_timer().into_iter().chain(wake).min()
    }
}

impl Stack for Model {
    fn platform(&self) -> &'static str {
        if self.is_bsd() { "FreeBSD" } else { "Linux" }
    }

    fn begin(&mut self, settings: &Settings) -> Result<(), Trouble> {
        self.settings = settings.clone();
        for (name, value) in &settings.sysctls {
            self.host.set(name, value);
        }
        self.host.files.extend(settings.shell_files.iter().cloned());
        Ok(())
    }

    fn now(&self) -> Time {
        self.world.now
    }

    fn step(&mut self, until: Time) -> Step {
        match self.next() {
            Some(at) if at <= until => {
                self.world.fire(at);
                Step::Acted
            }
            _ => Step::Quiet,
        }
    }

    fn reach(&mut self, until: Time) {
        self.world.now = self.world.now.max(until);
    }

    fn patience(&self) -> Dur {
        Dur::from_secs(130)
    }

    fn slack(&self, _: Dur, _: &Settings) -> Dur {
        Dur::ZERO
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Trouble> {
        self.call_began = self.world.now;
        self.written = 0;
        self.waits = false;
        self.fast_call = false;
        if call.name == "socket" {
            self.target = Target::None;
        }
        let answer = self.retry(call)?;
        self.wake = if answer == Answer::Blocks { self.gives_up(call) } else { None };
        Ok(answer)
    }

    fn retry(&mut self, call: &Call) -> Result<Answer, Trouble> {
        let attempt = self.attempt(call)?;
        let answer = self.answer(attempt);
        if answer != Answer::Blocks {
            self.wake = None;
        }
        Ok(answer)
    }

    fn made(&mut self, fd: Option<i64>) -> i64 {
        let file = self.made.take();
        let fd = fd.unwrap_or_else(|| self.files.keys().next_back().map_or(3, |last| last + 1));
        self.files.extend(file.map(|file| (fd, file)));
        fd
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Trouble> {
        match &packet.body {
            Body::Tcp(tcp) => self.inject_tcp(tcp, ecn_of(packet.ip)),
            Body::Icmp(icmp) => self.inject_icmp(icmp),
        }
    }

    fn take(&mut self) -> Option<Sent> {
        let live = self.world.sent.pop_front()?;
        let segment = live.out.segment;
        let mut options = lay_out(&segment.options, live.fast_open.as_ref(), self.layout());
        if self.world.peers[live.peer].bare {
            options.clear();
        }
        Some(Sent {
            at: live.at,
            conn: live.peer,
            segment,
            options,
            tos: live.tos | live.out.ecn.bits(),
            hops: live.hops,
        })
    }

    fn target(&self) -> Option<usize> {
        match self.target {
            Target::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    fn map(&mut self, conn: usize) -> &mut Map {
        &mut self.world.peers[conn].map
    }

    fn shell(&mut self, text: &str) -> Result<(), String> {
        let door = self.door.filter(|_| self.settings.allow_shell);
        let before = self.host.route.get("mtu").copied();
        let option = "net.ipv4.tcp_ecn_option";
        let told = self.host.number(option);
        self.host.run(text, door)?;
        // The kernel asks at every segment.
        if let Some(n) = self.host.number(option).filter(|&n| Some(n) != told) {
            for peer in &mut self.world.peers {
                peer.conn.set_accurate_option(n != 0, n == 1, n == 3);
            }
        }
        self.world.cut = self.host.no_tso;
        self.world.jam(self.host.jammed && !self.is_bsd());
        if let Some(&mtu) = self.host.route.get("mtu").filter(|&&mtu| Some(mtu) != before && !self.is_bsd()) {
            let size = Bytes::new(mtu.saturating_sub(config::headers(&self.settings)));
            self.world.peers.iter_mut().for_each(|peer| peer.route = Some(Route::Changed(size)));
        }
        self.fast_open_switched();
        if std::mem::take(&mut self.host.forgot_peers) && !self.is_bsd() {
            self.fast_open = Cache::default();
        }
        let until = self.world.now + std::mem::take(&mut self.host.slept);
        while self.step(until) == Step::Acted {}
        self.reach(until);
        Ok(())
    }

    fn value(&self, name: &str) -> Option<Value> {
        match self.target {
            Target::Peer(peer) => tcp_info::look(&self.world.peers[peer], self.world.now, self.profile, name),
            Target::Listener(_) => tcp_info::look_unconnected(State::Listen, self.is_bsd(), name),
            Target::None => {
                // The socket that was made last has no connection yet.
                let (_, file) = self.files.iter().rev().find(|(_, file)| matches!(file, File::Socket(_)))?;
                let deferred = matches!(file, File::Socket(socket) if socket.deferred);
                let state = if deferred { State::SynSent } else { State::Closed };
                tcp_info::look_unconnected(state, self.is_bsd(), name)
            }
        }
    }

    fn words(&self) -> Vec<String> {
        let Some(peer) = self.target().map(|peer| &self.world.peers[peer]) else { return Vec::new() };
        let mut words = vec![format!("state: {}", tcp_info::describe(&peer.conn.info()))];
        words.push("the stack's last events:".to_owned());
        // A threshold that was never set has no number.
        let unset = format!("{:?}", Bytes::MAX);
        let line = |entry: &LogEntry| format!("  {} {:?}", entry.at, entry.what).replace(&unset, "none");
        words.extend(peer.log.iter().map(line));
        words
    }

    fn outlook(&self) -> String {
        self.next().map_or("no timer runs".to_owned(), |at| format!("the next timer is at {at}"))
    }
}
