//! The implementation of [`Target`] for the model. Time is virtual.

use super::args::int;
use super::connections::RouteMtu;
use super::fast_open::Cache;
use super::packets::ecn_of;
use super::socket::File;
use super::state::{Model, SocketUnderTest};
use super::{config, tcp_info};
use crate::ast::{PacketBody, ScriptPacket, Syscall};
use crate::code::CodeValue;
use crate::run::sequence_map::SequenceMap;
use crate::run::target::{ScriptError, SentPacket, StepResult, SyscallResult, Target};
use crate::run::tcp_options::{OptionLayout, ordered_options};
use crate::settings::ScriptSettings;
use tcpassay_tcp::{LogEntry, State};
use tcpassay_units::{Bytes, Dur, Time};

impl Model {
    pub(super) fn layout(&self) -> OptionLayout {
        if self.is_bsd() { OptionLayout::FreeBsd } else { OptionLayout::Linux }
    }

    /// Time at which the timeout of a blocked `poll` or `epoll_wait` ends.
    pub(super) fn gives_up(&self, call: &Syscall) -> Option<Time> {
        let index = match call.name.as_str() {
            "poll" => 2,
            "epoll_wait" => 3,
            _ => return None,
        };
        let ms = int(&call.args, index).ok().and_then(|ms| u64::try_from(ms).ok())?;
        Some(self.call_began.saturating_add(Dur::from_millis(ms.min(1 << 40))))
    }

    pub(super) fn next(&self) -> Option<Time> {
        let wake = self.wake.filter(|&at| at > self.table.now);
        self.table.next_timer().into_iter().chain(wake).min()
    }
}

impl Target for Model {
    fn platform(&self) -> &'static str {
        if self.is_bsd() { "FreeBSD" } else { "Linux" }
    }

    fn begin(&mut self, settings: &ScriptSettings) -> Result<(), ScriptError> {
        self.settings = settings.clone();
        for (name, value) in &settings.sysctls {
            self.host.set(name, value);
        }
        self.host.files.extend(settings.shell_files.iter().cloned());
        Ok(())
    }

    fn now(&self) -> Time {
        self.table.now
    }

    fn step(&mut self, until: Time) -> StepResult {
        match self.next() {
            Some(at) if at <= until => {
                self.table.fire(at);
                StepResult::Acted
            }
            _ => StepResult::Quiet,
        }
    }

    fn advance_to(&mut self, until: Time) {
        self.table.now = self.table.now.max(until);
    }

    fn packet_timeout(&self) -> Dur {
        Dur::from_secs(130)
    }

    fn allowed_time_error(&self, _: Dur, _: &ScriptSettings) -> Dur {
        Dur::ZERO
    }

    fn call(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        self.call_began = self.table.now;
        self.written = 0;
        self.waits = false;
        self.fast_call = false;
        if call.name == "socket" {
            self.socket_under_test = SocketUnderTest::None;
        }
        let result = self.retry(call)?;
        self.wake = if result == SyscallResult::Blocks { self.gives_up(call) } else { None };
        Ok(result)
    }

    fn retry(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let result = self.try_syscall(call)?;
        if result != SyscallResult::Blocks {
            self.wake = None;
        }
        Ok(result)
    }

    fn name_descriptor(&mut self, fd: Option<i64>) -> i64 {
        let file = self.new_file.take();
        let fd = fd.unwrap_or_else(|| self.files.keys().next_back().map_or(3, |last| last + 1));
        self.files.extend(file.map(|file| (fd, file)));
        fd
    }

    fn inject(&mut self, packet: &ScriptPacket) -> Result<(), ScriptError> {
        match &packet.body {
            PacketBody::Tcp(tcp) => self.inject_tcp(tcp, ecn_of(packet.ip)),
            PacketBody::Icmp(icmp) => self.inject_icmp(icmp),
        }
    }

    fn next_packet(&mut self) -> Option<SentPacket> {
        let live = self.table.sent.pop_front()?;
        let segment = live.out.segment;
        let mut options = ordered_options(&segment.options, live.fast_open.as_ref(), self.layout());
        if self.table.connections[live.connection].no_options {
            options.clear();
        }
        Some(SentPacket {
            at: live.at,
            conn: live.connection,
            segment,
            options,
            tos: live.tos | live.out.ecn.bits(),
            hops: live.hops,
        })
    }

    fn connection_under_test(&self) -> Option<usize> {
        match self.socket_under_test {
            SocketUnderTest::Connection(index) => Some(index),
            _ => None,
        }
    }

    fn sequence_map(&mut self, conn: usize) -> &mut SequenceMap {
        &mut self.table.connections[conn].map
    }

    fn shell(&mut self, text: &str) -> Result<(), String> {
        let executor = self.executor.filter(|_| self.settings.allow_shell);
        let before = self.host.route.get("mtu").copied();
        let option = "net.ipv4.tcp_ecn_option";
        let before_option = self.host.number(option);
        self.host.run(text, executor)?;
        // The kernel reads this sysctl for every segment, so it also applies to existing connections.
        if let Some(n) = self.host.number(option).filter(|&n| Some(n) != before_option) {
            for entry in &mut self.table.connections {
                entry.conn.set_accurate_option(n != 0, n == 1, n == 3);
            }
        }
        self.table.no_tso = self.host.no_tso;
        self.table.set_local_drop(self.host.local_drop && !self.is_bsd());
        if let Some(&mtu) = self.host.route.get("mtu").filter(|&&mtu| Some(mtu) != before && !self.is_bsd()) {
            let size = Bytes::new(mtu.saturating_sub(config::headers(&self.settings)));
            self.table.connections.iter_mut().for_each(|entry| entry.route = Some(RouteMtu::Changed(size)));
        }
        self.fast_open_switched();
        if std::mem::take(&mut self.host.metrics_flushed) && !self.is_bsd() {
            self.fast_open = Cache::default();
        }
        let until = self.table.now + std::mem::take(&mut self.host.sleep_time);
        while self.step(until) == StepResult::Acted {}
        self.advance_to(until);
        Ok(())
    }

    fn value(&self, name: &str) -> Option<CodeValue> {
        match self.socket_under_test {
            SocketUnderTest::Connection(index) => {
                tcp_info::look(&self.table.connections[index], self.table.now, self.profile, name)
            }
            SocketUnderTest::Listener(_) => tcp_info::look_unconnected(State::Listen, self.is_bsd(), name),
            SocketUnderTest::None => {
                // The newest socket has no connection yet.
                let (_, file) = self.files.iter().rev().find(|(_, file)| matches!(file, File::Socket(_)))?;
                let deferred = matches!(file, File::Socket(socket) if socket.deferred);
                let state = if deferred { State::SynSent } else { State::Closed };
                tcp_info::look_unconnected(state, self.is_bsd(), name)
            }
        }
    }

    fn diagnostics(&self) -> Vec<String> {
        let Some(entry) = self.connection_under_test().map(|index| &self.table.connections[index]) else {
            return Vec::new();
        };
        let mut words = vec![format!("state: {}", tcp_info::describe(&entry.conn.info()))];
        words.push("the stack's last events:".to_owned());
        // An initial ssthresh is printed as `none`.
        let unset = format!("{:?}", Bytes::MAX);
        let line = |entry: &LogEntry| format!("  {} {:?}", entry.at, entry.what).replace(&unset, "none");
        words.extend(entry.log.iter().map(line));
        words
    }

    fn next_action(&self) -> String {
        self.next().map_or("no timer runs".to_owned(), |at| format!("the next timer is at {at}"))
    }
}
