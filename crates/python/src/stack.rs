//! A host with another TCP, without a network: what the probes of `tcpassay stack measure` talk to.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use tcpassay_stack::process::{Copies, Limits, Process};
use tcpassay_stack::smoltcp::SmolStack;
use tcpassay_stack::{Description, Drained, Settings, SocketId, Stack, StackError as Failure};
use tcpassay_units::{Dur, Time};

use crate::model::StackError;

/// A packet list, accepted connections (socket, local port, remote address, remote port), and sockets whose status has changed (socket,
/// established, bytes that can be read, bytes that a write would accept, end of stream, closed, failed).
type Done<'py> = (Vec<Bound<'py, PyBytes>>, Vec<(u32, u16, String, u16)>, Vec<Status>);
type Status = (u32, bool, usize, usize, bool, bool, bool);

/// One host with a TCP of `stack.implementation`: `smoltcp`, or the command of a process.
#[pyclass(unsendable)]
pub struct StackHost {
    stack: Box<dyn Stack>,
    about: Description,
    drained: Drained,
}

/// The process of `command`, or smoltcp without one.
pub(crate) fn begin(
    command: Option<&str>,
    settings: Settings,
) -> Result<(Box<dyn Stack>, Description), Failure> {
    let Some(command) = command else {
        let (stack, about) = SmolStack::new(settings)?;
        return Ok((Box::new(stack), about));
    };
    let (process, about) = Process::begin(command, &Copies::new(), &settings, Limits::default())?;
    Ok((Box::new(process), about))
}

#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands errors over")]
fn failed(why: Failure) -> PyErr {
    StackError::new_err((why.kind.outcome(), why.to_string()))
}

/// The crates `units` and `stack`, and the adapter of smoltcp, by their place in the folder of a build.
const SOURCES: [(&str, &str); 14] = [
    ("units/src/data.rs", include_str!("../../units/src/data.rs")),
    ("units/src/lib.rs", include_str!("../../units/src/lib.rs")),
    ("units/src/parse.rs", include_str!("../../units/src/parse.rs")),
    ("units/src/seq.rs", include_str!("../../units/src/seq.rs")),
    ("units/src/stream.rs", include_str!("../../units/src/stream.rs")),
    ("units/src/time.rs", include_str!("../../units/src/time.rs")),
    ("stack/src/content.rs", include_str!("../../stack/src/content.rs")),
    ("stack/src/fork.rs", include_str!("../../stack/src/fork.rs")),
    ("stack/src/lib.rs", include_str!("../../stack/src/lib.rs")),
    ("stack/src/one_cpu.rs", include_str!("../../stack/src/one_cpu.rs")),
    ("stack/src/process.rs", include_str!("../../stack/src/process.rs")),
    ("stack/src/protocol.rs", include_str!("../../stack/src/protocol.rs")),
    ("stack/src/smoltcp.rs", include_str!("../../stack/src/smoltcp.rs")),
    ("adapter.rs", include_str!("../../stack/examples/adapter.rs")),
];

/// The sources from which `tcpassay stack build smoltcp@VERSION` builds a process.
#[pyfunction]
pub fn adapter_sources() -> BTreeMap<&'static str, &'static str> {
    SOURCES.into_iter().collect()
}

fn at(now_ns: u64) -> Time {
    Time::from_nanos(now_ns)
}

fn address(text: &str) -> PyResult<Ipv4Addr> {
    text.parse().map_err(|_| PyValueError::new_err(format!("`{text}` is not an IPv4 address")))
}

