//! What a sender sends after each row: as much as the congestion window and the peer's window permit, in segments of the right size, and no
//! more.
//!
//! The window in force is that of the data path: during a reduction by PRR, and in CWR, it differs from that of the controller. The data in
//! flight are known while nothing was sent again or marked lost, and from an ACK of everything on.

use crate::finding::Findings;
use crate::rules::names::SENDER as NAME;
use crate::step::{Context, Step};
use tcpassay_case::SmallQueues;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{CongestionCause, Timer, WindowCause};
use tcpassay_tcp::{Config, CongestionState as Ca, EcnMode, Nagle, Recovery, StackFlavor};
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::Flags;

/// State of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Transmissions {
    /// The window of the controller and the one in force; `None` before the first one in the log.
    control: Option<u64>,
    window: Option<u64>,
    /// RFC 6675's pipe, if it is known.
    pipe: Option<u64>,
    /// A mark found the window at one segment: the sender waits for a time that the log does not contain (RFC 3168 section 6.1.2).
    paused: bool,
    /// Time and row since which more should have been sent, and what.
    waits: Option<(Time, usize, Due)>,
    /// The first retransmission of an episode needs no room.
    forced: bool,
    /// A position that was marked lost and not sent again since.
    lost: Option<u64>,
    /// Time at which a timer fired whose probe may exceed the window.
    fired: Option<Time>,
    /// The largest window of the peer.
    largest: u64,
    /// Position after the last segment that was not full.
    small_end: u64,
}

/// What is to be sent next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// A lost segment from this position on.
    Lost(u64),
    /// New data of this length.
    New(u64),
    /// Nothing.
    Nothing,
}

/// What is fixed for a flow.
struct Sender<'a> {
    stack: &'a Config,
    selective: bool,
    mss: u64,
}

/// Whether the transmissions of a flow follow from its log; then, whether it uses SACK.
pub(super) fn selective(context: &Context<'_>, step: &Step<'_>) -> Option<bool> {
    let settings = context.settings(step.flow)?;
    let stack = &settings.stack;
    let peer = context.stack(step.peer)?;
    let selective = stack.sack && peer.sack && stack.recovery != Recovery::NewReno;
    let held = match settings.small_queues {
        SmallQueues::Off => false,
        SmallQueues::Line => settings.nic.rate.is_some(),
        _ => true,
    };
    let plain = stack.flavor == StackFlavor::Rfc
        && !matches!(stack.recovery, Recovery::FreeBsd { .. })
        && context.window_based(step.flow)
        && !context.may_pace(step.flow)
        && stack.mtu_probing.is_none()
        && stack.path_mss.is_none()
        && stack.tso.is_none()
        && stack.skbs.is_none()
        && !stack.cork
        // The option of accurate ECN shortens some segments.
        && stack.ecn != EcnMode::Accurate
        && !held;
    plain.then_some(selective)
}

