//! Logs of FreeBSD's siftr(4), versions 1.2 and 1.3: one line for each packet of a host's stack, with the state of its connection.
//!
//! A line of version 1.2 has 28 fields (`sys/netinet/siftr.c`): direction, packet hash, time, both ends, ssthresh, congestion window,
//! bandwidth-controlled window, send and receive windows, both window scales, state, MSS, smoothed round-trip time, SACK, flags,
//! retransmission timeout, both socket buffers with their contents, bytes in flight, reassembly queue, flow id and type. The first line states
//! the units of times (`hz`, `tcp_rtt_scale`).
//!
//! A line of version 1.3 has 27 fields: it has no packet hash, further flags (`t_flags2`) instead of the bandwidth-controlled window, and both
//! times in microseconds. What follows a `#` is a comment.

use crate::source::{MOST_EXPANDED, Source};
use crate::words::{bytes, many, time};
use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::Serialize;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::BuildHasherDefault;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};

/// The beginning of a log with a complete first line.
const FIRST: &[u8] = b"enable_time_secs=";
/// Fields of a line of version 1.2, and of version 1.3.
const FIELDS: (usize, usize) = (28, 27);
/// A line is shorter; a longer one is damaged, and not kept in memory.
const LONGEST: u64 = 4096;
/// ssthresh before the first congestion event is near 2^30.
const NO_SSTHRESH: u64 = 1 << 29;
/// The default limit of connections.
const MOST_CONNECTIONS: usize = 100_000;
/// The shortest silence of a flow that is reported.
const SILENCE_NS: u64 = 50_000_000;

/// A log of siftr, summarised.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SiftrLog {
    /// Lines of packets.
    pub lines: u64,
    /// Messages about lines that could not be read.
    pub notes: Vec<String>,
    /// The connections, in the order of their first lines.
    pub flows: Vec<SiftrFlow>,
}

/// The data of one connection.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SiftrFlow {
    /// Address and port of the host that logged.
    pub local: String,
    /// Address and port of its peer.
    pub foreign: String,
    /// First and last line, in nanoseconds of the log's clock.
    pub first_ns: u64,
    /// The last one.
    pub last_ns: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that left.
    pub left: u64,
    /// Maximum segment size.
    pub mss: u64,
    /// Smallest and largest congestion window, in bytes.
    pub cwnd: (u64, u64),
    /// Smallest slow-start threshold, when there was one.
    pub least_ssthresh: Option<u64>,
    /// Number of times that the congestion window fell to one segment.
    pub collapses: u64,
    /// Time at which it fell to one segment first.
    pub first_collapse_ns: Option<u64>,
    /// Smallest and largest smoothed round-trip time.
    pub srtt_ns: Option<(u64, u64)>,
    /// Largest number of bytes in flight.
    pub most_in_flight: u64,
    /// Silences of 50 ms or more that a packet of this host ended, and the longest.
    pub silences_ended_here: (u64, u64),
    /// Silences of 50 ms or more that a packet of the peer ended, and the longest.
    pub silences_ended_there: (u64, u64),
    /// Text about the meaning of these numbers.
    pub words: Vec<String>,
    #[serde(skip)]
    last_cwnd: u64,
}

/// One line of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiftrLine {
    /// The packet arrived; otherwise it left.
    pub arrived: bool,
    /// Nanoseconds of the log's clock.
    pub at_ns: u64,
    /// The end that logged.
    pub local: SocketAddr,
    /// Its peer.
    pub foreign: SocketAddr,
    /// Slow-start threshold.
    pub ssthresh: u64,
    /// Congestion window.
    pub cwnd: u64,
    /// The peer's receive window.
    pub send_window: u64,
    /// Number of the state (`netinet/tcp_fsm.h`).
    pub state: u8,
    /// Maximum segment size.
    pub mss: u64,
    /// The line has the fields of version 1.3, and times in microseconds.
    pub recent: bool,
    /// Smoothed round-trip time, in ticks times `tcp_rtt_scale`, or in microseconds.
    pub srtt: u64,
    /// Flags of the connection (`netinet/tcp_var.h`).
    pub flags: u64,
    /// Retransmission timeout, in ticks or in microseconds.
    pub rto: u64,
    /// Bytes sent and not acknowledged.
    pub in_flight: u64,
}

