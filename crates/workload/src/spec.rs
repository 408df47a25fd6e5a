//! The behaviour of an application and its parameters: the `app.*` rows of the parameter table.

use crate::arrival::{ArrivalProcess, WaitTime};
use crate::error::{SpecError, ValueError};
use crate::size::SizeDistribution;
use crate::streams::FrameOrder;
use std::fmt;
use tcpassay_units::{Bytes, Dur, Rate};

/// The behaviour of an application (`app.workload`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Behaviour {
    /// Sends one stream as fast as the socket accepts it: endless, or flows of `app.flow_size`.
    #[default]
    Bulk,
    /// Requests and responses in a closed loop: a request begins when a previous one was answered.
    Rpc,
    /// Requests in an open loop: they arrive independent of responses; the time waiting for a free connection is
    /// included.
    RpcOpen,
    /// Sends `app.burst`, pauses for `app.gap`, and repeats.
    OnOff,
    /// Sends `app.burst` at the intervals that give `app.rate`, like a video source. Data that the socket does not
    /// accept remains queued.
    Paced,
    /// Sends requests to all servers at once, waits for all responses (a barrier), and repeats.
    Incast,
    /// As [`Behaviour::Rpc`], but the server returns the bytes of the request as they arrive.
    Echo,
    /// As [`Behaviour::Rpc`], but the server begins its response with the first byte of the request, and each end writes everything before it
    /// reads: if the messages are longer than the buffers of both ends hold, both wait for ever.
    Exchange,
    /// As [`Behaviour::Rpc`], but the messages of a connection are cut into frames, and `app.order` decides whose frame is next.
    Streams,
    /// Several behaviours at once (`app.mix`).
    Mix,
}

impl Behaviour {
    const ALL: [(Behaviour, &'static str); 10] = [
        (Behaviour::Bulk, "bulk"),
        (Behaviour::Rpc, "rpc"),
        (Behaviour::RpcOpen, "rpc-open"),
        (Behaviour::OnOff, "onoff"),
        (Behaviour::Paced, "paced"),
        (Behaviour::Incast, "incast"),
        (Behaviour::Echo, "echo"),
        (Behaviour::Exchange, "exchange"),
        (Behaviour::Streams, "streams"),
        (Behaviour::Mix, "mix"),
    ];

    /// The name in plans.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(b, _)| *b == self).expect("every behaviour has a name").1
    }

    /// Whether the next request follows the answer to the one before.
    pub fn is_closed_loop(self) -> bool {
        matches!(self, Behaviour::Rpc | Behaviour::Echo | Behaviour::Exchange | Behaviour::Streams)
    }

