//! The model as a stack under test: connections in virtual time.

use super::calls::Attempt;
use super::config::{self, Open};
use super::fastopen::Cache;
use super::packet::{Layout, Map, ecn_of, fast_open_of, lay_out};
use super::socket::{File, Role, Socket};
use super::stack::{Answer, Sent, Stack, Step, Trouble};
use super::world::{Route, World};
use super::{calls, info};
use crate::ast::{Body, Call, Opt, Packet, Tcp};
use crate::code::Value;
use crate::host::{Door, Host};
use crate::settings::Settings;
use std::collections::BTreeMap;
use tcpassay_tcp::{LogEntry, Profile, State};
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// What packets are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Nothing yet.
    None,
    /// A listening socket: the next inbound packet makes a connection.
    Listener(i64),
    /// A connection.
    Peer(usize),
}

/// The model TCP with one profile, its sockets and its host.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) profile: Profile,
    pub(super) settings: Settings,
    pub(super) host: Host,
    pub(super) world: World,
    pub(super) files: BTreeMap<i64, File>,
    pub(super) target: Target,
    /// When the call in progress began, and how much of it is written.
    pub(super) call_began: Time,
    pub(super) written: u64,
    /// The call in progress waits for room to write.
    pub(super) waits: bool,
    /// The call in progress has opened a connection.
    pub(super) fast_call: bool,
    /// Fast Open's.
    pub(super) fast_open: Cache,
    /// The call that blocks, when it is one that gives up by itself: when it does.
    wake: Option<Time>,
    /// What executes commands that are allowed.
    door: Option<Door>,
    /// The descriptor that the last call made, until it has a name.
    made: Option<File>,
    /// The number that the last call left behind, beside its result.
    pub(super) told: i64,
}

impl Model {
    /// A host without sockets.
    pub fn new(profile: Profile) -> Model {
        Model {
            profile,
            settings: Settings::default(),
            host: Host::default(),
            world: World::default(),
            files: BTreeMap::new(),
            target: Target::None,
            call_began: Time::ZERO,
            written: 0,
            waits: false,
            fast_call: false,
            fast_open: Cache::default(),
            wake: None,
            door: None,
            made: None,
            told: 0,
        }
    }

    /// With what executes the commands that it does not know, where `--allow-shell` says that it may.
    #[must_use]
    pub fn with_door(self, door: Door) -> Model {
        Model { door: Some(door), ..self }
    }

    pub(super) fn is_bsd(&self) -> bool {
        matches!(self.profile, Profile::FreeBsd | Profile::FreeBsdRack)
    }

    /// What the packets that follow are about, for who knows better than the order of the calls.
    pub fn turn(&mut self, target: Target) {
        self.target = target;
    }

    /// How many connections there are; the next has this number.
    pub fn connections(&self) -> usize {
        self.world.peers.len()
    }

    /// The connection of a descriptor.
    pub fn connection_of(&self, fd: i64) -> Option<usize> {
        match self.files.get(&fd)? {
            File::Socket(socket) => socket.peer(),
            File::Epoll(_) | File::Plain => None,
        }
    }

    /// Whether a connection is over.
    pub fn is_closed(&self, conn: usize) -> bool {
        self.world.peers[conn].conn.state() == State::Closed
    }

    /// The number that the last call left behind, beside its result (`getsockopt`, `ioctl`).
    pub fn told(&self) -> i64 {
        self.told
    }

    fn layout(&self) -> Layout {
        if self.is_bsd() { Layout::FreeBsd } else { Layout::Linux }
    }

