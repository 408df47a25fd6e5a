//! One connection: handshake, states, and the headers of segments in both directions.
//!
//! | file | what | source |
//! | --- | --- | --- |
//! | `handshake`, `opening`, `syn_timer` | SYN, SYN-ACK, what they negotiate, their retransmission | RFC 9293 section 3.5, RFC 7323, RFC 3168, RFC 9768 |
//! | `ecn_negotiation` | ECN by the flags of SYN and SYN-ACK | RFC 3168, RFC 9768 |
//! | `timestamps`, `send_window` | TS.Recent and PAWS; SND.WND, SND.WL1, SND.WL2 | RFC 7323, RFC 9293 |
//! | `fastopen`, `fastopen_exchange` | data with the SYN | RFC 7413 |
//! | `accecn`, `accecn_counters` | counters of accurate ECN | RFC 9768 |
//! | `accecn_linux`, `accecn_linux_counters` | the same in the form of Linux | RFC 9768; Linux |
//! | `input` | arriving segments in the synchronised states | RFC 9293 section 3.10.7, RFC 5961, RFC 7323 |
//! | `reset`, `challenge` | resets and SYNs in a connection, TIME-WAIT, challenge ACKs | RFC 5961, RFC 6191 |
//! | `output` | the next segment to send, and its header | RFC 9293 section 3.1 |
//! | `timer` | handshake, keepalive, TIME-WAIT; delayed ACK and the sender's | RFC 9293 section 3.8 |
//! | `socket` | the calls of an application | RFC 9293 section 3.9.1 |
//! | `observed` | following the packets of a real stack | - |

mod accecn;
mod accecn_counters;
mod accecn_linux;
mod accecn_linux_counters;
mod challenge;
mod ecn_negotiation;
mod fastopen;
mod fastopen_exchange;
mod handshake;
mod input;
mod observed;
mod opening;
mod output;
mod reset;
mod send_window;
mod small_queue;
mod socket;
mod syn_timer;
mod timer;
mod timestamps;

pub use ecn_negotiation::agreed as agreed_ecn;
pub use fastopen::{FastOpen, FastOpenAnswer, FastOpenAsk, FastOpenServe, is_cookie};

use crate::LogEntry;
use crate::config::{Config, EcnMode};
use crate::flavor::ConnRules;
use crate::info::{Gauges, Info};
use crate::log::{Log, LogEvent, State};
use crate::recv::Receiver;
use crate::send::Sender;
use accecn_counters::Reported;
use accecn_linux_counters::LinuxEcn;
use challenge::Challenge;
use opening::Opening;
use send_window::SendWindow;
use std::sync::Arc;
use tcpassay_cc::Controller;
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, SackBlocks, Segment, Timestamps};
use timestamps::TimestampState;

/// A segment for the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outgoing {
    /// Header, options and payload length; with TSO the payload may be many MSS.
    pub segment: Segment,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Payload bytes of each packet into which the NIC segments it (`gso_size`); at least 1.
    pub mss: u32,
}

/// The fields of [`Outgoing`] except the segment, which is written into the host's memory ([`Connection::transmit_into`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sending {
    /// Like [`Outgoing::ecn`].
    pub ecn: Ecn,
    /// Like [`Outgoing::mss`].
    pub mss: u32,
    /// Bytes of its TCP header, options included.
    pub header: u32,
    /// Bytes of its payload.
    pub len: u32,
}

/// Whole new segments that leave at once ([`Connection::begin_burst`]).
#[derive(Debug)]
pub struct Burst {
    /// Position of the next one.
    next: u64,
    /// Number of those that were not taken yet.
    left: u32,
    /// Its lowest bit: PSH of the next one.
    pushes: u64,
    fills: bool,
    /// Flags of the next one, without PSH.
    flags: Flags,
    stamps: Option<Timestamps>,
    /// The next one acknowledges what has arrived, and none has before.
    acknowledges: bool,
    ecn: Ecn,
    mss: u32,
}

impl Burst {
    /// Whether there is another segment.
    #[must_use]
    #[inline]
    pub fn has_next(&self) -> bool {
        self.left > 0
    }
}

