//! Congestion controllers that are written in Python.

mod classes;

pub use classes::{Ack, Congestion, Control, Established, RecoveryExit, Resume, Sent, Steps, Timeout, View};

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tcpassay_case::PythonController as Named;
use tcpassay_cc::conformance::{Clause, Contract, check_all};
use tcpassay_cc::{self as cc, Controller, Transmissions};
use tcpassay_units::{Bytes, Rate, Seed, Stream};

create_exception!(
    _native,
    ControllerError,
    PyException,
    "A controller in Python raised an exception, did not terminate, or returned an invalid value. `args[0]` contains the traceback."
);

/// The largest window that a controller may return, 1 TiB. A larger value is an error of the controller.
const MOST: u64 = 1 << 40;

/// The first failure of a controller in a run.
#[derive(Debug, Default)]
pub struct ControllerFailure {
    /// Asks the run to stop.
    pub stop: AtomicBool,
    text: Mutex<Option<String>>,
}

impl ControllerFailure {
    fn set(&self, text: String) {
        self.text.lock().expect("nothing panics with the lock").get_or_insert(text);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The traceback, if a controller failed.
    pub fn result(&self) -> PyResult<()> {
        match self.text.lock().expect("nothing panics with the lock").take() {
            Some(text) => Err(ControllerError::new_err(text)),
            None => Ok(()),
        }
    }
}

thread_local! {
    /// The failure of the run that this thread executes.
    static CURRENT: RefCell<Arc<ControllerFailure>> = RefCell::default();
}

/// Begins a run in this thread. The controllers that [`build`] creates report to the result.
pub fn begin() -> Arc<ControllerFailure> {
    let failure = Arc::new(ControllerFailure::default());
    CURRENT.with(|current| *current.borrow_mut() = Arc::clone(&failure));
    failure
}

/// Creates a controller for a connection of the present run. If this fails, the run ends with the traceback.
pub fn build(named: &Named, random: Stream) -> Box<dyn Controller> {
    let failure = CURRENT.with(|current| Arc::clone(&current.borrow()));
    let made = Python::attach(|py| {
        load(py, named)
            .and_then(|class| ControllerObject::new(py, &class, random, &failure))
            .map_err(|e| traceback(py, &e))
    });
    match made {
        Ok(controller) => Box::new(controller),
        Err(text) => {
            failure.set(text);
            cc::build("reno", &cc::Params::default()).expect("reno is always there")
        }
    }
}

/// The class with its counter of steps, after checks of the source.
fn load<'py>(py: Python<'py>, named: &Named) -> PyResult<(Bound<'py, PyAny>, Py<Steps>)> {
    let steps = Py::new(py, Steps::default())?;
    let class = py.import("tcpassay.controllers.load")?.getattr("load")?.call1((
        &*named.source,
        &named.file,
        &named.class,
        &steps,
    ))?;
    Ok((class, steps))
}

/// Checks the source of a controller without executing it.
///
/// # Errors
///
/// What is wrong, as Python says it.
pub fn inspect(named: &Named) -> Result<(), String> {
    Python::attach(|py| {
        py.import("tcpassay.controllers.load")
            .and_then(|module| module.getattr("inspect"))
            .and_then(|inspect| inspect.call1((&*named.source, &named.file, &named.class)))
            .map(drop)
            .map_err(|error| traceback(py, &error))
    })
}

/// Accepts a source that a caller of this module has at hand, so that it may be executed.
fn accept(py: Python<'_>, source: &str) -> PyResult<()> {
    py.import("tcpassay.trust.consent")?.getattr("grant_source")?.call1((source,)).map(drop)
}

/// Checks that the class can be created.
///
/// # Errors
///
/// The traceback.
fn try_out(named: &Named) -> Result<(), String> {
    let failure = Arc::new(ControllerFailure::default());
    Python::attach(|py| {
        load(py, named)
            .and_then(|class| ControllerObject::new(py, &class, Seed(0).stream("cc"), &failure))
            .map(drop)
            .map_err(|error| traceback(py, &error))
    })
}

