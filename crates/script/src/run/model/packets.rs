//! Packets of the script that arrive at the model.

use super::socket::{File, OpenMode, Role, Socket};
use super::state::{Model, SocketUnderTest};
use crate::ast::{IpField, TcpOption, TcpPacket};
use crate::run::sequence_map::SequenceMap;
use crate::run::target::ScriptError;
use crate::run::tcp_options::fast_open_of;
use tcpassay_tcp::State;
use tcpassay_units::SeqNum;
use tcpassay_wire::{Ecn, Flags, Segment};

impl Model {
    /// The connection that receives the next packet. A listening socket creates one. Without a listener, a closed connection
    /// answers.
    pub(super) fn receiver(&mut self) -> Result<usize, ScriptError> {
        let index = match self.socket_under_test {
            SocketUnderTest::Connection(index) => return Ok(index),
            SocketUnderTest::Listener(fd) if self.listens(fd) => return self.new_child(fd),
            SocketUnderTest::Listener(_) | SocketUnderTest::None => {
                self.new_connection(&Socket::new(), OpenMode::Passive)?
            }
        };
        let closed = &mut self.table.connections[index];
        closed.conn.abort(self.table.now);
        // The sequence numbers of a RST are those of the segment that it answers.
        closed.map = SequenceMap::new(SeqNum::new(0));
        closed.begun = true;
        self.table.flush(index);
        self.socket_under_test = SocketUnderTest::Connection(index);
        Ok(index)
    }

    pub(super) fn new_child(&mut self, fd: i64) -> Result<usize, ScriptError> {
        let Some(File::Socket(listener)) = self.files.get(&fd).cloned() else {
            return Err(ScriptError::Invalid("the listening socket is closed".to_owned()));
        };
        let index = self.new_connection(&listener, OpenMode::Passive)?;
        if let Some(serve) = self.fast_open_serve(&listener) {
            self.table.connections[index].conn.serve_fast_open(serve);
        }
        if let Some(File::Socket(listener)) = self.files.get_mut(&fd)
            && let Role::Listening(queue) = &mut listener.role
        {
            queue.push(index);
        }
        self.socket_under_test = SocketUnderTest::Connection(index);
        Ok(index)
    }

    /// Delivers a segment to the connection under test or to the listening socket.
    ///
    /// # Errors
    /// The connection cannot be created.
    pub fn receive_segment(&mut self, segment: &Segment, ecn: Ecn) -> Result<(), ScriptError> {
        let index = self.receiver()?;
        let conn = &mut self.table.connections[index].conn;
        let opening = conn.state() == State::SynSent;
        conn.on_segment(self.table.now, segment, ecn);
        if opening {
            self.learn_fast_open(index, segment);
        }
        self.table.flush(index);
        let entry = &mut self.table.connections[index];
        entry.write_wakeups += u64::from(entry.conn.make_space(self.table.now));
        Ok(())
    }

    pub(super) fn inject_tcp(&mut self, tcp: &TcpPacket, ecn: Ecn) -> Result<(), ScriptError> {
        let mut index = self.receiver()?;
        let mut segment = self.live(index, tcp)?;
        if self.table.connections[index].conn.yields_to(&segment) {
            // A SYN for a closed connection opens another one if a socket still listens.
            let listener = self.files.keys().rev().copied().find(|&fd| self.listens(fd));
            self.socket_under_test = listener.map_or(SocketUnderTest::None, SocketUnderTest::Listener);
            let before = self.table.connections[index].map.clone();
            index = self.receiver()?;
            self.table.connections[index].map.script_iss = before.script_iss;
            segment = self.live(index, tcp)?;
        }
        let syn_fin = tcp.flags.has(Flags::SYN | Flags::FIN);
        if syn_fin && self.is_bsd() && self.host.number("net.inet.tcp.drop_synfin") == Some(1) {
            return Ok(());
        }
        if tcp.options.iter().flatten().any(|o| matches!(o, TcpOption::Md5(_))) {
            // Without a key both systems silently drop a signed segment (`tcp_inbound_md5_hash`, `tcp_signature_check`).
            return Ok(());
        }
        if let Some(option) = fast_open_of(tcp).map_err(ScriptError::Unsupported)? {
            self.table.connections[index].conn.hear_fast_open(option);
        }
        self.receive_segment(&segment, ecn)
    }

    /// The segment with the sequence numbers of the connection.
    pub(super) fn live(&mut self, index: usize, tcp: &TcpPacket) -> Result<Segment, ScriptError> {
        let entry = &mut self.table.connections[index];
        entry.map.settled = !matches!(entry.conn.state(), State::Listen | State::SynSent) && entry.begun;
        entry.begun = true;
        entry.map.inject(tcp).map_err(ScriptError::Unsupported)
    }
}

/// The ECN field of an injected packet.
pub(super) fn ecn_of(ip: IpField) -> Ecn {
    match ip {
        IpField::Unsaid => Ecn::NotEct,
        IpField::EitherEct => Ecn::Ect0,
        IpField::Ecn(bits) | IpField::Tos(bits) => Ecn::from_bits(bits),
    }
}