/// The result of the handshake.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgreedOptions {
    /// Timestamps on every segment.
    pub timestamps: bool,
    /// SACK permitted by both.
    pub sack: bool,
    /// Windows are scaled.
    pub scaled: bool,
    /// ECN, in any mode.
    pub ecn: bool,
    /// ECN is accurate.
    pub accurate: bool,
    /// The peer's window scale.
    pub peer_shift: u8,
    /// Our window scale.
    pub our_shift: u8,
    /// The MSS that we announced, in bytes.
    pub announced_mss: Bytes,
}

/// The reason why a connection ended without a close by both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnError {
    /// The peer reset it.
    #[error("connection reset by peer")]
    Reset,
    /// The peer reset it after its FIN.
    #[error("broken pipe")]
    BrokenPipe,
    /// The peer did not answer: retransmissions, probes or the user timeout ran out.
    #[error("connection timed out")]
    TimedOut,
    /// The peer answered the SYN with a reset.
    #[error("connection refused")]
    Refused,
}

/// One end of one TCP connection, sans I/O.
///
/// After every call that may change something (`on_segment`, `on_timer`, `write`, `read`, `shutdown`, ...)
/// the host calls [`poll_transmit`](Connection::poll_transmit) until it returns `None`, and then reads
/// [`next_timer`](Connection::next_timer). The connection decides about a pure ACK only when no data remain
/// with which it could be piggybacked. If a host passes two segments without polling between them, one of
/// two duplicate ACKs is lost.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub struct Connection {
    /// Shared by all connections of a host with the same configuration, so that it stays in the processor's cache.
    cfg: Arc<Config>,
    rules: &'static ConnRules,
    state: State,
    log: Log,
    send: Sender,
    recv: Receiver,
    /// Our and the peer's sequence number of position 0.
    iss: SeqNum,
    irs: SeqNum,
    open: Opening,
    ts: TimestampState,
    /// The mode of ECN that was agreed on.
    ecn: EcnMode,
    /// The field of packets without new data.
    control: Ecn,
    sack: bool,
    /// The peer's window.
    window: SendWindow,
    /// The counters of accurate ECN.
    reported: Reported,
    /// The same in Linux's form.
    linux_ecn: Option<Box<LinuxEcn>>,
    /// The sender's state has changed since it last had nothing to send. Otherwise it need not be polled, and its deadline is
    /// `send_timer`.
    touched: bool,
    send_timer: Time,
    /// Time of the last event.
    clock: Time,
    /// The clock of the timestamps of pure ACKs in Linux, which the timer of compressed ACKs does not advance (`tcp_clock_cache`,
    /// `tcp_compressed_ack_kick`).
    cached_clock: Time,
    /// Last arrival, and keepalive probes sent since.
    last_in: Time,
    probes: u32,
    probe_due: bool,
    /// Sender and receiver may transfer data: the handshake is done, or a Fast Open server need not wait for its end.
    streams: bool,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2; [`Time::MAX`] when neither runs.
    linger: Time,
    /// The application has closed the socket and will not read.
    orphan: bool,
    /// A reset to send.
    reset: Option<Reset>,
    challenge: Challenge,
    error: Option<ConnError>,
    stats: Stats,
}

/// A reset to send.
#[derive(Clone, Copy, Debug)]
struct Reset {
    seq: SeqNum,
    /// The ACK field, when ACK is set.
    ack: Option<SeqNum>,
    /// The window field.
    window: u16,
    stamps: Option<Timestamps>,
    sack: SackBlocks,
    /// ECE or ACE.
    echo: Flags,
}

#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    segments_in: u64,
    segments_out: u64,
    acks_out: u64,
    refused: u64,
}