impl SiftrLine {
    /// Reads a line; `None` when it is damaged.
    pub fn read(line: &str) -> Option<SiftrLine> {
        let line = line.split('#').next()?.trim();
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != FIELDS.0 && fields.len() != FIELDS.1 {
            return None;
        }
        let recent = fields.len() == FIELDS.1;
        let arrived = match fields[0] {
            "i" => true,
            "o" => false,
            _ => return None,
        };
        if !recent {
            u32::from_str_radix(fields[1].strip_prefix("0x")?, 16).ok()?;
        }
        let fields = &fields[if recent { 1 } else { 2 }..];
        let numbers: Vec<u64> = fields[5..].iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
        let end = |at: usize| {
            Some(SocketAddr::new(fields[at].parse::<IpAddr>().ok()?, fields[at + 1].parse().ok()?))
        };
        Some(SiftrLine {
            arrived,
            at_ns: seconds(fields[0])?,
            local: end(1)?,
            foreign: end(3)?,
            ssthresh: numbers[0],
            cwnd: numbers[1],
            send_window: numbers[3],
            state: u8::try_from(numbers[7]).ok()?,
            mss: numbers[8],
            recent,
            srtt: numbers[9],
            flags: numbers[11],
            rto: numbers[12],
            in_flight: numbers[17],
        })
    }
}

/// Seconds with up to nine decimal places.
fn seconds(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    if rest.is_empty() || rest.len() > 9 || !rest.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(rest.len()).expect("at most 9"));
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest.parse::<u64>().ok()? * scale)
}

/// Whether a file that begins with `first` is a log of siftr.
pub fn is_siftr(first: &[u8]) -> bool {
    first.starts_with(FIRST)
        || (first.starts_with(b"i,") || first.starts_with(b"o,"))
            && first.get(2).is_some_and(u8::is_ascii_digit)
}

/// Whether a stream, plain or compressed, is a log of siftr.
///
/// # Errors
/// Errors of `inner`.
pub fn holds_siftr(inner: impl Read) -> std::io::Result<bool> {
    let mut first = Vec::new();
    Source::new(inner, MOST_EXPANDED)?.take(FIRST.len() as u64).read_to_end(&mut first)?;
    Ok(is_siftr(&first))
}

/// Reads a log as [`read_limited`] does with its default limits.
///
/// # Errors
/// See there.
pub fn read_siftr(inner: impl Read) -> std::io::Result<SiftrLog> {
    read_limited(inner, MOST_CONNECTIONS, MOST_EXPANDED)
}

/// Reads a log, plain or compressed to at most `expanded` bytes; its memory depends on the number of connections only. Lines of
/// connections after the first `connections` are counted in a note.
///
/// # Errors
/// Errors of `inner` before the first line. Later ones, and damaged lines, are notes.
pub fn read_limited(inner: impl Read, connections: usize, expanded: u64) -> std::io::Result<SiftrLog> {
    let mut input = BufReader::new(Source::new(inner, expanded)?);
    let mut flows: IndexMap<(SocketAddr, SocketAddr), SiftrFlow, BuildHasherDefault<SipHasher13>> =
        IndexMap::default();
    let mut notes = Vec::new();
    let (mut number, mut lines, mut damaged, mut first_damaged) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut hz, mut scale) = (1000_u64, 32_u64);
    let (mut units_known, mut units_needed) = (false, false);
    let mut beyond = 0_u64;
    let (mut latest_ns, mut backwards, mut most_backwards_ns) = (0_u64, 0_u64, 0_u64);
    let mut text = Vec::new();
    loop {
        text.clear();
        number += 1;
        let whole = match input.by_ref().take(LONGEST).read_until(b'\n', &mut text) {
            Ok(0) => break,
            Ok(_) => text.ends_with(b"\n") || (text.len() as u64) < LONGEST,
            Err(error) => {
                notes.push(format!(
                    "The log is incomplete: after line {} it cannot be read: {error}.",
                    number - 1
                ));
                break;
            }
        };
        if !whole && skip_line(&mut input).is_err() {
            break;
        }
        let line = String::from_utf8_lossy(&text);
        if line.starts_with("enable_time_secs=") {
            let header = settings(&line);
            units_known = true;
            hz = header.get("hz").copied().filter(|hz| *hz > 0).unwrap_or(hz);
            scale = header.get("tcp_rtt_scale").copied().filter(|scale| *scale > 0).unwrap_or(scale);
        } else if line.starts_with("disable_time_secs=") || line.trim().is_empty() || line.starts_with('#') {
        } else if let Some(line) = SiftrLine::read(&line).filter(|_| whole) {
            lines += 1;
            let ns = |ticks: u64, per_tick: u64| {
                let ns = u128::from(ticks) * 1_000_000_000 / u128::from(hz) / u128::from(per_tick);
                u64::try_from(ns).unwrap_or(u64::MAX)
            };
            units_needed |= !line.recent;
            if line.at_ns < latest_ns {
                backwards += 1;
                most_backwards_ns = most_backwards_ns.max(latest_ns - line.at_ns);
            }
            latest_ns = line.at_ns;
            let srtt = if line.recent { line.srtt.saturating_mul(1000) } else { ns(line.srtt, scale) };
            let (ends, full) = ((line.local, line.foreign), flows.len() >= connections);
            match flows.entry(ends) {
                Entry::Vacant(_) if full => beyond += 1,
                entry => entry.or_default().take(&line, srtt),
            }
        } else {
            damaged += 1;
            first_damaged = if damaged == 1 { number } else { first_damaged };
        }
    }
    if damaged > 0 {
        let were = if damaged == 1 { "damaged line was" } else { "damaged lines were" };
        notes.push(format!("{damaged} {were} skipped, the first one is line {first_damaged}."));
    }
    if beyond > 0 {
        let of = if beyond == 1 { "is of a connection" } else { "are of connections" };
        notes.push(format!(
            "{} {of} after the first {connections}, which are the limit (--max-connections).",
            many(beyond, "line")
        ));
    }
    if backwards > 0 {
        notes.push(format!(
            "Time goes backwards at {}, by up to {}: silences and falls of the window there may be wrong.",
            many(backwards, "line"),
            time(most_backwards_ns)
        ));
    }
    if !units_known && units_needed {
        notes.push(
            "The first line with the units is missing: hz=1000 and tcp_rtt_scale=32 are assumed.".to_owned(),
        );
    }
    if lines == 0 {
        notes.push("The log has no lines of packets.".to_owned());
    }
    let flows = flows.into_values().map(SiftrFlow::tell).collect();
    Ok(SiftrLog { lines, notes, flows })
}