impl Transmissions {
    /// `selective`: whether the flow uses SACK ([`selective`]).
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, selective: bool, found: &mut Findings) {
        let Some(stack) = context.stack(step.flow) else { return };
        let sender = &Sender { stack, selective, mss: context.mss(step.flow) };
        if let Some((since, row, due)) = self.waits.filter(|(since, ..)| step.at() > *since) {
            self.waits = None;
            late(context, step, (since, row, due), found);
        }
        match step.event.kind {
            EventKind::In if step.is_arrival() => self.arrival(step, sender),
            EventKind::Out | EventKind::Retransmit => self.sent(context, step, sender, found),
            EventKind::Window => self.windows(step),
            EventKind::Congestion => self.state(step, sender),
            EventKind::Lost => {
                self.pipe = None;
                self.marked(step);
            }
            EventKind::TimerFire => {
                self.fired = Some(step.at());
                if step.event.timer() == Some(Timer::Rto) {
                    self.forced = true;
                    self.pipe = None;
                }
            }
            _ => {}
        }
        self.waits = match self.due(step, sender) {
            Due::Nothing => None,
            due => Some((step.at(), step.row, due)),
        };
    }

    fn arrival(&mut self, step: &Step<'_>, sender: &Sender<'_>) {
        self.largest = self.largest.max(step.event.window.map_or(0, Bytes::get));
        let taken = step.end.taken;
        let news = taken.acked > 0 || taken.delivered > 0;
        let partial = taken.acked > 0 && step.end.now.state == Ca::Recovery && !sender.selective;
        self.forced |= partial && sender.stack.recovery != Recovery::Prr;
        if news || taken.dsacked > 0 || !sender.selective {
            self.pipe = None;
        }
        if step.end.outstanding() == 0 {
            self.pipe = Some(0);
            self.lost = None;
        }
        let gone = |at: u64| {
            at < step.end.now.una || step.end.out.iter().any(|s| s.sacked && s.start <= at && at < s.end)
        };
        if self.lost.is_some_and(gone) {
            self.lost = None;
        }
    }

    fn windows(&mut self, step: &Step<'_>) {
        let Some(cwnd) = step.event.cwnd.map(Bytes::get) else { return };
        let state = step.end.now.state;
        let free = matches!(state, Ca::Open | Ca::Disorder | Ca::Loss);
        match step.event.window_cause() {
            Some(
                WindowCause::Prr | WindowCause::NewReno | WindowCause::PartialAck | WindowCause::HalfWindow,
            ) => {
                self.window = Some(cwnd);
            }
            Some(WindowCause::Enter) if state == Ca::Recovery => self.window = Some(cwnd),
            Some(WindowCause::Enter) => self.control = Some(cwnd),
            // The restart after an idle time lowers the window of a reduction in progress too (RFC 5681 section 4.1).
            Some(WindowCause::Resume) => {
                self.control = Some(cwnd);
                self.window = if free { Some(cwnd) } else { self.window.map(|window| window.min(cwnd)) };
            }
            Some(WindowCause::Leave) => (self.control, self.window) = (Some(cwnd), Some(cwnd)),
            _ => {
                self.control = Some(cwnd);
                if free {
                    self.window = Some(cwnd);
                }
            }
        }
    }

    fn state(&mut self, step: &Step<'_>, sender: &Sender<'_>) {
        self.paused |= sender.stack.mark_stops_one_segment
            && step.congestion_cause() == Some(CongestionCause::Ece)
            && self.window.is_none_or(|window| window <= 2 * sender.mss);
        match step.end.now.state {
            Ca::Recovery => {
                self.forced = sender.stack.recovery != Recovery::Prr;
                if sender.stack.recovery == Recovery::Sack && sender.selective {
                    self.window = self.control;
                }
            }
            Ca::Cwr if !sender.stack.cwr_by_prr => {
                self.window = self.window.zip(self.control).map(|(window, control)| window.min(control));
            }
            Ca::Cwr => {}
            Ca::Loss => self.window = self.control,
            Ca::Open | Ca::Disorder => {
                self.window = self.control;
                if step.is_undo() {
                    (self.forced, self.lost) = (false, None);
                }
                if step.is_undo() || step.before.state == Ca::Loss {
                    self.pipe = None;
                }
            }
        }
    }

    /// The first position of newly lost data, if the row shows it.
    fn marked(&mut self, step: &Step<'_>) {
        let first = step.seq().max(step.end.now.una);
        let waits = step.end.out.iter().find(|s| s.start <= first && first < s.end);
        if waits.is_some_and(|s| !s.sacked && s.tries == 1) {
            self.lost = Some(self.lost.map_or(first, |lost| lost.min(first)));
        }
    }

    /// Bytes that count against the window, at least and at most; `None` if they are not known.
    fn used(
        &self,
        step: &Step<'_>,
        (una, nxt): (u64, u64),
        state: Ca,
        sender: &Sender<'_>,
    ) -> Option<(u64, u64)> {
        let (out, stack, end) = (nxt - una, sender.stack, step.end);
        let calm = matches!(state, Ca::Open | Ca::Disorder);
        if calm && !stack.limited_transmit
            || state == Ca::Recovery && !sender.selective && stack.recovery != Recovery::Prr
        {
            return Some((out, out));
        }
        let none_again = end.again == 0 && self.lost.is_none();
        if !sender.selective && calm {
            // RFC 3042: two segments beyond the window. Duplicates of before may still count.
            let least = out.saturating_sub(2 * sender.mss);
            return match self.pipe {
                Some(pipe) => Some((pipe.max(least), pipe.max(least))),
                None if state == Ca::Open && none_again => Some((least, out)),
                None => None,
            };
        }
        // While nothing was sent again or marked lost, what is SACKed is known to have left (RFC 6675 section 4).
        let pipe = if none_again && sender.selective && !matches!(state, Ca::Recovery | Ca::Loss) {
            out.saturating_sub(end.sacked)
        } else {
            self.pipe?
        };
        Some((pipe, pipe))
    }

    /// What is to be sent after this row.
    fn due(&self, step: &Step<'_>, sender: &Sender<'_>) -> Due {
        let (end, now) = (step.end, &step.end.now);
        let Some(window) = self.window.filter(|_| end.open && !end.over && end.logs_writes) else {
            return Due::Nothing;
        };
        let Some((_, used)) = self.used(step, (now.una, now.nxt), now.state, sender) else {
            return Due::Nothing;
        };
        if self.paused || window <= sender.mss && sender.stack.ecn != EcnMode::Off {
            return Due::Nothing;
        }
        let room = window.saturating_sub(used);
        let edge = now.una + end.wnd;
        if let Some(lost) = self.lost.filter(|_| now.state != Ca::Loss) {
            let fits = lost == now.una || lost + sender.mss <= edge;
            return if fits && (self.forced || room >= sender.mss) { Due::Lost(lost) } else { Due::Nothing };
        }
        let waits = end.written.saturating_sub(now.nxt);
        if waits == 0 || end.fin_out.is_some() {
            return Due::Nothing;
        }
        self.new_data(waits, room, edge.saturating_sub(now.nxt), (now.una, now.nxt), sender)
    }

    /// RFC 9293 section 3.8.6.2.1 and Nagle's algorithm: the new data that leave with `waits` bytes written, `room` in the congestion window
    /// and `open` in the peer's.
    fn new_data(&self, waits: u64, room: u64, open: u64, (una, nxt): (u64, u64), sender: &Sender<'_>) -> Due {
        let mss = sender.mss;
        let unit = waits.min(mss);
        if open < unit {
            let worth = open > 0 && open >= self.largest / 2;
            return if worth && room >= open { Due::New(open) } else { Due::Nothing };
        }
        if room < unit {
            return Due::Nothing;
        }
        let alone = match sender.stack.nagle {
            _ if sender.stack.nodelay => true,
            Nagle::Small => self.small_end <= una,
            // The log does not contain the whole condition of `Idle`.
            Nagle::All | Nagle::Idle => nxt == una,
        };
        if waits >= mss || alone { Due::New(unit) } else { Due::Nothing }
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, sender: &Sender<'_>, found: &mut Findings) {
        let fin = step.flags().has(Flags::FIN);
        let len = step.len();
        if len == 0 && !fin || !step.is_stream() {
            return;
        }
        let probe = self.fired.take() == Some(step.at());
        let again = step.event.kind == EventKind::Retransmit;
        let before = &step.before;
        let exempt = probe || fin || step.end.fin_out.is_some();
        let used = self.used(step, (before.una, before.nxt), before.state, sender);
        if let (Some(window), Some((used, _))) = (self.window, used)
            && !exempt
            && !(again && self.forced)
            // Two ACKs of one instant leave open which data in flight the controller was told of in a recovery.
            && !matches!(before.state, Ca::Recovery | Ca::Loss)
            && step.end.open
            && used + len > window
        {
            found.add(step.of_sender(context, NAME, "more is sent than the window permits"), || {
                format!(
                    "{} sent {len} bytes at position {} with {used} bytes in flight; its window is {window} in state {} (RFC 5681 section 3, RFC \
                     6675 section 5).", context.who(step.flow), step.seq(), before.state.name()
                )
            });
        }
        if !again && !exempt && step.seq() == before.nxt {
            self.size(context, step, sender, found);
        }
        self.paused &= again;
        if again {
            self.forced = false;
            if self.lost.is_some_and(|lost| step.seq() <= lost && lost < step.seq_end()) {
                self.lost = None;
            }
        }
        if !again && len < sender.mss {
            self.small_end = step.seq_end() + u64::from(fin);
        }
        // A probe may repeat what is in flight.
        self.pipe = self.pipe.filter(|_| !(again && probe)).map(|pipe| pipe + len + u64::from(fin));
    }

    /// The size of a segment with new data.
    fn size(&self, context: &Context<'_>, step: &Step<'_>, sender: &Sender<'_>, found: &mut Findings) {
        let before = &step.before;
        let waits = step.end.written.saturating_sub(before.nxt);
        let open = (before.una + step.end.wnd).saturating_sub(before.nxt);
        if !step.end.logs_writes || !step.end.open || sender.stack.nagle == Nagle::Idle {
            return;
        }
        let due = self.new_data(waits, u64::MAX, open, (before.una, before.nxt), sender);
        // A FIN that follows permits a small segment, and the window may hold only that.
        let last = step.len() == waits && open == waits;
        if due != Due::New(step.len()) && !last {
            found.add(step.of_sender(context, NAME, "a segment of another size than is due"), || {
                format!(
                    "{} sent {} bytes at position {} with {waits} bytes written and not sent, {open} bytes of the peer's window and an MSS of {}; due \
                     is {due:?} (RFC 9293 sections 3.7.4 and 3.8.6.2.1).", context.who(step.flow), step.len(), step.seq(), sender.mss
                )
            });
        }
    }
}

fn late(context: &Context<'_>, step: &Step<'_>, (since, row, due): (Time, usize, Due), found: &mut Findings) {
    let (title, what) = match due {
        Due::Lost(position) => {
            ("a lost segment waits although the window permits it", format!("the lost position {position}"))
        }
        Due::New(bytes) => {
            ("new data wait although both windows permit them", format!("{bytes} bytes of new data"))
        }
        Due::Nothing => return,
    };
    found.add(step.of_sender(context, NAME, title).since(row, since), || {
        format!(
            "At {since} {} could send {what}, and did not until {} (RFC 5681 section 3, RFC 6675 section 5).",
            context.who(step.flow),
            step.at()
        )
    });
}