impl Connection {
    fn new(
        cfg: Arc<Config>,
        cc: Box<dyn Controller>,
        iss: SeqNum,
        ts_offset: u32,
        state: State,
    ) -> Connection {
        Connection {
            rules: &cfg.flavor.rules().conn,
            state,
            log: Log::default(),
            send: Sender::new(Arc::clone(&cfg), cc),
            recv: Receiver::new(&cfg),
            iss,
            irs: SeqNum::new(0),
            open: Opening::new(&cfg),
            ts: TimestampState::new(ts_offset),
            ecn: EcnMode::Off,
            control: Ecn::NotEct,
            sack: false,
            window: SendWindow::default(),
            reported: Reported::START,
            linux_ecn: None,
            touched: true,
            send_timer: Time::MAX,
            clock: Time::ZERO,
            cached_clock: Time::ZERO,
            last_in: Time::ZERO,
            probes: 0,
            probe_due: false,
            streams: false,
            linger: Time::MAX,
            orphan: false,
            reset: None,
            challenge: Challenge::default(),
            error: None,
            stats: Stats::default(),
            cfg,
        }
    }

    /// An active open: the SYN is ready in [`poll_transmit`](Connection::poll_transmit). `iss` is our initial sequence number and
    /// `ts_offset` what our timestamp clock shows at the start of the run (RFC 7323 section 5.4 wants both random).
    pub fn connect(
        cfg: impl Into<Arc<Config>>,
        cc: Box<dyn Controller>,
        iss: SeqNum,
        ts_offset: u32,
        now: Time,
    ) -> Connection {
        let mut c = Connection::new(cfg.into(), cc, iss, ts_offset, State::SynSent);
        c.last_in = now;
        c.open.begin(now);
        c
    }

    /// A passive open of one connection: it waits for a SYN.
    pub fn listen(
        cfg: impl Into<Arc<Config>>,
        cc: Box<dyn Controller>,
        iss: SeqNum,
        ts_offset: u32,
    ) -> Connection {
        Connection::new(cfg.into(), cc, iss, ts_offset, State::Listen)
    }

    /// State of RFC 9293 section 3.3.2.
    pub fn state(&self) -> State {
        self.state
    }

    /// The reason why the connection ended; `None` if it is open or both ends closed it.
    pub fn error(&self) -> Option<ConnError> {
        self.error
    }

    /// A snapshot of counters and present values, as of the last event.
    pub fn info(&self) -> Info {
        self.info_at(self.clock)
    }

    /// The values of [`Connection::info`] that are read repeatedly; reading them is fast.
    pub fn gauges(&self) -> Gauges {
        self.send.gauges()
    }

    /// Bytes sent so far, as [`Info::bytes_sent`].
    pub fn bytes_sent(&self) -> Bytes {
        self.send.bytes_sent()
    }

    /// A snapshot in which times run up to `now`.
    pub fn info_at(&self, now: Time) -> Info {
        let mut info = Info::empty();
        self.send.fill(now.max(self.clock), &mut info);
        self.recv.fill_info(&mut info);
        info.state = self.state;
        info.segments_in = self.stats.segments_in;
        info.segments_out = self.stats.segments_out;
        info.acks_out = self.stats.acks_out;
        info.refused = self.stats.refused;
        info.snd_wnd = Bytes::new(self.window.size());
        info.probes += self.probes;
        info.accurate = self.accurate_info();
        info
    }

    /// Turns the event log on or off; it changes nothing else.
    pub fn set_log(&mut self, on: bool) {
        self.log.set(on);
    }

    /// Removes the entries of the log, oldest first.
    pub fn drain_log(&mut self) -> impl Iterator<Item = LogEntry> + '_ {
        self.log.drain()
    }

    /// Bytes of the options that every segment has.
    fn option_bytes(&self) -> u32 {
        if self.ts.is_on() { 12 } else { 0 }
    }

    fn set_state(&mut self, now: Time, to: State) {
        let from = self.state;
        if from != to {
            self.state = to;
            self.log.put(now, || LogEvent::State { from, to });
        }
    }

    fn refuse(&mut self, now: Time, why: &'static str) {
        self.stats.refused += 1;
        self.log.put(now, || LogEvent::Refused { why });
    }

    /// Ends the connection, with `error` or after a regular close. `why` is logged.
    fn end(&mut self, now: Time, error: Option<ConnError>, why: &'static str) {
        if let Some(error) = error {
            self.error = Some(error);
            self.log.put(now, || LogEvent::Aborted { why });
        }
        self.open.stop();
        self.streams = false;
        self.linger = Time::MAX;
        self.set_state(now, State::Closed);
    }
}
