//! `poll` and `epoll`.

use super::calls::{Attempt, Tried, int, unsupported};
use super::model::Model;
use super::socket::{File, Role, Wakes, Watch};
use super::stack::Trouble;
use crate::ast::Expr;
use tcpassay_tcp::State;

const IN: i64 = 1;
const OUT: i64 = 4;
const ERR: i64 = 8;
const HUP: i64 = 16;
const RDHUP: i64 = 0x2000;
const ONESHOT: i64 = 1 << 30;
const EDGE: i64 = 1 << 31;

/// Most descriptors of one call.
const MOST: usize = 1024;

/// The bits of `POLLIN|POLLOUT`, or of their `EPOLL` names.
fn bits(e: &Expr) -> Result<i64, Trouble> {
    let Expr::Names(names) = e else {
        return match e {
            Expr::Int(n) => Ok(*n),
            _ => Err(Trouble::Nonsense("events are names joined by `|`".to_owned())),
        };
    };
    let mut made = 0;
    for name in names {
        made |= match name.trim_start_matches('E') {
            "POLLIN" => IN,
            "POLLRDNORM" => 0x40,
            "POLLOUT" => OUT,
            "POLLWRNORM" => 0x100,
            "POLLERR" => ERR,
            "POLLHUP" => HUP,
            "POLLRDHUP" => RDHUP,
            "POLLPRI" => 2,
            "POLLONESHOT" => ONESHOT,
            "POLLET" => EDGE,
            // One of several watchers is woken; here there is one.
            "POLLEXCLUSIVE" | "0" => 0,
            _ => return unsupported(format!("the event {name}")),
        };
    }
    Ok(made)
}

fn words(bits: i64) -> String {
    let all = [(IN, "IN"), (2, "PRI"), (OUT, "OUT"), (ERR, "ERR"), (HUP, "HUP"), (RDHUP, "RDHUP")];
    let set: Vec<String> =
        all.iter().filter(|(b, _)| bits & b != 0).map(|(_, n)| format!("POLL{n}")).collect();
    if set.is_empty() { "0".to_owned() } else { set.join("|") }
}

fn member<'a>(members: &'a [(String, Expr)], name: &str) -> Option<&'a Expr> {
    members.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}

fn number(e: Option<&Expr>) -> Result<i64, Trouble> {
    match e {
        Some(Expr::Int(n)) => Ok(*n),
        _ => Err(Trouble::Nonsense("a descriptor must be a number".to_owned())),
    }
}

impl Model {
    /// What has happened on a socket, as `poll` has it (Linux `tcp_poll`).
    ///
    /// # Errors
    /// It is no socket.
    pub fn ready(&mut self, fd: i64) -> Result<i64, Trouble> {
        let socket = self.socket_at(fd)?.clone();
        let peer = match &socket.role {
            // A connect that is put off is in SYN-SENT, and says that it can write (`tcp_poll`).
            Role::Fresh if socket.deferred => return Ok(OUT),
            Role::Fresh => return Ok(OUT | HUP),
            Role::Listening(queue) => {
                let open = queue.iter().any(|&p| self.world.peers[p].conn.was_established());
                return Ok(if open { IN } else { 0 });
            }
            Role::Connected(peer) => *peer,
        };
        let conn = &self.world.peers[peer].conn;
        let mut mask = 0;
        let gone = conn.state() == State::Closed;
        let read_over = socket.shut_read || conn.peer_has_closed() || gone;
        if gone || (read_over && socket.shut_write) {
            mask |= HUP;
        }
        if read_over {
            mask |= IN | RDHUP;
        }
        if conn.readable().get() > 0 {
            mask |= IN;
        }
        let opening = match conn.state() {
            State::SynSent => true,
            State::SynReceived => !conn.is_fast_open_child(),
            _ => false,
        };
        if !opening && (socket.shut_write || gone || conn.has_room()) {
            mask |= OUT;
        }
        if conn.error().is_some() && !socket.error_told || !self.world.peers[peer].errors.is_empty() {
            mask |= ERR;
        }
        Ok(mask)
    }

    pub(super) fn poll(&mut self, args: &[Expr]) -> Tried {
        let Some(Expr::List(items)) = args.first() else {
            return Err(Trouble::Nonsense("poll wants `[{fd=3, events=POLLIN, revents=POLLIN}]`".to_owned()));
        };
        let timeout = int(args, 2)?;
        if items.len() > MOST {
            return unsupported(format!("poll of more than {MOST} descriptors"));
        }
        let mut expected = Vec::new();
        let mut live = Vec::new();
        let mut count = 0;
        for item in items {
            let Expr::Group(members) = item else {
                return Err(Trouble::Nonsense("a descriptor of poll".to_owned()));
            };
            let fd = number(member(members, "fd"))?;
            let asked = bits(member(members, "events").unwrap_or(&Expr::Int(0)))?;
            let revents = self.ready(fd)? & (asked | ERR | HUP);
            count += i64::from(revents != 0);
            live.push(words(revents));
            match member(members, "revents") {
                Some(Expr::Any) | None => expected.push(words(revents)),
                Some(e) => expected.push(words(bits(e)?)),
            }
        }
        if count == 0 && timeout != 0 && !self.wait_over(timeout) {
            return Ok(Attempt::Blocks);
        }
        if expected == live {
            return Ok(Attempt::Done(count));
        }
        Err(Trouble::Mismatch { expected: expected.join(", "), live: live.join(", ") })
    }