#[pymethods]
impl StackHost {
    /// `command`: of a process; without it smoltcp. `options`: the settings of docs/stacks.md that not every TCP has.
    #[new]
    #[pyo3(signature = (command, address, mtu, seed, options))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over")]
    fn new(
        command: Option<&str>,
        address: &str,
        mtu: u16,
        seed: u64,
        options: BTreeMap<String, u64>,
    ) -> PyResult<StackHost> {
        let number = |name: &str| options.get(name).copied();
        let size = |name| number(name).map(|bytes| usize::try_from(bytes).expect("64 bits"));
        let time = |name| number(name).map(Dur::from_nanos);
        let settings = Settings {
            address: self::address(address)?,
            mtu,
            seed,
            cc: "reno".to_owned(),
            send_buffer: size("send_buffer"),
            receive_buffer: size("receive_buffer"),
            nagle: number("nagle") != Some(0),
            timestamps: number("timestamps").map(|on| on == 1),
            ack_delay: time("ack_delay_ns"),
            keepalive: time("keepalive_ns"),
            user_timeout: time("user_timeout_ns"),
            isn: number("isn").and_then(|isn| u32::try_from(isn).ok()),
        };
        let (stack, about) = begin(command, settings).map_err(failed)?;
        Ok(StackHost { stack, about, drained: Drained::default() })
    }

    /// Name and version, as a run reports them.
    fn about(&self) -> (String, String) {
        (self.about.name.clone(), self.about.version.clone())
    }

    /// Resolution of its clock in nanoseconds.
    fn granularity(&self) -> u64 {
        self.about.granularity.as_nanos()
    }

    fn input(&mut self, now_ns: u64, packet: &[u8]) -> PyResult<()> {
        self.stack.input(at(now_ns), packet).map_err(failed)
    }

    fn advance(&mut self, now_ns: u64) -> PyResult<()> {
        self.stack.advance(at(now_ns)).map_err(failed)
    }

    fn deadline(&mut self, now_ns: u64) -> Option<u64> {
        self.stack.deadline(at(now_ns)).map(Time::as_nanos)
    }

    fn listen(&mut self, now_ns: u64, port: u16) -> PyResult<()> {
        self.stack.listen(at(now_ns), port).map_err(failed)
    }

    fn connect(&mut self, now_ns: u64, port: u16, to: &str, to_port: u16) -> PyResult<u32> {
        let to = SocketAddrV4::new(address(to)?, to_port);
        self.stack.connect(at(now_ns), port, to).map(|socket| socket.0).map_err(failed)
    }

    fn write(&mut self, now_ns: u64, socket: u32, data: &[u8]) -> PyResult<usize> {
        self.stack.write(at(now_ns), SocketId(socket), data).map_err(failed)
    }

    fn read<'py>(
        &mut self,
        py: Python<'py>,
        now_ns: u64,
        socket: u32,
        most: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut data = vec![0; most];
        let len = self.stack.read(at(now_ns), SocketId(socket), &mut data).map_err(failed)?;
        Ok(PyBytes::new(py, &data[..len]))
    }

    fn shutdown(&mut self, now_ns: u64, socket: u32) -> PyResult<()> {
        self.stack.shutdown(at(now_ns), SocketId(socket)).map_err(failed)
    }

    fn close(&mut self, now_ns: u64, socket: u32) -> PyResult<()> {
        self.stack.close(at(now_ns), SocketId(socket)).map_err(failed)
    }

    fn abort(&mut self, now_ns: u64, socket: u32) -> PyResult<()> {
        self.stack.abort(at(now_ns), SocketId(socket)).map_err(failed)
    }

    /// What it did since the last call.
    fn drain<'py>(&mut self, py: Python<'py>) -> Done<'py> {
        self.stack.drain(&mut self.drained);
        let Drained { packets, accepted, changed, shown: _ } = std::mem::take(&mut self.drained);
        let status = |(id, s): (SocketId, tcpassay_stack::SocketStatus)| {
            (id.0, s.established, s.readable, s.writable, s.end_of_stream, s.closed, s.failed)
        };
        (
            packets.iter().map(|packet| PyBytes::new(py, packet)).collect(),
            accepted
                .into_iter()
                .map(|(id, port, from)| (id.0, port, from.ip().to_string(), from.port()))
                .collect(),
            changed.into_iter().map(status).collect(),
        )
    }
}