    fn parse(text: &str) -> Result<Behaviour, ValueError> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(b, _)| *b).ok_or_else(|| {
            ValueError::new(
                "there is no such workload",
                "bulk, rpc, rpc-open, onoff, paced, incast, echo, exchange, streams, mix",
            )
        })
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A host that stops without a segment and begins again (`app.reboot`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reboot {
    /// Time from `app.start` at which the host stops.
    pub after: Dur,
    /// How long the host answers nothing.
    pub down: Dur,
}

impl Reboot {
    fn parse(text: &str) -> Result<Option<Reboot>, ValueError> {
        const FORM: &str = "`off`, `<when>` or `<when>:<down>`, as in `2s:500ms`";
        if text == "off" {
            return Ok(None);
        }
        let (after, down) = text.split_once(':').unwrap_or((text, "0s"));
        let reboot = Reboot { after: unit(after, FORM)?, down: unit(down, FORM)? };
        if reboot.after.is_zero() {
            return Err(ValueError::new("there is nothing yet that the host could lose", FORM));
        }
        Ok(Some(reboot))
    }
}

/// The behaviour of an application and its parameters. The default is one endless bulk flow from the start.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadSpec {
    /// `app.workload`.
    pub behaviour: Behaviour,
    /// `app.name`: the name in completions; when absent, it is derived from the behaviour and its sizes.
    pub name: Option<String>,
    /// `app.flows`: connections per pair of hosts, at least 1.
    pub flows: u32,
    /// `app.flow_size`: bytes of a bulk flow; `None` is endless.
    pub flow_size: Option<SizeDistribution>,
    /// `app.arrival`.
    pub arrival: ArrivalProcess,
    /// `app.start`: time from the start of the run to the first connection.
    pub start: Dur,
    /// `app.duration`: time from `start` after which no transfer begins; those in progress complete. `None` continues
    /// to the end of the run, but does not repeat a bulk flow that has a size.
    pub duration: Option<Dur>,
    /// `app.request`.
    pub request: SizeDistribution,
    /// `app.response`.
    pub response: SizeDistribution,
    /// `app.concurrency`: outstanding requests per connection, at least 1.
    pub concurrency: u32,
    /// `app.reuse`: the next request of workload `rpc` uses the connection of the previous one instead of a new one.
    pub reuse: bool,
    /// `app.half_close`: the client closes its direction after its request, and the response still arrives.
    pub half_close: bool,
    /// `app.open` = `both`: the server opens each connection at the same time as the client (RFC 9293 section 3.5).
    pub both_open: bool,
    /// `app.order`: whose frame of [`Behaviour::Streams`] is next.
    pub order: FrameOrder,
    /// `app.reboot`: the clients' hosts stop and begin again.
    pub reboot: Option<Reboot>,
    /// `app.think`: time from a response to the next request, and from the end of a bulk flow to the next one.
    pub think: WaitTime,
    /// `app.rate`: rate of a paced source in application bytes.
    pub rate: Option<Rate>,
    /// `app.burst`: burst size of `onoff` and `paced`.
    pub burst: SizeDistribution,
    /// `app.gap`: pause between bursts of `onoff` and of `burst:<n>` arrivals.
    pub gap: WaitTime,
    /// `app.write_size`: maximum size of a write call; `None` writes all pending data.
    pub write_size: Option<Bytes>,
    /// `app.read_size`: maximum size of a read call; `None` reads all available data.
    pub read_size: Option<Bytes>,
    /// `app.read_rate`: read rate of both endpoints; `None` reads data when it arrives.
    pub read_rate: Option<Rate>,
    /// `app.mix`: the members of a [`Behaviour::Mix`].
    pub mix: Vec<WorkloadSpec>,
}

impl Default for WorkloadSpec {
    fn default() -> WorkloadSpec {
        WorkloadSpec {
            behaviour: Behaviour::Bulk,
            name: None,
            flows: 1,
            flow_size: None,
            arrival: ArrivalProcess::Closed,
            start: Dur::ZERO,
            duration: None,
            request: SizeDistribution::Fixed(Bytes::new(10_000)),
            response: SizeDistribution::Fixed(Bytes::new(100)),
            concurrency: 1,
            reuse: true,
            half_close: false,
            both_open: false,
            order: FrameOrder::Fifo,
            reboot: None,
            think: WaitTime::NONE,
            rate: None,
            burst: SizeDistribution::Fixed(Bytes::new(100_000)),
            gap: WaitTime::Fixed(Dur::from_millis(10)),
            write_size: None,
            read_size: None,
            read_rate: None,
            mix: Vec::new(),
        }
    }
}

/// The rows that [`WorkloadSpec::set`] accepts, without `app.`.
const ROWS: &str = "workload, name, flows, flow_size, arrival, start, duration, request, response, concurrency, reuse, half_close, open, order, reboot, think, \
    rate, burst, gap, write_size, read_size, read_rate, mix";
const COUNT: &str = "a number from 1 to 1000000";
const DUR: &str = "a length of time, as in `10ms`";
const BYTES: &str = "a number of bytes, as in `30KB`, or `auto`";
const RATE: &str = "a rate, as in `1Gbit`, or `none`";

impl WorkloadSpec {
    /// Parses rows of the parameter table (`app.flows`, `4`) and [checks](WorkloadSpec::check) their combination.
    /// `app.mix` is parsed last, so that its members inherit the other rows. `file` returns the text of a CDF file.
    ///
    /// # Errors
    /// The first invalid row.
    pub fn read<'a>(
        rows: impl IntoIterator<Item = (&'a str, &'a str)>,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<WorkloadSpec, SpecError> {
        let mut spec = WorkloadSpec::default();
        let mut mix = None;
        for (path, value) in rows {
            if path == "app.mix" {
                mix = Some(value);
            } else {
                spec.set(path, value, file)?;
            }
        }
        if let Some(value) = mix {
            spec.set("app.mix", value, file)?;
        }
        spec.check()?;
        Ok(spec)
    }