    fn answer(&mut self, attempt: Attempt) -> Answer {
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
    fn gives_up(&self, call: &Call) -> Option<Time> {
        let index = match call.name.as_str() {
            "poll" => 2,
            "epoll_wait" => 3,
            _ => return None,
        };
        let ms = calls::int(&call.args, index).ok().and_then(|ms| u64::try_from(ms).ok())?;
        Some(self.call_began.saturating_add(Dur::from_millis(ms.min(1 << 40))))
    }

    fn next(&self) -> Option<Time> {
        let wake = self.wake.filter(|&at| at > self.world.now);
        self.world.next_timer().into_iter().chain(wake).min()
    }

    /// The connection that the next inbound packet is for; a listening socket makes one, and where there is none a closed
    /// one answers.
    fn receiver(&mut self) -> Result<usize, Trouble> {
        let peer = match self.target {
            Target::Peer(peer) => return Ok(peer),
            Target::Listener(fd) if self.listens(fd) => return self.new_child(fd),
            Target::Listener(_) | Target::None => self.make(&Socket::new(), Open::Passive)?,
        };
        let closed = &mut self.world.peers[peer];
        closed.conn.abort(self.world.now);
        // Its answers repeat the numbers of what they answer.
        closed.map = Map::new(SeqNum::new(0));
        closed.begun = true;
        self.world.flush(peer);
        self.target = Target::Peer(peer);
        Ok(peer)
    }

    fn listens(&self, fd: i64) -> bool {
        matches!(self.files.get(&fd), Some(File::Socket(s)) if matches!(s.role, Role::Listening(_)))
    }

    fn new_child(&mut self, fd: i64) -> Result<usize, Trouble> {
        let Some(File::Socket(listener)) = self.files.get(&fd).cloned() else {
            return Err(Trouble::Nonsense("the listening socket is closed".to_owned()));
        };
        let peer = self.make(&listener, Open::Passive)?;
        if let Some(serve) = self.fast_open_serve(&listener) {
            self.world.peers[peer].conn.serve_fast_open(serve);
        }
        if let Some(File::Socket(listener)) = self.files.get_mut(&fd)
            && let Role::Listening(queue) = &mut listener.role
        {
            queue.push(peer);
        }
        self.target = Target::Peer(peer);
        Ok(peer)
    }

    /// A segment arrives at the connection that the script is about, or at its listening socket.
    ///
    /// # Errors
    /// There is neither; or the connection cannot be made.
    pub fn receive_segment(&mut self, segment: &Segment, ecn: Ecn) -> Result<(), Trouble> {
        let peer = self.receiver()?;
        let conn = &mut self.world.peers[peer].conn;
        let opening = conn.state() == State::SynSent;
        conn.on_segment(self.world.now, segment, ecn);
        if opening {
            self.learn_fast_open(peer, segment);
        }
        self.world.flush(peer);
        let peer = &mut self.world.peers[peer];
        peer.rooms += u64::from(peer.conn.make_space(self.world.now));
        Ok(())
    }

    fn inject_tcp(&mut self, tcp: &Tcp, ecn: Ecn) -> Result<(), Trouble> {
        let mut peer = self.receiver()?;
        let mut segment = self.live(peer, tcp)?;
        if self.world.peers[peer].conn.yields_to(&segment) {
            // A SYN for a connection that is over begins another, if a socket still listens.
            let listener = self.files.keys().rev().copied().find(|&fd| self.listens(fd));
            self.target = listener.map_or(Target::None, Target::Listener);
            let before = self.world.peers[peer].map.clone();
            peer = self.receiver()?;
            self.world.peers[peer].map.script_iss = before.script_iss;
            segment = self.live(peer, tcp)?;
        }
        let syn_fin = tcp.flags.has(Flags::SYN | Flags::FIN);
        if syn_fin && self.is_bsd() && self.host.number("net.inet.tcp.drop_synfin") == Some(1) {
            return Ok(());
        }
        if tcp.options.iter().flatten().any(|o| matches!(o, Opt::Md5(_))) {
            // Signed, and no key is set: both systems drop it without a word (`tcp_inbound_md5_hash`, `tcp_signature_check`).
            return Ok(());
        }
        if let Some(option) = fast_open_of(tcp).map_err(Trouble::Unsupported)? {
            self.world.peers[peer].conn.hear_fast_open(option);
        }
        self.receive_segment(&segment, ecn)
    }

    /// The segment of the script as the connection sees it.
    fn live(&mut self, peer: usize, tcp: &Tcp) -> Result<Segment, Trouble> {
        let peer = &mut self.world.peers[peer];
        peer.map.settled = !matches!(peer.conn.state(), State::Listen | State::SynSent) && peer.begun;
        peer.begun = true;
        peer.map.inject(tcp).map_err(Trouble::Unsupported)
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
            Target::Peer(peer) => info::look(&self.world.peers[peer], self.world.now, self.profile, name),
            Target::Listener(_) => info::look_unconnected(State::Listen, self.is_bsd(), name),
            Target::None => {
                // The socket that was made last has no connection yet.
                let (_, file) = self.files.iter().rev().find(|(_, file)| matches!(file, File::Socket(_)))?;
                let deferred = matches!(file, File::Socket(socket) if socket.deferred);
                let state = if deferred { State::SynSent } else { State::Closed };
                info::look_unconnected(state, self.is_bsd(), name)
            }
        }
    }

    fn words(&self) -> Vec<String> {
        let Some(peer) = self.target().map(|peer| &self.world.peers[peer]) else { return Vec::new() };
        let mut words = vec![format!("state: {}", info::describe(&peer.conn.info()))];
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