/// The traceback of an exception. An exception of `load.py` contains that of the user's code, and one of this module says
/// what the user's code returned: the frames in between are not the user's.
fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let text = || -> PyResult<String> {
        let own = error.is_instance(py, &py.import("tcpassay.controllers.load")?.getattr("RaisedError")?);
        if own || error.is_instance_of::<ControllerError>(py) {
            return Ok(error.value(py).to_string());
        }
        let parts = py.import("traceback")?.getattr("format_exception")?.call1((error.value(py),))?;
        let text: Vec<String> = parts.extract()?;
        Ok(text.concat())
    };
    text().unwrap_or_else(|_| error.to_string())
}

/// An object of a Python class as a controller.
pub struct ControllerObject {
    object: Py<PyAny>,
    on: Py<PyAny>,
    steps: Py<Steps>,
    wants_sent: bool,
    governs: bool,
    failure: Arc<ControllerFailure>,
}

impl fmt::Debug for ControllerObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerObject").field("object", &self.object).finish_non_exhaustive()
    }
}

impl ControllerObject {
    fn new(
        py: Python<'_>,
        (class, steps): &(Bound<'_, PyAny>, Py<Steps>),
        mut random: Stream,
        failure: &Arc<ControllerFailure>,
    ) -> PyResult<ControllerObject> {
        let seed = (u64::from(random.bits32()) << 32) | u64::from(random.bits32());
        let random = py.import("tcpassay.controllers.numbers")?.getattr("Numbers")?.call1((seed,))?;
        steps.get().refill();
        let object = class.call1((random,))?;
        ControllerObject::of(object, steps.clone_ref(py), Arc::clone(failure))
    }

    fn of(
        object: Bound<'_, PyAny>,
        steps: Py<Steps>,
        failure: Arc<ControllerFailure>,
    ) -> PyResult<ControllerObject> {
        let switch = |name: &str| -> PyResult<bool> {
            match object.getattr_opt(name)? {
                Some(value) => value.extract(),
                None => Ok(false),
            }
        };
        Ok(ControllerObject {
            wants_sent: switch("wants_sent")?,
            governs: switch("governs_recovery")?,
            on: object.getattr("on")?.unbind(),
            steps,
            failure,
            object: object.unbind(),
        })
    }

    fn ask(&self, py: Python<'_>, view: &cc::View, event: &cc::Event) -> PyResult<cc::Control> {
        self.steps.get().refill();
        let answer = self.on.bind(py).call1((View::of(view), classes::event(py, event)?))?;
        if answer.is_none() {
            return Ok(view.control);
        }
        let control = answer.cast::<Control>().map_err(|_| {
            let what = answer.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
            ControllerError::new_err(format!("`on` returned {what}; allowed is a Control or None"))
        })?;
        let control = control.get();
        if control.cwnd == 0 || control.cwnd > MOST {
            let text = format!("`on` returned cwnd={}; allowed is 1 to {MOST} bytes", control.cwnd);
            return Err(ControllerError::new_err(text));
        }
        Ok(cc::Control {
            cwnd: Bytes::new(control.cwnd),
            ssthresh: control.ssthresh.map_or(view.control.ssthresh, Bytes::new),
            pacing: control.pacing_bps.map(|bits| Rate::from_bits_per_sec(bits.max(1))),
        })
    }
}

impl Controller for ControllerObject {
    fn name(&self) -> &'static str {
        "python"
    }

    fn on(&mut self, view: &cc::View, event: &cc::Event) -> cc::Control {
        if self.failure.stop.load(Ordering::Relaxed) {
            return view.control;
        }
        Python::attach(|py| match self.ask(py, view, event) {
            Ok(control) => control,
            Err(error) => {
                self.failure.set(traceback(py, &error));
                view.control
            }
        })
    }

    fn wants_sent_events(&self) -> Transmissions {
        if self.wants_sent { Transmissions::All } else { Transmissions::None }
    }

    fn governs_recovery(&self) -> bool {
        self.governs
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Python::attach(|py| {
            let copy = || -> PyResult<ControllerObject> {
                let object = py.import("copy")?.getattr("deepcopy")?.call1((&self.object,))?;
                ControllerObject::of(object, self.steps.clone_ref(py), Arc::clone(&self.failure))
            };
            match copy() {
                Ok(copy) => Box::new(copy) as Box<dyn Controller>,
                Err(error) => {
                    self.failure.set(traceback(py, &error));
                    cc::build("reno", &cc::Params::default()).expect("reno is always there")
                }
            }
        })
    }
}

