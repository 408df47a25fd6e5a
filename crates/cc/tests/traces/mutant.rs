//! Tools to plant faults without a change of the controllers.

use std::collections::BTreeMap;
use tcpassay_cc::{
    Ack, Cause, Control, Controller, Event, ParamInfo, ParamValues, Params, ResetReason, View, WindowRule,
    Windowed, build,
};
use tcpassay_units::Bytes;

pub fn default(name: &str) -> Box<dyn Controller> {
    build(name, &Params::default()).unwrap()
}

/// A controller with one parameter changed.
pub fn with(name: &str, param: &str, value: f64) -> Box<dyn Controller> {
    let values = BTreeMap::from([(param.to_owned(), value)]);
    build(name, &Params { values, ..Params::default() }).unwrap()
}

/// The default values of a rule's parameters.
pub fn values<R: WindowRule>() -> ParamValues {
    ParamValues::resolve(R::NAME, R::PARAMS, &Params::default()).unwrap()
}

/// A controller that consists of [`Windowed`] around a rule.
pub fn windowed<R: WindowRule>(rule: R) -> Box<dyn Controller> {
    Box::new(Windowed::new(rule, &Params::default()))
}

/// A controller whose inputs are changed by a function.
#[derive(Clone, Debug)]
pub struct Mishears {
    pub inner: Box<dyn Controller>,
    pub change: fn(&mut View, &mut Event, &mut u64),
    /// Scratch for `change`.
    pub memory: u64,
}

impl Mishears {
    pub fn boxed(
        inner: Box<dyn Controller>,
        change: fn(&mut View, &mut Event, &mut u64),
    ) -> Box<dyn Controller> {
        Box::new(Mishears { inner, change, memory: 0 })
    }
}

impl Controller for Mishears {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let (mut view, mut event) = (*view, *event);
        (self.change)(&mut view, &mut event, &mut self.memory);
        self.inner.on(&view, &event)
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.inner.internals()
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// A rule with some of its methods replaced.
#[derive(Clone, Debug)]
pub struct Twisted<R> {
    pub rule: R,
    pub grow: fn(&mut R, &View, Bytes) -> Bytes,
    pub reduce: fn(&mut R, &View, Cause, Bytes) -> Bytes,
    pub reset: fn(&mut R, &View, ResetReason),
    pub undo: fn(&mut R, &View, &R),
    pub leave_slow_start: fn(&mut R, &View) -> Option<Bytes>,
    pub observe: fn(&mut R, &View, &Ack),
}

impl<R: WindowRule> Twisted<R> {
    /// Nothing replaced yet.
    pub fn new(rule: R) -> Twisted<R> {
        Twisted {
            rule,
            grow: R::grow,
            reduce: R::reduce,
            reset: R::reset,
            undo: R::undo,
            leave_slow_start: R::leave_slow_start,
            observe: R::observe,
        }
    }
}

impl<R: WindowRule> WindowRule for Twisted<R> {
    const NAME: &'static str = R::NAME;
    const PARAMS: &'static [ParamInfo] = R::PARAMS;
    const LEAVES_BEFORE_GROWTH: bool = R::LEAVES_BEFORE_GROWTH;

    fn observe(&mut self, view: &View, ack: &Ack) {
        (self.observe)(&mut self.rule, view, ack);
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        (self.grow)(&mut self.rule, view, acked)
    }

    fn reduce(&mut self, view: &View, cause: Cause, flight: Bytes) -> Bytes {
        (self.reduce)(&mut self.rule, view, cause, flight)
    }

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        (self.leave_slow_start)(&mut self.rule, view)
    }

    fn reset(&mut self, view: &View, why: ResetReason) {
        (self.reset)(&mut self.rule, view, why);
    }

    fn undo(&mut self, view: &View, before: &Self) {
        (self.undo)(&mut self.rule, view, &before.rule);
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rule.internals()
    }
}
