//! The interface of a controller in Python: the events and the view of `tcpassay_cc`, in whole bytes,
//! nanoseconds and bits per second.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use tcpassay_cc::{self as cc, Cause, Limited};
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// Largest number of loop iterations of a controller per event.
const STEPS: u64 = 1_000_000;

/// Counts the loop iterations of a controller. The source of the controller is changed so that each
/// iteration calls this object.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Steps {
    left: AtomicU64,
}

impl Steps {
    /// Resets the counter at the begin of an event.
    pub fn refill(&self) {
        self.left.store(STEPS, Ordering::Relaxed);
    }
}

#[pymethods]
impl Steps {
    /// Counts an iteration. Returns true; raises an error if the limit is exceeded.
    fn __call__(&self) -> PyResult<bool> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            let text = format!("the loops of the controller made {STEPS} iterations in one event");
            return Err(PyRuntimeError::new_err(text));
        }
        self.left.store(left - 1, Ordering::Relaxed);
        Ok(true)
    }
}

/// The output of a controller: the congestion window in bytes, the slow-start threshold in bytes (None keeps
/// it unchanged), and the pacing rate in bits per second (None: the rule of the stack).
#[pyclass(frozen, get_all)]
pub struct Control {
    pub cwnd: u64,
    pub ssthresh: Option<u64>,
    pub pacing_bps: Option<u64>,
}

#[pymethods]
impl Control {
    #[new]
    #[pyo3(signature = (cwnd, ssthresh=None, pacing_bps=None))]
    fn new(cwnd: u64, ssthresh: Option<u64>, pacing_bps: Option<u64>) -> Control {
        Control { cwnd, ssthresh, pacing_bps }
    }
}

/// The state of the sender: time since the start of the run, MSS, window, threshold (None before the first
/// congestion) and flight in bytes, the smoothed and the smallest round-trip time, what limited the sender
/// (`cwnd`, `app`, `rwnd`), and the earliest time of the next transmission by pacing.
#[pyclass(frozen, get_all)]
pub struct View {
    pub now_ns: u64,
    pub mss: u64,
    pub cwnd: u64,
    pub ssthresh: Option<u64>,
    pub pacing_bps: Option<u64>,
    pub flight: u64,
    pub srtt_ns: Option<u64>,
    pub min_rtt_ns: Option<u64>,
    pub limited: &'static str,
    pub next_send_ns: u64,
}

const LIMITS: [(&str, Limited); 3] =
    [("cwnd", Limited::Cwnd), ("app", Limited::App), ("rwnd", Limited::Rwnd)];

impl View {
    pub fn of(view: &cc::View) -> View {
        let control = &view.control;
        View {
            now_ns: view.now.as_nanos(),
            mss: view.mss.get(),
            cwnd: control.cwnd.get(),
            ssthresh: (control.ssthresh != Bytes::MAX).then(|| control.ssthresh.get()),
            pacing_bps: control.pacing.map(Rate::bits_per_sec),
            flight: view.flight.get(),
            srtt_ns: view.srtt.map(Dur::as_nanos),
            min_rtt_ns: view.min_rtt.map(Dur::as_nanos),
            limited: match view.limited {
                Limited::Cwnd => "cwnd",
                Limited::App => "app",
                Limited::Rwnd => "rwnd",
            },
            next_send_ns: view.next_send.as_nanos(),
        }
    }

    pub fn to_view(&self) -> cc::View {
        let limited =
            LIMITS.iter().find(|(name, _)| *name == self.limited).expect("checked when it was made").1;
        cc::View {
            now: Time::from_nanos(self.now_ns),
            mss: Bytes::new(self.mss),
            control: cc::Control {
                cwnd: Bytes::new(self.cwnd),
                ssthresh: self.ssthresh.map_or(Bytes::MAX, Bytes::new),
                pacing: self.pacing_bps.map(Rate::from_bits_per_sec),
            },
            flight: Bytes::new(self.flight),
            srtt: self.srtt_ns.map(Dur::from_nanos),
            min_rtt: self.min_rtt_ns.map(Dur::from_nanos),
            limited,
            next_send: Time::from_nanos(self.next_send_ns),
            open: true,
        }
    }
}