    /// Sets the row `path` to `value`.
    ///
    /// # Errors
    /// An unknown row or an invalid value, with the allowed values.
    pub fn set(
        &mut self,
        path: &str,
        value: &str,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<(), SpecError> {
        self.set_row(path.strip_prefix("app.").unwrap_or(path), value, file)
            .map_err(|bad| bad.at(path, value))
    }

    fn set_row(
        &mut self,
        row: &str,
        value: &str,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<(), ValueError> {
        match row {
            "workload" => self.behaviour = Behaviour::parse(value)?,
            "name" if !value.is_empty() => self.name = Some(value.to_owned()),
            "name" => return Err(ValueError::new("it is empty", "any word")),
            "flows" => self.flows = count(value)?,
            "flow_size" if value == "endless" => self.flow_size = None,
            "flow_size" => self.flow_size = Some(SizeDistribution::parse(value, file)?),
            "arrival" => self.arrival = ArrivalProcess::parse(value)?,
            "start" => self.start = unit(value, DUR)?,
            "duration" if value == "run" => self.duration = None,
            "duration" => self.duration = Some(unit(value, "a length of time, as in `10s`, or `run`")?),
            "request" => self.request = SizeDistribution::parse(value, file)?,
            "response" => self.response = SizeDistribution::parse(value, file)?,
            "concurrency" => self.concurrency = count(value)?,
            "reuse" => self.reuse = switch(value)?,
            "half_close" => self.half_close = switch(value)?,
            "open" => self.both_open = opener(value)?,
            "order" => self.order = FrameOrder::parse(value)?,
            "reboot" => self.reboot = Reboot::parse(value)?,
            "think" => self.think = WaitTime::parse(value)?,
            "rate" => self.rate = optional(value, "none", RATE)?,
            "burst" => self.burst = SizeDistribution::parse(value, file)?,
            "gap" => self.gap = WaitTime::parse(value)?,
            "write_size" => self.write_size = call_size(value)?,
            "read_size" => self.read_size = call_size(value)?,
            "read_rate" => self.read_rate = optional(value, "none", RATE)?,
            "mix" => self.mix = self.members(value, file)?,
            _ => return Err(ValueError::new("there is no such parameter", ROWS)),
        }
        Ok(())
    }

    /// Members are separated by `+`. Each is a workload with its own rows, as in `rpc request=10KB flows=2 + rpc
    /// request=1MB`. Rows that a member does not set are inherited.
    fn members(
        &self,
        text: &str,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Vec<WorkloadSpec>, ValueError> {
        let mut members = Vec::new();
        for item in text.split('+') {
            let mut words = item.split_whitespace();
            let mut member = WorkloadSpec { mix: Vec::new(), name: None, ..self.clone() };
            let workload = words.next().ok_or_else(|| ValueError::new("a member is empty", MIX))?;
            member.behaviour = Behaviour::parse(workload)?;
            if member.behaviour == Behaviour::Mix {
                return Err(ValueError::new("a mix cannot contain a mix", MIX));
            }
            for word in words {
                let (row, value) = word
                    .split_once('=')
                    .ok_or_else(|| ValueError::new(format!("`{word}` is not `<row>=<value>`"), MIX))?;
                if matches!(row, "workload" | "mix" | "reboot") {
                    return Err(ValueError::new(format!("`{row}` is not allowed in a member of a mix"), MIX));
                }
                member
                    .set_row(row, value, file)
                    .map_err(|bad| ValueError::new(format!("in `{word}`: {}", bad.why), bad.allowed))?;
            }
            members.push(member);
        }
        Ok(members)
    }

    /// Checks the combination of the rows.
    ///
    /// # Errors
    /// The row that is not compatible with the others.
    pub fn check(&self) -> Result<(), SpecError> {
        let wrong = |row: &str, value: String, why: &str, allowed: &'static str| {
            Err(ValueError::new(why, allowed).at(&format!("app.{row}"), &value))
        };
        if let (Some(Reboot { after, down }), Some(duration)) = (self.reboot, self.duration)
            && after.saturating_add(down) >= duration
        {
            let why = format!("the host is not back within the {duration} of app.duration");
            return wrong("reboot", format!("{after}:{down}"), &why, "a shorter time");
        }
        let open = self.arrival != ArrivalProcess::Closed;
        match self.behaviour {
            Behaviour::Mix => {
                if self.mix.is_empty() {
                    return wrong("mix", String::new(), "a mix needs members", MIX);
                }
                return self.mix.iter().try_for_each(WorkloadSpec::check);
            }
            Behaviour::Bulk if open && self.flow_size.is_none() => {
                return wrong("flow_size", "endless".to_owned(), "flows that arrive must end", "a size");
            }
            Behaviour::RpcOpen if !open => {
                return wrong(
                    "arrival",
                    self.arrival.to_string(),
                    "`rpc-open` does not wait for completions",
                    "poisson:<rate>, uniform:<rate>, burst:<n>",
                );
            }
            Behaviour::Rpc
            | Behaviour::Echo
            | Behaviour::Exchange
            | Behaviour::Streams
            | Behaviour::Incast
            | Behaviour::OnOff
            | Behaviour::Paced
                if open =>
            {
                let why = format!("`{}` has no arrivals", self.behaviour);
                return wrong(
                    "arrival",
                    self.arrival.to_string(),
                    &why,
                    "closed (or app.workload = rpc-open)",
                );
            }
            Behaviour::Paced if self.rate.is_none() => {
                return wrong("rate", "none".to_owned(), "`paced` needs a rate", "a rate, as in `10Mbit`");
            }
            _ => {}
        }
        if self.half_close && (self.behaviour != Behaviour::Rpc || self.reuse) {
            return wrong(
                "half_close",
                "on".to_owned(),
                "a connection that is half closed has no further request",
                "off, or app.workload = rpc with app.reuse = off",
            );
        }
        if self.behaviour == Behaviour::Streams && !matches!(self.response, SizeDistribution::Fixed(_)) {
            let value = self.response.to_string();
            return wrong("response", value, "the answers to frames have one size", "a number of bytes");
        }
        if self.behaviour == Behaviour::Exchange && self.concurrency > 1 {
            let value = self.concurrency.to_string();
            return wrong(
                "concurrency",
                value,
                "ends that write before they read have one message each",
                "1",
            );
        }
        let rests = self.behaviour == Behaviour::OnOff || matches!(self.arrival, ArrivalProcess::Burst(_));
        if rests && self.gap.mean().is_zero() {
            return wrong("gap", self.gap.to_string(), "bursts without a gap never end", "more than 0s");
        }
        Ok(())
    }

    /// The name in completions.
    pub fn class(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        match (self.behaviour, &self.flow_size) {
            (Behaviour::Echo, _) => format!("echo {}", self.request),
            (
                Behaviour::Rpc
                | Behaviour::RpcOpen
                | Behaviour::Incast
                | Behaviour::Exchange
                | Behaviour::Streams,
                _,
            ) => {
                format!("{} {}/{}", self.behaviour, self.request, self.response)
            }
            (Behaviour::Bulk, Some(size)) => format!("bulk {size}"),
            _ => self.behaviour.to_string(),
        }
    }
}

const MIX: &str =
    "members joined by `+`, each `<workload> <row>=<value> ...`, as in `rpc request=10KB + bulk flows=2`";

fn switch(text: &str) -> Result<bool, ValueError> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ValueError::new("it is neither `on` nor `off`", "on, off")),
    }
}