/// Creates an object of a class in Python, which executes its source. The caller asks for consent before.
#[pyfunction]
pub fn try_controller(source: String, file: String, class_name: String) -> PyResult<()> {
    let named = Named { file, class: class_name, source: source.into(), digest: String::new() };
    try_out(&named).map_err(ControllerError::new_err)
}

/// A violated clause: its name, the rule, the reason, what happened, and the steps of the history.
type Violated = (String, &'static str, &'static str, String, Vec<String>);

/// Runs the histories of the conformance kit on a controller in Python. `contract` is `any`, `window` or
/// `rate`. Returns the number of events of the histories, and the violated clauses.
#[pyfunction]
#[pyo3(signature = (source, file, class_name, contract, histories=200))]
pub fn check_controller(
    py: Python<'_>,
    source: String,
    file: String,
    class_name: String,
    contract: &str,
    histories: u64,
) -> PyResult<(u64, Vec<Violated>)> {
    accept(py, &source)?;
    let contract = match contract {
        "any" => Contract::Any,
        "window" => Contract::Window,
        "rate" => Contract::Rate,
        _ => {
            let text = format!("`{contract}` is not a contract; allowed are any, window, rate");
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
    };
    let named = Named { file, class: class_name, source: source.into(), digest: String::new() };
    try_out(&named).map_err(ControllerError::new_err)?;
    let failure = begin();
    let (covered, violations) = check_all(
        contract,
        histories,
        || build(&named, Seed(0).stream("cc")),
        || !failure.stop.load(Ordering::Relaxed),
    );
    failure.result()?;
    let violated = violations.into_iter().map(|one| {
        let history = one.history.iter().map(ToString::to_string).collect();
        (format!("{:?}", one.clause), one.clause.rule(), one.clause.reason(), one.detail, history)
    });
    Ok((covered.events, violated.collect()))
}

/// The clauses of the contract between controllers and senders: name, contract, rule, reason.
#[pyfunction]
pub fn contract_clauses() -> Vec<(String, &'static str, &'static str, &'static str)> {
    Clause::ALL.iter().map(|one| (format!("{one:?}"), one.contract(), one.rule(), one.reason())).collect()
}

/// An output of a controller: cwnd in bytes, ssthresh in bytes, pacing rate in bits per second.
type Played = (u64, Option<u64>, Option<u64>);

/// Returns the outputs of a controller for a trace: a list of (view, event) as keyword dictionaries, of
/// which the last field of an event is its `kind`. `name` is a controller of the model, or with `source` a
/// class in Python. Returns (cwnd, ssthresh or None, pacing or None) for each.
#[pyfunction]
#[pyo3(signature = (trace, name, source=None))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
pub fn play_controller(
    py: Python<'_>,
    trace: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    name: &str,
    source: Option<String>,
) -> PyResult<Vec<Played>> {
    let failure = begin();
    let mut controller = match source {
        Some(source) => {
            accept(py, &source)?;
            let named = Named {
                file: "trace.py".to_owned(),
                class: name.to_owned(),
                source: source.into(),
                digest: String::new(),
            };
            build(&named, Seed(0).stream("cc"))
        }
        None => cc::build(name, &cc::Params::default())
            .map_err(|why| pyo3::exceptions::PyValueError::new_err(why.to_string()))?,
    };
    failure.result()?;
    let mut answers = Vec::with_capacity(trace.len());
    let mut control: Option<cc::Control> = None;
    for (view, event) in &trace {
        let mut view = view.cast::<View>()?.get().to_view();
        if let Some(control) = control {
            view.control = control;
        }
        let event = classes::to_event(event)?;
        let answer = controller.on(&view, &event);
        failure.result()?;
        control = Some(answer);
        let limit = (answer.ssthresh != Bytes::MAX).then(|| answer.ssthresh.get());
        answers.push((answer.cwnd.get(), limit, answer.pacing.map(Rate::bits_per_sec)));
    }
    Ok(answers)
}
