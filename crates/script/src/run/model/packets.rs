//! Packets of the script that arrive at the model.

use super::socket::{File, Open, Role, Socket};
use super::state::{Model, Target};
use crate::ast::{IpField, Opt, Tcp};
use crate::run::sequence_map::Map;
use crate::run::stack::Trouble;
use crate::run::tcp_options::fast_open_of;
use tcpassay_tcp::State;
use tcpassay_units::SeqNum;
use tcpassay_wire::{Ecn, Flags, Segment};

impl Model {
    /// The connection that the next inbound packet is for; a listening socket makes one, and where there is none a closed
    /// one answers.
    pub(super) fn receiver(&mut self) -> Result<usize, Trouble> {
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

    pub(super) fn new_child(&mut self, fd: i64) -> Result<usize, Trouble> {
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

    pub(super) fn inject_tcp(&mut self, tcp: &Tcp, ecn: Ecn) -> Result<(), Trouble> {
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
    pub(super) fn live(&mut self, peer: usize, tcp: &Tcp) -> Result<Segment, Trouble> {
        let peer = &mut self.world.peers[peer];
        peer.map.settled = !matches!(peer.conn.state(), State::Listen | State::SynSent) && peer.begun;
        peer.begun = true;
        peer.map.inject(tcp).map_err(Trouble::Unsupported)
    }
}

/// The ECN field that the script injects.
pub(super) fn ecn_of(ip: IpField) -> Ecn {
    match ip {
        IpField::Unsaid => Ecn::NotEct,
        IpField::EitherEct => Ecn::Ect0,
        IpField::Ecn(bits) | IpField::Tos(bits) => Ecn::from_bits(bits),
    }
}
