//! The order of the queue, compared with a list that is searched completely.

use super::*;
use proptest::prelude::*;

fn t(ns: u64) -> Time {
    Time::from_nanos(ns)
}

#[test]
fn wake_ups_at_one_instant_come_in_the_order_they_were_set() {
    let mut q = Scheduler::default();
    let s: Vec<SourceId> = (0..5).map(|_| q.add()).collect();
    for i in [3, 0, 4, 1, 2] {
        q.set(s[i], t(7));
    }
    let order: Vec<SourceId> = std::iter::from_fn(|| q.take(Time::MAX)).map(|(_, s)| s).collect();
    assert_eq!(order, [s[3], s[0], s[4], s[1], s[2]]);
}

#[test]
fn setting_the_pending_time_again_keeps_the_place_in_the_order() {
    let mut q = Scheduler::default();
    let (a, b) = (q.add(), q.add());
    q.set(a, t(7));
    q.set(b, t(7));
    q.set(a, t(7));
    assert_eq!(q.take(Time::MAX), Some((t(7), a)));
}

#[test]
fn moving_a_wake_up_away_and_back_puts_it_last() {
    let mut q = Scheduler::default();
    let (a, b) = (q.add(), q.add());
    q.set(a, t(7));
    q.set(b, t(7));
    q.set(a, t(9));
    q.set(a, t(7));
    assert_eq!(q.take(Time::MAX), Some((t(7), b)));
}

#[test]
fn a_removed_source_never_wakes_and_its_place_is_used_again() {
    let mut q = Scheduler::default();
    let a = q.add();
    q.set(a, t(1));
    q.remove(a);
    assert_eq!((q.len(), q.take(Time::MAX)), (0, None));
    assert_eq!(q.add(), a);
    assert_eq!(q.pending(a), None);
}

#[test]
fn a_wake_up_that_was_taken_and_is_set_for_the_same_time_keeps_its_place() {
    let mut q = Scheduler::default();
    let (a, b) = (q.add(), q.add());
    q.set(a, t(7));
    q.set(b, t(7));
    assert_eq!(q.take(Time::MAX), Some((t(7), a)));
    q.set(a, t(7));
    assert_eq!(q.take(Time::MAX), Some((t(7), a)));
    q.clear(a);
    q.set(a, t(7));
    assert_eq!(q.take(Time::MAX), Some((t(7), b)));
}

#[test]
fn nothing_is_taken_before_it_is_due() {
    let mut q = Scheduler::default();
    let a = q.add();
    q.set(a, t(8));
    assert_eq!((q.take(t(7)), q.pending(a)), (None, Some(t(8))));
    assert_eq!((q.take(t(8)), q.pending(a)), (Some((t(8), a)), None));
}

#[derive(Clone, Debug)]
enum Op {
    Add,
    /// A wake-up at this time after the last event that was taken, in nanoseconds.
    Set(usize, u64),
    /// At this time, which may have passed.
    SetAt(usize, u64),
    Clear(usize),
    Take,
}

fn op() -> impl Strategy<Value = Op> {
    let ahead = prop_oneof![0u64..12, 0u64..2_000, 0u64..1_000_000, 0u64..(1 << 40)];
    prop_oneof![
        1 => Just(Op::Add),
        8 => (0usize..40, ahead).prop_map(|(s, d)| Op::Set(s, d)),
        1 => (0usize..40, 0u64..12).prop_map(|(s, t)| Op::SetAt(s, t)),
        2 => (0usize..40).prop_map(Op::Clear),
        5 => Just(Op::Take),
    ]
}

/// The model: every wake-up with its insertion number, searched completely.
#[derive(Default)]
struct Model {
    list: Vec<(u64, u64, SourceId)>,
    taken: Vec<(u64, u64, SourceId)>,
}

impl Model {
    fn set(&mut self, n: u64, s: SourceId, time: u64) {
        if self.list.iter().any(|e| e.2 == s && e.0 == time) {
            return;
        }
        let kept = self.taken.iter().find(|e| e.2 == s && e.0 == time).copied();
        self.clear(s);
        self.list.push(kept.unwrap_or((time, n, s)));
    }

    fn clear(&mut self, s: SourceId) {
        self.list.retain(|e| e.2 != s);
        self.taken.retain(|e| e.2 != s);
    }

    fn take(&mut self) -> Option<(Time, SourceId)> {
        let first = self.list.iter().min().copied()?;
        self.list.retain(|e| *e != first);
        self.taken.push(first);
        Some((t(first.0), first.2))
    }
}

proptest! {
    #[test]
    fn the_queue_agrees_with_a_searched_list(ops in prop::collection::vec(op(), 1..600)) {
        let mut q = Scheduler::default();
        let mut model = Model::default();
        let mut sources = vec![q.add()];
        let mut now = 0;
        for (n, op) in (0u64..).zip(ops) {
            match op {
                Op::Add => sources.push(q.add()),
                Op::Set(s, ahead) => {
                    let s = sources[s % sources.len()];
                    q.set(s, t(now + ahead));
                    model.set(n, s, now + ahead);
                }
                Op::SetAt(s, time) => {
                    let s = sources[s % sources.len()];
                    q.set(s, t(time));
                    model.set(n, s, time);
                }
                Op::Clear(s) => {
                    let s = sources[s % sources.len()];
                    q.clear(s);
                    model.clear(s);
                }
                Op::Take => {
                    let taken = q.take(Time::MAX);
                    prop_assert_eq!(taken, model.take());
                    now = taken.map_or(now, |(at, _)| at.as_nanos().max(now));
                }
            }
            prop_assert_eq!(q.peek(), model.list.iter().min().map(|&(time, _, s)| (t(time), s)));
        }
    }
}
