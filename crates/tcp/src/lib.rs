//! The model TCP: sender, receiver, loss recovery, timers; sans I/O. (The tour is written with the code.)

mod config;
mod conn;
mod info;
mod log;
mod profile;
mod recv;
mod seam;
mod send;

pub use config::{
    AckCheck, AfterIdle, Config, DctcpReceiver, DelayedAck, EcnMode, Keepalive, LossDetection, Nagle, Pacing,
    Profile, Recovery, RecoveryExit, RecvBuffer, RtoBounds, Tlp, Undo,
};
pub use conn::{ConnError, Connection, Outgoing};
pub use info::Info;
pub use log::{AckDecision, AckReason, CongestionState, LogEntry, LogEvent, State, Timer, TimerChange};
