//! The replay of one receiver from its SYN on, and what the handshake agreed on.

use super::end::{Agreed, Arrival, End};
use super::memory::Memory;
use super::space::Space;
use super::stamps::Stamp;
use super::window::{Buffer, first, scale};
use crate::finding::Findings;
use crate::rules::names::RECEIVER as NAME;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{StateChange, TcpState};
use tcpassay_tcp::{Config, DctcpReceiver, EcnMode, StackFlavor};
use tcpassay_units::Bytes;
use tcpassay_wire::Flags;

/// Bytes of the timestamp option.
const STAMPS: u64 = 12;
/// SYNs after which FreeBSD may offer nothing but the MSS.
const RICH_SYNS: u32 = 3;

/// One receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// The window of the own SYN or SYN-ACK; whether it is a SYN-ACK; how often it was sent.
    first: Option<u64>,
    passive: bool,
    sent: u32,
    /// The flags of the SYN-ACK.
    answer: Flags,
    last: Option<Arrival>,
    end: Option<Box<End>>,
    over: bool,
}

impl Replay {
    /// Whether the echoes of arriving segments are used.
    pub fn wants_stamps(&self) -> bool {
        !self.over && self.end.as_ref().is_none_or(|end| end.wants_stamps())
    }

    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, stamp: Stamp, found: &mut Findings) {
        if self.over {
            return;
        }
        let (Some(stack), Some(peer)) = (context.stack(step.flow), context.stack(step.peer)) else { return };
        if let Some(end) = &mut self.end {
            // Nothing that arrives at an end to which no data are sent changes what it acknowledges or announces.
            if !step.role.receives
                && !matches!(step.event.kind, EventKind::Out | EventKind::Retransmit | EventKind::State)
            {
                return;
            }
            self.over = end.on(context, step, stamp, stack, found);
            return;
        }
        match step.event.kind {
            EventKind::Out | EventKind::Retransmit => self.sends(context, step, stack, peer, found),
            EventKind::In => {
                let syn = step.flags().has(Flags::SYN);
                let answer = syn && step.flags().has(Flags::ACK);
                self.over |= syn && (step.len() > 0 || self.first.is_some() && !self.passive && !answer);
                if answer {
                    self.answer = step.flags();
                }
                self.last = Some(Arrival::of(step, stamp));
            }
            EventKind::State => {
                let change = step.event.state_change();
                if let Some(StateChange::Moved { to: Some(TcpState::Established), .. }) = change {
                    self.establish(stack, peer);
                }
            }
            _ => {}
        }
    }

    fn sends(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        stack: &Config,
        peer: &Config,
        found: &mut Findings,
    ) {
        let flags = step.flags();
        if !flags.has(Flags::SYN) {
            // A server with Fast Open sends before the handshake is done.
            self.over |= !flags.has(Flags::RST);
            return;
        }
        self.sent += 1;
        self.passive = flags.has(Flags::ACK);
        self.over |= step.len() > 0;
        if self.passive {
            self.answer = flags;
        }
        let stamps = stack.timestamps && peer.timestamps;
        let whole = self.passive && stamps && stack.flavor == StackFlavor::Linux;
        let expected = first(stack, whole.then_some(STAMPS));
        let window = step.event.window.map_or(0, Bytes::get);
        self.first = Some(window);
        if window != expected {
            self.over = true;
            found.add(step.of_receiver(context, NAME, "a first window that is not that of the buffer"), || {
                format!(
                    "{} announced {window} bytes with its SYN; its buffer gives {expected} (RFC 9293 section 3.8.6, Linux \
                     `tcp_select_initial_window`).",
                    context.who(step.flow)
                )
            });
        }
    }

    fn establish(&mut self, stack: &Config, peer: &Config) {
        let (Some(first), Some(last)) = (self.first, self.last.take()) else {
            self.over = true;
            return;
        };
        if (stack.plain_syns || peer.plain_syns) && self.sent > RICH_SYNS {
            self.over = true;
            return;
        }
        let scaled = stack.window_scale && peer.window_scale;
        let shift = if scaled { scale(stack) } else { 0 };
        let options = if stack.timestamps && peer.timestamps { STAMPS } else { 0 };
        let full = stack.mss.get() - options;
        let selective = stack.sack && peer.sack;
        let space = if let Some(memory) = &stack.recv_memory {
            let memory = Memory::new(last.at, memory, first, shift, scaled, full, selective);
            memory.map_or(Space::Unknown, Space::Memory)
        } else {
            let largest = stack.mss.get().min(peer.mss.get());
            Space::Bytes(Buffer::new(stack, first, shift, full, largest))
        };
        // By the flags of the SYN-ACK (RFC 3168 section 6.1.1, RFC 9768 section 3.1.2).
        let agreed = if stack.ecn == EcnMode::Accurate && self.answer.any(Flags::AE | Flags::CWR | Flags::ECE)
        {
            EcnMode::Accurate
        } else if self.answer.has(Flags::ECE) {
            stack.ecn
        } else {
            EcnMode::Off
        };
        // Which ACKs of old data such a receiver sends depends on more than its timer (`delayed_ack_reserved`).
        self.over = agreed == EcnMode::Dctcp && stack.dctcp_receiver != DctcpReceiver::Immediate;
        let agreed =
            Agreed { passive: self.passive, full, sack: selective, ecn: agreed, unit: 1 << shift, first };
        self.end = Some(Box::new(End::new(stack, &agreed, space, last)));
    }
}
