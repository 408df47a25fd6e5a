//! The model TCP: sender, receiver, loss recovery, timers; sans I/O. (The tour is written with the code.)

mod config;
mod log;
mod seam;

pub use config::{
    AckCheck, AfterIdle, Config, DctcpReceiver, DelayedAck, EcnMode, Keepalive, LossDetection, Pacing,
    Profile, Recovery, RecoveryExit, RecvBuffer, RtoBounds, Tlp, Undo,
};
pub use log::{AckDecision, AckReason, CongestionState, LogEntry, LogEvent, State, Timer, TimerChange};