/// Skips the rest of a line that is too long.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let have = input.fill_buf()?;
        let end = have.iter().position(|byte| *byte == b'\n');
        let (len, over) = end.map_or((have.len(), have.is_empty()), |end| (end + 1, true));
        input.consume(len);
        if over {
            return Ok(());
        }
    }
}

/// The numbers of the first line.
fn settings(line: &str) -> BTreeMap<&str, u64> {
    let pairs = line.trim().split('\t').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

impl SiftrFlow {
    fn take(&mut self, line: &SiftrLine, srtt_ns: u64) {
        if self.arrived + self.left == 0 {
            (self.local, self.foreign) = (line.local.to_string(), line.foreign.to_string());
            (self.first_ns, self.last_ns, self.cwnd) = (line.at_ns, line.at_ns, (line.cwnd, line.cwnd));
        }
        let silence = line.at_ns.saturating_sub(self.last_ns);
        if silence >= SILENCE_NS {
            let of =
                if line.arrived { &mut self.silences_ended_there } else { &mut self.silences_ended_here };
            *of = (of.0 + 1, of.1.max(silence));
        }
        self.arrived += u64::from(line.arrived);
        self.left += u64::from(!line.arrived);
        self.last_ns = self.last_ns.max(line.at_ns);
        self.mss = self.mss.max(line.mss);
        self.cwnd = (self.cwnd.0.min(line.cwnd), self.cwnd.1.max(line.cwnd));
        if line.ssthresh > 0 && line.ssthresh < NO_SSTHRESH {
            self.least_ssthresh =
                Some(self.least_ssthresh.map_or(line.ssthresh, |least| least.min(line.ssthresh)));
        }
        if line.cwnd <= line.mss && self.last_cwnd > line.mss {
            self.collapses += 1;
            self.first_collapse_ns = self.first_collapse_ns.or(Some(line.at_ns));
        }
        self.last_cwnd = line.cwnd;
        if srtt_ns > 0 {
            let (least, most) = self.srtt_ns.unwrap_or((srtt_ns, srtt_ns));
            self.srtt_ns = Some((least.min(srtt_ns), most.max(srtt_ns)));
        }
        self.most_in_flight = self.most_in_flight.max(line.in_flight);
    }

    fn tell(mut self) -> SiftrFlow {
        let mut said = vec![format!(
            "{} packets left and {} arrived; congestion window {} to {}, at most {} in flight.",
            self.left,
            self.arrived,
            bytes(self.cwnd.0),
            bytes(self.cwnd.1),
            bytes(self.most_in_flight)
        )];
        said.extend(
            self.srtt_ns
                .map(|(least, most)| format!("Smoothed round-trip time {} to {}.", time(least), time(most))),
        );
        said.extend(
            self.least_ssthresh.map(|least| format!("The slow-start threshold fell to {}.", bytes(least))),
        );
        said.extend(self.first_collapse_ns.map(|at| {
            let after = at.saturating_sub(self.first_ns);
            format!(
                "The congestion window fell to one segment {}, first after {}.",
                many(self.collapses, "time"),
                time(after)
            )
        }));
        for ((count, longest), who, what) in [
            (self.silences_ended_here, &self.local, "its timer or its application"),
            (self.silences_ended_there, &self.foreign, "what the peer waited for"),
        ] {
            if count > 0 {
                let silences = many(count, "silence");
                said.push(format!(
                    "{silences} of 50ms or more ended with a packet of {who} ({what}), the longest after {}.",
                    time(longest)
                ));
            }
        }
        self.words = said;
        self
    }
}