#[pymethods]
impl View {
    #[new]
    #[pyo3(signature = (now_ns, mss, cwnd, ssthresh=None, pacing_bps=None, flight=0, srtt_ns=None, min_rtt_ns=None, limited="cwnd", next_send_ns=0))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn new(
        now_ns: u64,
        mss: u64,
        cwnd: u64,
        ssthresh: Option<u64>,
        pacing_bps: Option<u64>,
        flight: u64,
        srtt_ns: Option<u64>,
        min_rtt_ns: Option<u64>,
        limited: &str,
        next_send_ns: u64,
    ) -> PyResult<View> {
        let limited = LIMITS
            .iter()
            .find(|(name, _)| *name == limited)
            .ok_or_else(|| PyTypeError::new_err("`limited` is cwnd, app or rwnd"))?
            .0;
        Ok(View {
            now_ns,
            mss,
            cwnd,
            ssthresh,
            pacing_bps,
            flight,
            srtt_ns,
            min_rtt_ns,
            limited,
            next_send_ns,
        })
    }
}

/// The handshake is complete.
#[pyclass(frozen)]
pub struct Established {}

#[pymethods]
impl Established {
    #[new]
    fn new() -> Established {
        Established {}
    }
}

/// Payload bytes were sent; `idle_ns` is the time since the previous transmission, if nothing was in flight.
#[pyclass(frozen, get_all)]
pub struct Sent {
    pub bytes: u64,
    pub app_limited: bool,
    pub idle_ns: Option<u64>,
}

#[pymethods]
impl Sent {
    #[new]
    #[pyo3(signature = (bytes, app_limited=false, idle_ns=None))]
    fn new(bytes: u64, app_limited: bool, idle_ns: Option<u64>) -> Sent {
        Sent { bytes, app_limited, idle_ns }
    }
}

/// An ACK was processed. Bytes newly acknowledged, delivered, lost and marked; the round-trip time; the delivery rate sample: bytes,
/// interval, and when the segment was sent that it is of; whether the application limited it; the number of the round trip.
#[pyclass(frozen, get_all)]
pub struct Ack {
    pub acked: u64,
    pub delivered: u64,
    pub lost: u64,
    pub marked: u64,
    pub rtt_ns: Option<u64>,
    pub sample_bytes: Option<u64>,
    pub sample_ns: Option<u64>,
    pub sample_sent_ns: Option<u64>,
    pub app_limited: bool,
    pub round: u64,
    pub reordered: bool,
}

#[pymethods]
impl Ack {
    #[new]
    #[pyo3(signature = (acked, delivered, lost=0, marked=0, rtt_ns=None, sample_bytes=None, sample_ns=None, sample_sent_ns=None, app_limited=false, round=0, reordered=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn new(
        acked: u64,
        delivered: u64,
        lost: u64,
        marked: u64,
        rtt_ns: Option<u64>,
        sample_bytes: Option<u64>,
        sample_ns: Option<u64>,
        sample_sent_ns: Option<u64>,
        app_limited: bool,
        round: u64,
        reordered: bool,
    ) -> Ack {
        Ack {
            acked,
            delivered,
            lost,
            marked,
            rtt_ns,
            sample_bytes,
            sample_ns,
            sample_sent_ns,
            app_limited,
            round,
            reordered,
        }
    }
}

/// A reduction begins: `cause` is `loss` or `ecn`; flight size before it in bytes.
#[pyclass(frozen, get_all)]
pub struct Congestion {
    pub cause: &'static str,
    pub flight: u64,
}

#[pymethods]
impl Congestion {
    #[new]
    fn new(cause: &str, flight: u64) -> PyResult<Congestion> {
        let cause = match cause {
            "loss" => "loss",
            "ecn" => "ecn",
            _ => return Err(PyTypeError::new_err("`cause` is loss or ecn")),
        };
        Ok(Congestion { cause, flight })
    }
}

/// The recovery ends: whether it was spurious, and the largest window that the exit rule allows (None: any).
#[pyclass(frozen, get_all)]
pub struct RecoveryExit {
    pub spurious: bool,
    pub exit: Option<u64>,
}

#[pymethods]
impl RecoveryExit {
    #[new]
    #[pyo3(signature = (spurious, exit=None))]
    fn new(spurious: bool, exit: Option<u64>) -> RecoveryExit {
        RecoveryExit { spurious, exit }
    }
}

/// The retransmission timer fired: flight size before, and whether it is not the first time in a row.
#[pyclass(frozen, get_all)]
pub struct Timeout {
    pub flight: u64,
    pub again: bool,
}

#[pymethods]
impl Timeout {
    #[new]
    fn new(flight: u64, again: bool) -> Timeout {
        Timeout { flight, again }
    }
}

/// The first transmission after an idle time longer than the RTO: idle time, RTO, restart window in bytes.
#[pyclass(frozen, get_all)]
pub struct Resume {
    pub idle_ns: u64,
    pub rto_ns: u64,
    pub restart: u64,
}

#[pymethods]
impl Resume {
    #[new]
    fn new(idle_ns: u64, rto_ns: u64, restart: u64) -> Resume {
        Resume { idle_ns, rto_ns, restart }
    }
}