    pub(super) fn epoll_ctl(&mut self, args: &[Expr]) -> Tried {
        let (epoll, fd) = (int(args, 0)?, int(args, 2)?);
        let events = match args.get(3) {
            Some(Expr::Group(members)) => bits(member(members, "events").unwrap_or(&Expr::Int(0)))?,
            _ => 0,
        };
        let File::Epoll(watches) = self.file(epoll)? else {
            return Err(Trouble::Nonsense(format!("descriptor {epoll} is not one of epoll")));
        };
        let at = watches.iter().position(|w| w.fd == fd);
        let watch = Watch { fd, events, seen: 0, disarmed: false, wakes: Wakes::default() };
        match (super::calls::names(args, 1).as_slice(), at) {
            (["EPOLL_CTL_ADD"], None) => watches.push(watch),
            (["EPOLL_CTL_ADD"], Some(_)) => return Ok(Attempt::Error("EEXIST")),
            (["EPOLL_CTL_MOD"], Some(at)) => watches[at] = watch,
            (["EPOLL_CTL_DEL"], Some(at)) => {
                watches.remove(at);
            }
            _ => return Ok(Attempt::Error("ENOENT")),
        }
        Ok(Attempt::Done(0))
    }

    pub(super) fn epoll_wait(&mut self, args: &[Expr]) -> Tried {
        let epoll = int(args, 0)?;
        let timeout = int(args, 3)?;
        let File::Epoll(mut watches) = self.file(epoll)?.clone() else {
            return Err(Trouble::Nonsense(format!("descriptor {epoll} is not one of epoll")));
        };
        let mut live = Vec::new();
        for watch in watches.iter_mut().filter(|w| !w.disarmed) {
            let now = self.ready(watch.fd)? & (watch.events | ERR | HUP);
            // An edge: something that was not there when this was last reported, or somebody was woken for since.
            let wakes = self.wakes(watch.fd);
            let woken = wakes.errors > watch.wakes.errors && now & ERR != 0
                || wakes.rooms > watch.wakes.rooms && now & OUT != 0
                || wakes.arrivals > watch.wakes.arrivals && now & IN != 0;
            let fresh = if watch.events & EDGE == 0 || woken { now } else { now & !watch.seen };
            watch.seen &= now;
            if fresh != 0 {
                live.push(words(now));
                watch.seen = now;
                watch.wakes = wakes;
                watch.disarmed = watch.events & ONESHOT != 0;
            }
        }
        if live.is_empty() && timeout != 0 && !self.wait_over(timeout) {
            let File::Epoll(kept) = self.file(epoll)? else { unreachable!("seen above") };
            *kept = watches;
            return Ok(Attempt::Blocks);
        }
        let File::Epoll(kept) = self.file(epoll)? else { unreachable!("seen above") };
        *kept = watches;
        let count = i64::try_from(live.len()).expect("few descriptors");
        let wanted = match args.get(1) {
            Some(Expr::Group(members)) => {
                vec![words(bits(member(members, "events").unwrap_or(&Expr::Int(0)))?)]
            }
            Some(Expr::List(items)) => {
                let mut wanted = Vec::new();
                for item in items {
                    if let Expr::Group(members) = item {
                        wanted.push(words(bits(member(members, "events").unwrap_or(&Expr::Int(0)))?));
                    }
                }
                wanted
            }
            _ => return Ok(Attempt::Done(count)),
        };
        if count > 0 && wanted != live {
            return Err(Trouble::Mismatch { expected: wanted.join(", "), live: live.join(", ") });
        }
        Ok(Attempt::Done(count))
    }

    /// How often somebody was woken who waits for this socket.
    fn wakes(&mut self, fd: i64) -> Wakes {
        let Some(File::Socket(socket)) = self.files.get(&fd) else { return Wakes::default() };
        match &socket.role {
            Role::Fresh => Wakes::default(),
            Role::Listening(queue) => {
                let open = queue.iter().filter(|&&p| self.world.peers[p].conn.was_established()).count();
                let arrivals = socket.accepted + u64::try_from(open).expect("few connections");
                Wakes { arrivals, ..Wakes::default() }
            }
            Role::Connected(peer) => {
                let peer = &self.world.peers[*peer];
                // The end of the stream wakes readers, too.
                let arrivals = peer.times.bytes + u64::from(peer.conn.peer_has_closed());
                Wakes { errors: peer.errors.wakes, rooms: peer.rooms, arrivals }
            }
        }
    }

    /// Whether a call that waits for `timeout` milliseconds (for ever when negative) has waited so long.
    fn wait_over(&self, timeout: i64) -> bool {
        u64::try_from(timeout).is_ok_and(|ms| self.world.now.since(self.call_began).as_millis() >= ms)
    }
}