fn opener(text: &str) -> Result<bool, ValueError> {
    match text {
        "client" => Ok(false),
        "both" => Ok(true),
        _ => Err(ValueError::new("it names no end of a connection", "client, both")),
    }
}

fn count(text: &str) -> Result<u32, ValueError> {
    match text.parse::<u32>() {
        Ok(n) if (1..=1_000_000).contains(&n) => Ok(n),
        Ok(_) => Err(ValueError::new("it is out of range", COUNT)),
        Err(_) => Err(ValueError::new("it is not a whole number", COUNT)),
    }
}

fn unit<T: std::str::FromStr>(text: &str, allowed: &'static str) -> Result<T, ValueError>
where
    T::Err: fmt::Display,
{
    text.parse().map_err(|e| ValueError::new(format!("{e}"), allowed))
}

fn optional<T: std::str::FromStr>(
    text: &str,
    absent: &str,
    allowed: &'static str,
) -> Result<Option<T>, ValueError>
where
    T::Err: fmt::Display,
{
    if text == absent { Ok(None) } else { unit(text, allowed).map(Some) }
}

fn call_size(text: &str) -> Result<Option<Bytes>, ValueError> {
    match optional(text, "auto", BYTES)? {
        Some(Bytes::ZERO) => Err(ValueError::new("the size of a call must be at least one byte", BYTES)),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::ArrivalRate;

    fn none(path: &str) -> Result<String, String> {
        Err(format!("{path}: no such file"))
    }

    fn read(rows: &[(&str, &str)]) -> Result<WorkloadSpec, String> {
        WorkloadSpec::read(rows.iter().copied(), &none).map_err(|e| e.to_string())
    }

    #[test]
    fn the_rows_of_the_paper_s_mixed_rpcs_read_as_two_members() {
        let spec = read(&[
            ("app.mix", "rpc request=10KB response=100B flows=2 + rpc request=1MB concurrency=4"),
            ("app.workload", "mix"),
            ("app.response", "1KB"),
        ])
        .expect("valid");
        assert_eq!(spec.mix.len(), 2);
        assert_eq!(spec.mix[0].class(), "rpc 10KB/100B");
        assert_eq!(spec.mix[0].flows, 2);
        assert_eq!(spec.mix[1].class(), "rpc 1MB/1KB");
        assert_eq!(spec.mix[1].concurrency, 4);
    }

    #[test]
    fn open_arrivals_read() {
        let spec = read(&[("app.workload", "rpc-open"), ("app.arrival", "poisson:1000/s")]).expect("valid");
        assert_eq!(spec.arrival, ArrivalProcess::Poisson(ArrivalRate::PerSecond(1000.0)));
    }

    #[test]
    fn rows_that_do_not_go_together_are_refused_with_the_row_at_fault() {
        for (rows, message) in [
            (
                vec![("app.workload", "rpc-open")],
                "`app.arrival` = `closed`: `rpc-open` does not wait for completions",
            ),
            (
                vec![("app.workload", "rpc"), ("app.arrival", "burst:2")],
                "`app.arrival` = `burst:2`: `rpc` has no arrivals",
            ),
            (vec![("app.workload", "paced")], "`app.rate` = `none`: `paced` needs a rate"),
            (
                vec![("app.workload", "onoff"), ("app.gap", "0s")],
                "`app.gap` = `0s`: bursts without a gap never end",
            ),
            (vec![("app.arrival", "poisson:1/s")], "`app.flow_size` = `endless`: flows that arrive must end"),
            (vec![("app.workload", "mix")], "`app.mix` = ``: a mix needs members"),
        ] {
            let error = read(&rows).expect_err(message);
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn wrong_values_show_the_value_and_what_is_allowed() {
        for (path, value, message) in [
            ("app.flows", "0", "`app.flows` = `0`: it is out of range; allowed: a number from 1 to 1000000"),
            ("app.flows", "many", "`app.flows` = `many`: it is not a whole number"),
            ("app.start", "10", "`app.start` = `10`: `10` is not a length of time: the unit is missing"),
            ("app.write_size", "0B", "`app.write_size` = `0B`: the size of a call must be at least one byte"),
            (
                "app.workload",
                "bulky",
                "`app.workload` = `bulky`: there is no such workload; allowed: bulk, rpc,",
            ),
            (
                "app.colour",
                "red",
                "`app.colour` = `red`: there is no such parameter; allowed: workload, name,",
            ),
            ("app.mix", "rpc + ", "`app.mix` = `rpc + `: a member is empty"),
            ("app.mix", "rpc flows", "`app.mix` = `rpc flows`: `flows` is not `<row>=<value>`"),
            ("app.mix", "rpc flows=0", "`app.mix` = `rpc flows=0`: in `flows=0`: it is out of range"),
            ("app.mix", "mix", "`app.mix` = `mix`: a mix cannot contain a mix"),
        ] {
            let error = read(&[(path, value)]).expect_err(message);
            assert!(error.starts_with(message), "{error}");
        }
    }
}