/// An event as an object of its class.
pub fn event<'py>(py: Python<'py>, event: &cc::Event) -> PyResult<Bound<'py, PyAny>> {
    Ok(match *event {
        cc::Event::Established => Bound::new(py, Established {})?.into_any(),
        cc::Event::Sent { bytes, app_limited, idle } => {
            let idle_ns = idle.map(Dur::as_nanos);
            Bound::new(py, Sent { bytes: bytes.get(), app_limited, idle_ns })?.into_any()
        }
        cc::Event::Ack(ref ack) => Bound::new(
            py,
            Ack {
                acked: ack.acked.get(),
                delivered: ack.delivered.get(),
                lost: ack.lost.get(),
                marked: ack.marked.get(),
                rtt_ns: ack.rtt.map(Dur::as_nanos),
                sample_bytes: ack.sample.map(|sample| sample.delivered.get()),
                sample_ns: ack.sample.map(|sample| sample.interval.as_nanos()),
                sample_sent_ns: ack.sample.map(|sample| sample.sent_at.as_nanos()),
                app_limited: ack.app_limited,
                round: ack.round,
                reordered: ack.reordered,
            },
        )?
        .into_any(),
        cc::Event::Congestion { cause, flight } => {
            let cause = match cause {
                Cause::Loss => "loss",
                Cause::Ecn => "ecn",
            };
            Bound::new(py, Congestion { cause, flight: flight.get() })?.into_any()
        }
        cc::Event::RecoveryExit { spurious, exit } => {
            let exit = (exit != Bytes::MAX).then(|| exit.get());
            Bound::new(py, RecoveryExit { spurious, exit })?.into_any()
        }
        cc::Event::Timeout { flight, again } => {
            Bound::new(py, Timeout { flight: flight.get(), again })?.into_any()
        }
        cc::Event::Resume { idle, rto, restart } => Bound::new(
            py,
            Resume { idle_ns: idle.as_nanos(), rto_ns: rto.as_nanos(), restart: restart.get() },
        )?
        .into_any(),
    })
}

/// The event of an object.
pub fn to_event(object: &Bound<'_, PyAny>) -> PyResult<cc::Event> {
    if object.cast::<Established>().is_ok() {
        Ok(cc::Event::Established)
    } else if let Ok(sent) = object.cast::<Sent>() {
        let sent = sent.get();
        Ok(cc::Event::Sent {
            bytes: Bytes::new(sent.bytes),
            app_limited: sent.app_limited,
            idle: sent.idle_ns.map(Dur::from_nanos),
        })
    } else if let Ok(ack) = object.cast::<Ack>() {
        let ack = ack.get();
        let sample = ack.sample_bytes.zip(ack.sample_ns).map(|(bytes, ns)| cc::RateSample {
            delivered: Bytes::new(bytes),
            interval: Dur::from_nanos(ns.max(1)),
            sent_at: Time::from_nanos(ack.sample_sent_ns.unwrap_or(0)),
        });
        Ok(cc::Event::Ack(cc::Ack {
            acked: Bytes::new(ack.acked),
            delivered: Bytes::new(ack.delivered),
            lost: Bytes::new(ack.lost),
            marked: Bytes::new(ack.marked),
            rtt: ack.rtt_ns.map(Dur::from_nanos),
            sample,
            app_limited: ack.app_limited,
            round: ack.round,
            reordered: ack.reordered,
        }))
    } else if let Ok(congestion) = object.cast::<Congestion>() {
        let congestion = congestion.get();
        let cause = if congestion.cause == "ecn" { Cause::Ecn } else { Cause::Loss };
        Ok(cc::Event::Congestion { cause, flight: Bytes::new(congestion.flight) })
    } else if let Ok(exit) = object.cast::<RecoveryExit>() {
        let exit = exit.get();
        Ok(cc::Event::RecoveryExit {
            spurious: exit.spurious,
            exit: exit.exit.map_or(Bytes::MAX, Bytes::new),
        })
    } else if let Ok(timeout) = object.cast::<Timeout>() {
        let timeout = timeout.get();
        Ok(cc::Event::Timeout { flight: Bytes::new(timeout.flight), again: timeout.again })
    } else if let Ok(resume) = object.cast::<Resume>() {
        let resume = resume.get();
        Ok(cc::Event::Resume {
            idle: Dur::from_nanos(resume.idle_ns),
            rto: Dur::from_nanos(resume.rto_ns),
            restart: Bytes::new(resume.restart),
        })
    } else {
        Err(PyTypeError::new_err("an event is an object of one of the classes of tcpassay.controllers"))
    }
}
