//! Parameters of the application.

use super::host::HostSettings;
use super::kind::{Setting, ValueKind};
use super::linux::{Knob, KnobValue, SocketOption, SocketValue, enabled};
use super::network::NetworkSettings;
use super::row::{Row, put};
use super::spec::{ParamSpec, Substrates};
use tcpassay_tcp::Keepalive;
use tcpassay_units::{Bytes, Dur};
use tcpassay_workload::{BackgroundTraffic, SpecError, WorkloadSpec};

type P = ParamSpec;
type Host = Row<HostSettings>;
type Network = Row<NetworkSettings>;
const MKH: Substrates = Substrates::MKH;
const M: Substrates = Substrates::M;

/// The check of a row that the workload crate reads: this table only asks whether the text is valid.
macro_rules! row_of_spec {
    ($path:literal, $form:literal) => {
        ValueKind::Text { form: $form, check: |text| accepts($path, text) }
    };
}

fn accepts(path: &str, text: &str) -> Result<(), String> {
    // The file is read when the case is created; errors are reported then.
    let any_cdf = |_: &str| Ok("1 1".to_owned());
    WorkloadSpec::default().set(path, text, &any_cdf).map_err(|SpecError { why, .. }| why)
}

const BUFFER: ValueKind =
    ValueKind::Or(&["auto"], &ValueKind::Bytes { min: Bytes::new(2_048), max: Bytes::new(4_000_000_000) });
const CALL: ValueKind =
    ValueKind::Or(&["auto"], &ValueKind::Bytes { min: Bytes::new(1), max: Bytes::new(1_000_000_000) });

