//! The model TCP: sender, receiver, loss recovery, timers; sans I/O.
//!
//! A [`Connection`] is one end of one connection. Segments, virtual time and the application's calls go in;
//! segments, a deadline and log entries come out. It holds no clock, no socket and no randomness: a run is a
//! function of its inputs. It must not know the network, the host's offloads or the workload. The
//! [`Controller`](tcpassay_cc::Controller) passed at creation computes the congestion window.
//!
//! | folder | what |
//! | --- | --- |
//! | `conn` | the connection: handshake, states, the header of every segment, the socket calls |
//! | `recv` | the incoming stream: reassembly, window, when to acknowledge, the echo of marks |
//! | `send` | the outgoing stream: scoreboard, round-trip time, recovery, probes, pacing, the controller |
//! | `messages` | what these three pass to each other, all in 64-bit stream positions |
//! | [`Config`], [`Profile`] | every switch, and the named stacks made of them |
//! | `flavor` | what each stack does differently, as data |
//! | [`LogEvent`], [`Info`] | its decisions with their reasons, and its present state |
//!
//! `docs/deviations.md` lists how a profile differs from its stack.
//!
//! # The order of calls
//!
//! After each call that may change something, [`Connection::poll_transmit`] until `None`; then
//! [`Connection::next_timer`], and [`Connection::on_timer`] at that time. The connection decides about a
//! pure ACK in the last poll, when no data remain with which the ACK could be piggybacked.
//!
//! # Example
//!
//! ```
//! use tcpassay_cc::{Params, build};
//! use tcpassay_tcp::{Config, Connection, Profile, State};
//! use tcpassay_units::{Bytes, SeqNum, Time};
//!
//! let cfg = Config::profile(Profile::Linux);
//! let reno = || build("reno", &Params::default()).unwrap();
//! let now = Time::ZERO;
//! let mut client = Connection::connect(&cfg, reno(), SeqNum::new(1), 0, now);
//! let mut server = Connection::listen(&cfg, reno(), SeqNum::new(2), 0);
//! assert_eq!(client.write(now, Bytes::new(1000)), Bytes::new(1000));
//! // A network without delay.
//! for _ in 0..3 {
//!     while let Some(out) = client.poll_transmit(now) {
//!         server.on_segment(now, &out.segment, out.ecn);
//!     }
//!     while let Some(out) = server.poll_transmit(now) {
//!         client.on_segment(now, &out.segment, out.ecn);
//!     }
//! }
//! assert_eq!(client.state(), State::Established);
//! assert_eq!(server.read(now, Bytes::MAX), Bytes::new(1000));
//! ```

mod config;
mod conn;
mod controller;
mod flavor;
mod info;
mod log;
mod messages;
mod profile;
mod recv;
mod send;
mod tick;

pub use config::{
    AccurateUse, AckCheck, AckCompression, AfterIdle, Config, ControlEcn, DctcpReceiver, DelayedAck, EcnForm,
    EcnMode, Keepalive, LossDetection, MemoryRules, MtuProbing, Nagle, Pacing, PacketPages, Persist, Profile,
    PrrBound, Recovery, RecoveryExitRule, RecvBuffer, RecvMemory, RecvTuning, RtoBounds, Skbs, StackFlavor,
    Tlp, TsoAutosize, Undo,
};
pub use conn::{
    AgreedOptions, Burst, ConnError, Connection, FastOpen, FastOpenAnswer, FastOpenAsk, FastOpenServe,
    Outgoing, Sending, agreed_ecn, is_cookie,
};
pub use info::{AccurateInfo, Gauges, Info, LimitTimes};
pub use log::{
    AckDecision, AckReason, CongestionCause, CongestionState, LogEntry, LogEvent, LossRule, SendLimit, State,
    Timer, TimerChange, WindowCause,
};
pub use messages::WindowMove;
pub use tick::TimerTicks;