/// The parameters of the workload. The workload crate reads them ([`Spec::read`]).
pub(super) const WORKLOAD: &[ParamSpec] = &[
    P::new(
        "app.workload",
        ValueKind::Choice(&["bulk", "rpc", "rpc-open", "onoff", "paced", "incast", "echo", "exchange", "streams", "mix"]),
        "bulk",
        &["bulk", "rpc", "rpc-open", "onoff", "paced", "incast", "echo", "exchange", "streams", "mix"],
        MKH,
        "Workload of the applications: continuous transfer, requests and responses (closed or open loop), transfers with \
         pauses, transfers at a rate, many responses at once, requests that the server returns as they arrive, requests and responses that both ends write \
         before they read, messages of several streams in frames of 16 KiB, each of which is answered",
    ),
    P::new(
        "app.mix",
        ValueKind::Or(
            &["none"],
            &row_of_spec!(
                "app.mix",
                "members joined by `+`, as in `rpc request=10KB + rpc request=1MB flows=2`"
            ),
        ),
        "none",
        &["none", "rpc request=10KB + rpc request=1MB"],
        MKH,
        "The members of workload `mix`; a setting that a member does not contain is that of the other rows",
    )
    .needs("app.workload = mix"),
    P::new(
        "app.flows",
        ValueKind::Int { min: 1, max: 100_000 },
        "1",
        &["1", "2", "10", "100"],
        MKH,
        "Parallel connections from each sender to its receiver",
    ),
    P::new(
        "app.flow_size",
        row_of_spec!(
            "app.flow_size",
            "`endless`, `<bytes>`, `exp:<mean>`, `pareto:<mean>:<shape>`, `choice:<bytes>@<weight>,...`, `websearch`, \
             `datamining`, `hadoop`, `keyvalue` or `file:<cdf>`"
        ),
        "endless",
        &["endless", "1MB", "websearch"],
        MKH,
        "Bytes of each flow of `bulk`, `onoff` (of each burst) and `paced`, or their distribution",
    ),
    P::new(
        "app.arrival",
        row_of_spec!(
            "app.arrival",
            "`closed`, `poisson:<rate>`, `uniform:<rate>` (as `1000/s`, or a load as `1Gbit`) or `burst:<n>`"
        ),
        "closed",
        &["closed", "poisson:1000/s"],
        MKH,
        "When the next request of `rpc-open` or the next flow of `bulk` arrives",
    ),
    P::new(
        "app.duration",
        ValueKind::Dur { min: Dur::from_micros(1), max: Dur::from_secs(3600) },
        "1s",
        &["1s", "5s", "10s"],
        MKH,
        "Length of the run from app.start; it ends sooner when all traffic is finished",
    ),
    P::new("app.start", ValueKind::DUR, "0s", &["0s", "100ms"], MKH, "When the first connection is opened"),
    P::new(
        "app.request",
        row_of_spec!(
            "app.request",
            "`<bytes>`, `exp:<mean>`, `pareto:<mean>:<shape>`, `choice:<bytes>@<weight>,...`, `websearch`, `datamining`, \
             `hadoop`, `keyvalue` or `file:<cdf>`"
        ),
        "10KB",
        &["10KB", "1MB", "choice:10KB@1,1MB@1"],
        MKH,
        "Bytes of a request of `rpc`, `rpc-open`, from sender to receiver (`incast`: to each sender)",
    ),
    P::new(
        "app.response",
        row_of_spec!(
            "app.response",
            "`<bytes>`, `exp:<mean>`, `pareto:<mean>:<shape>`, `choice:<bytes>@<weight>,...`, `websearch`, `datamining`, \
             `hadoop`, `keyvalue` or `file:<cdf>`"
        ),
        "100B",
        &["100B", "10KB"],
        MKH,
        "Bytes of a response of `rpc`, `rpc-open`, `incast`",
    ),
    P::new(
        "app.concurrency",
        ValueKind::Int { min: 1, max: 10_000 },
        "1",
        &["1", "4", "16"],
        MKH,
        "Requests outstanding on each connection",
    ),
    P::new(
        "app.reuse",
        ValueKind::Bool,
        "on",
        &["on", "off"],
        MKH,
        "Requests of workload rpc follow each other on a connection; off: each has a connection of its own",
    )
    .needs("app.workload = rpc"),
    P::new(
        "app.half_close",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "The client closes its direction after its request, and the response arrives in FIN-WAIT-2 (RFC 9293 section 3.6)",
    )
    .needs("app.workload = rpc, app.reuse = off"),
    P::new(
        "app.open",
        ValueKind::Choice(&["client", "both"]),
        "client",
        &["client", "both"],
        M,
        "Which end opens a connection; both: client and server at the same time, each from its own port, so that their SYNs cross (RFC 9293 section 3.5)",
    )
    .needs("both needs stack.fastopen = off"),
    P::new(
        "app.order",
        ValueKind::Choice(&["fifo", "round-robin", "shortest"]),
        "fifo",
        &["fifo", "round-robin", "shortest"],
        MKH,
        "Which of the `app.concurrency` messages of a connection has the next frame: the oldest, each in turn, or the one with the fewest frames left \
         (priority of short messages)",
    )
    .needs("app.workload = streams"),
    P::new(
        "app.reboot",
        row_of_spec!("app.reboot", "`off`, `<when>` or `<when>:<down>`"),
        "off",
        &["off", "500ms", "500ms:100ms"],
        MKH,
        "The hosts of the clients stop this time after app.start: their connections vanish without a segment; after the second time, in which they answer \
         nothing, they open them again from the same ports (RFC 9293 section 3.5.1)",
    )
    .needs("the end before app.duration; app.open = client; stack.implementation = model at the clients; app.blocking = off; not on remote"),
    P::new(
        "app.think",
        row_of_spec!("app.think", "a length of time, or `exp:<mean>`"),
        "0s",
        &["0s", "1ms", "exp:1ms"],
        MKH,
        "Pause between a response and the next request, or between two bulk flows",
    ),
    P::new(
        "app.rate",
        ValueKind::Or(&["none"], &ValueKind::Rate),
        "none",
        &["none", "100Mbit"],
        MKH,
        "Rate at which each application of `paced` writes",
    ),
    P::new(
        "app.burst",
        row_of_spec!(
            "app.burst",
            "`<bytes>`, `exp:<mean>`, `pareto:<mean>:<shape>`, `choice:<bytes>@<weight>,...`, `websearch`, `datamining`, \
             `hadoop`, `keyvalue` or `file:<cdf>`"
        ),
        "100KB",
        &["100KB", "1MB"],
        MKH,
        "Bytes that `paced` and `onoff` write at once",
    ),
    P::new(
        "app.gap",
        row_of_spec!("app.gap", "a length of time, or `exp:<mean>`"),
        "10ms",
        &["10ms", "1s", "exp:10ms"],
        MKH,
        "Pause between the bursts of `onoff` and of `burst:<n>` arrivals",
    ),
    P::new(
        "app.write_size",
        CALL,
        "auto",
        &["auto", "1448B", "100B"],
        MKH,
        "Largest write call; auto: all available data",
    ),
    P::new(
        "app.read_size",
        CALL,
        "auto",
        &["auto", "1KB"],
        MKH,
        "Largest read call; auto: all available data",
    ),
    P::new(
        "app.read_rate",
        ValueKind::Or(&["none"], &ValueKind::Rate),
        "none",
        &["none", "100Mbit"],
        MKH,
        "Rate at which the receiving application reads; a slow reader closes the window",
    ),
];

/// The value to request for a buffer: half of the setting, because the kernel doubles the requested value,
/// and the setting is the value that the kernel reports.
#[expect(clippy::unnecessary_wraps, reason = "all knobs have functions of one type")]
fn buffer(setting: &Setting, _: &HostSettings) -> KnobValue<SocketValue> {
    let small = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
    Ok(setting.bytes().map(|bytes| {
        let half = bytes.get() / 2;
        SocketValue::Number { set: small(half), back: small(half * 2) }
    }))
}

/// Whole seconds, rounded up.
fn seconds(d: Dur) -> u64 {
    d.as_millis().div_ceil(1000)
}

/// `struct linger`: on, and seconds.
fn linger(d: Dur) -> SocketValue {
    let seconds = i32::try_from(seconds(d)).unwrap_or(i32::MAX);
    SocketValue::Bytes([1_i32.to_ne_bytes(), seconds.to_ne_bytes()].concat())
}

/// The options of the sockets of a host.
pub(super) const SOCKETS: &[Host] = &[
    Host::new(
        "app.sndbuf",
        BUFFER,
        "auto",
        &["auto", "64KB", "4MB"],
        MKH,
        "Send buffer (SO_SNDBUF, as effective bytes)",
        |h, v| h.buffers.send = v.bytes(),
    )
    .linux(&[Knob::Socket(SocketOption::socket(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF), buffer)]),
    Host::new(
        "app.rcvbuf",
        BUFFER,
        "auto",
        &["auto", "64KB", "4MB"],
        MKH,
        "Receive buffer (SO_RCVBUF, as effective bytes)",
        |h, v| h.buffers.receive = v.bytes(),
    )
    .linux(&[Knob::Socket(SocketOption::socket(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), buffer)]),
    Host::new(
        "app.nodelay",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "TCP_NODELAY: Nagle's algorithm off",
        |h, v| put(&mut h.stack.nodelay, v.switch()),
    )
    .linux(&[Knob::Socket(SocketOption::tcp(libc::TCP_NODELAY), enabled)]),
    Host::new(
        "app.cork",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "TCP_CORK: hold partial segments, at most 200 ms",
        |h, v| put(&mut h.stack.cork, v.switch()),
    )
    .linux(&[Knob::Socket(SocketOption::tcp(libc::TCP_CORK), enabled)]),
    Host::new(
        "app.notsent_lowat",
        ValueKind::Or(&["off"], &ValueKind::Bytes { min: Bytes::new(1), max: Bytes::new(4_000_000_000) }),
        "off",
        &["off", "128KB"],
        MKH,
        "TCP_NOTSENT_LOWAT: the socket is writable only while fewer bytes than this are unsent",
        |h, v| h.stack.notsent_lowat = v.bytes(),
    )
    .linux(&[Knob::Socket(SocketOption::tcp(libc::TCP_NOTSENT_LOWAT), |v, _| {
        Ok(v.bytes().map(|low| SocketValue::same(low.get())))
    })]),
    Host::new(
        "app.quickack",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        MKH,
        "TCP_QUICKACK, set again after each read: no delayed ACKs",
        |h, v| put(&mut h.stack.quickack, v.switch()),
    )
    .linux(&[
        // The kernel clears the option by itself.
        Knob::Socket(SocketOption::tcp(libc::TCP_QUICKACK), |v, _| {
            Ok((v.switch() == Some(true)).then_some(SocketValue::Transient(1)))
        }),
    ]),
    Host::new(
        "app.blocking",
        ValueKind::Bool,
        "off",
        &["off", "on"],
        Substrates::KH,
        "Blocking sockets",
        |h, v| put(&mut h.blocking, v.switch()),
    ),
    Host::new(
        "app.keepalive",
        ValueKind::Or(&["off"], &ValueKind::Dur { min: Dur::from_millis(1), max: Dur::from_secs(86_400) }),
        "off",
        &["off", "1s"],
        MKH,
        "Idle time before the first keepalive probe; at most nine probes follow at intervals of a tenth of it",
        |h, v| h.stack.keepalive = v.dur().map(|idle| Keepalive { idle, interval: idle / 10, count: 9 }),
    )
    .linux(&[
        Knob::Socket(SocketOption::socket(libc::SO_KEEPALIVE, libc::SO_KEEPALIVE), |_, h| {
            Ok(h.stack.keepalive.map(|_| SocketValue::same(1)))
        }),
        Knob::Socket(SocketOption::tcp(libc::TCP_KEEPIDLE), |_, h| {
            Ok(h.stack.keepalive.map(|alive| SocketValue::same(seconds(alive.idle).max(1))))
        }),
        Knob::Socket(SocketOption::tcp(libc::TCP_KEEPINTVL), |_, h| {
            Ok(h.stack.keepalive.map(|alive| SocketValue::same(seconds(alive.interval).max(1))))
        }),
        Knob::Socket(SocketOption::tcp(libc::TCP_KEEPCNT), |_, h| {
            Ok(h.stack.keepalive.map(|alive| SocketValue::same(alive.count.into())))
        }),
    ]),
    Host::new(
        "app.user_timeout",
        ValueKind::Or(&["off"], &ValueKind::Dur { min: Dur::from_millis(1), max: Dur::from_secs(86_400) }),
        "off",
        &["off", "5s"],
        MKH,
        "TCP_USER_TIMEOUT: abort when data stay unacknowledged for this time (RFC 5482)",
        |h, v| put(&mut h.stack.user_timeout, v.dur().map(Some)),
    )
    .linux(&[Knob::Socket(SocketOption::tcp(libc::TCP_USER_TIMEOUT), |v, _| {
        Ok(v.dur().map(|d| SocketValue::same(d.as_millis())))
    })]),
    Host::new(
        "app.linger",
        ValueKind::Or(&["off"], &ValueKind::DUR),
        "off",
        &["off", "0s"],
        MKH,
        "SO_LINGER: close waits up to this time for the data to be acknowledged, then resets; 0s resets at once",
        |h, v| h.linger = v.dur(),
    )
    .linux(&[Knob::Socket(SocketOption::socket(libc::SO_LINGER, libc::SO_LINGER), |v, _| {
        Ok(v.dur().map(linger))
    })]),
];

/// Background traffic.
pub(super) const BACKGROUND: &[Network] = &[Network::new(
    "app.background",
    ValueKind::Text {
        form: "`none`, `bulk:<n>[:<cc>]`, `poisson:<percent>%` (of the bottleneck) or `udp:<rate>`",
        check: |text| BackgroundTraffic::read(text).map(drop).map_err(|why| why.why),
    },
    "none",
    &["none", "bulk:1:cubic", "poisson:30%", "udp:100Mbit"],
    MKH,
    "Competing traffic over the same path",
    |n, v| n.background = BackgroundTraffic::read(&v.to_string()).expect("the row checks its text"),
)];
