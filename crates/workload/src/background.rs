//! Background traffic that competes with the traffic of the test (`app.background`).

use crate::arrival::{ArrivalProcess, ArrivalRate};
use crate::error::{SpecError, ValueError};
use crate::schedule::{HostPair, TrafficPart};
use crate::size::SizeDistribution;
use crate::spec::WorkloadSpec;
use std::fmt;
use tcpassay_units::{Bytes, Carry, Rate, Time};

/// Background traffic.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum BackgroundTraffic {
    /// `none`.
    #[default]
    None,
    /// Endless flows: `bulk:<n>` with the congestion control of the host, `bulk:<n>:<cc>` with another one.
    Bulk {
        /// Number of flows per pair of hosts.
        flows: u32,
        /// Their congestion control.
        cc: Option<String>,
    },
    /// `poisson:<percent>%`: flows with web-search sizes whose arrival rate fills this share of the capacity.
    Poisson {
        /// Above 0, at most 100.
        percent: f64,
    },
    /// `udp:<rate>`: datagrams of 1000 bytes with constant spacing, without congestion control.
    Udp(Rate),
}

const ALLOWED: &str = "`none`, `bulk:<n>`, `bulk:<n>:<cc>`, `poisson:<percent>%`, `udp:<rate>`";

impl BackgroundTraffic {
    /// Parses `app.background`.
    ///
    /// # Errors
    /// The value, the cause, and the allowed values.
    pub fn read(text: &str) -> Result<BackgroundTraffic, SpecError> {
        Self::parse(text).map_err(|bad| bad.at("app.background", text))
    }

    fn parse(text: &str) -> Result<BackgroundTraffic, ValueError> {
        let bad = |why: String| ValueError::new(why, ALLOWED);
        match text.split_once(':').unwrap_or((text, "")) {
            ("none", "") => Ok(BackgroundTraffic::None),
            ("bulk", rest) => {
                let (n, cc) = rest.split_once(':').map_or((rest, None), |(n, cc)| (n, Some(cc)));
                let flows = n.parse().ok().filter(|n| (1..=100_000).contains(n));
                let flows = flows.ok_or_else(|| bad(format!("`{n}` is not a number from 1 to 100000")))?;
                if cc == Some("") {
                    return Err(bad("the congestion control is missing".to_owned()));
                }
                Ok(BackgroundTraffic::Bulk { flows, cc: cc.map(str::to_owned) })
            }
            ("poisson", rest) => {
                let percent = rest.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
                match percent.filter(|p| *p > 0.0 && *p <= 100.0) {
                    Some(percent) => Ok(BackgroundTraffic::Poisson { percent }),
                    None => Err(bad(format!("`{rest}` is not a share above 0% and at most 100%"))),
                }
            }
            ("udp", rest) => rest.parse().map(BackgroundTraffic::Udp).map_err(|e| bad(format!("{e}"))),
            (kind, _) => Err(bad(format!("`{kind}` is not a kind of background traffic"))),
        }
    }

    /// The TCP part between `pairs`, which share a bottleneck of `capacity`; `None` when there is no TCP traffic.
    pub fn part(&self, pairs: &[HostPair], capacity: Rate) -> Option<TrafficPart> {
        let spec = WorkloadSpec { name: Some("background".to_owned()), ..WorkloadSpec::default() };
        let (spec, cc) = match self {
            BackgroundTraffic::None | BackgroundTraffic::Udp(_) => return None,
            BackgroundTraffic::Bulk { flows, cc } => (WorkloadSpec { flows: *flows, ..spec }, cc.clone()),
            BackgroundTraffic::Poisson { percent } => {
                // Each sender is a client with its own arrival process.
                let mut senders: Vec<_> = pairs.iter().map(|pair| pair.sender).collect();
                senders.sort_unstable();
                senders.dedup();
                let n = u32::try_from(senders.len().max(1)).expect("few hosts");
                let share = capacity.mul_f64(percent / 100.0 / f64::from(n));
                let arrival = ArrivalProcess::Poisson(ArrivalRate::Load(share));
                (WorkloadSpec { arrival, flow_size: Some(SizeDistribution::web_search()), ..spec }, None)
            }
        };
        Some(TrafficPart { class: spec.class(), spec, pairs: pairs.to_vec(), cc })
    }
}

impl fmt::Display for BackgroundTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackgroundTraffic::None => f.write_str("none"),
            BackgroundTraffic::Bulk { flows, cc: None } => write!(f, "bulk:{flows}"),
            BackgroundTraffic::Bulk { flows, cc: Some(cc) } => write!(f, "bulk:{flows}:{cc}"),
            BackgroundTraffic::Poisson { percent } => write!(f, "poisson:{percent}%"),
            BackgroundTraffic::Udp(rate) => write!(f, "udp:{rate}"),
        }
    }
}

/// The departure times of background datagrams: constant spacing without cumulative rounding error.
#[derive(Clone, Debug)]
pub struct UdpSource {
    rate: Rate,
    next: Time,
    carry: Carry,
}

impl UdpSource {
    /// Payload bytes of each datagram.
    pub const PAYLOAD: Bytes = Bytes::new(1000);

    /// Datagrams at `rate` (payload bits), the first one at `start`.
    pub fn new(rate: Rate, start: Time) -> UdpSource {
        UdpSource { rate, next: start, carry: Carry::default() }
    }

    /// Departure time of the next datagram.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Advances to the datagram after the next one.
    pub fn advance(&mut self) {
        self.next += self.rate.tx_time(Self::PAYLOAD, &mut self.carry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostIndex;
    use tcpassay_units::Dur;

    const PAIRS: [HostPair; 2] = [
        HostPair { sender: HostIndex(0), receiver: HostIndex(2) },
        HostPair { sender: HostIndex(1), receiver: HostIndex(2) },
    ];

    #[test]
    fn background_prints_as_it_is_written() {
        for text in ["none", "bulk:4", "bulk:2:cubic", "poisson:20%", "udp:100Mbit"] {
            assert_eq!(BackgroundTraffic::read(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn wrong_background_says_what_is_allowed() {
        for text in
            ["", "bulk", "bulk:0", "bulk:2:", "poisson:20", "poisson:0%", "poisson:101%", "udp:5", "tcp:1"]
        {
            let error = BackgroundTraffic::read(text).expect_err(text).to_string();
            assert!(error.contains("allowed: `none`, `bulk:<n>`"), "{error}");
        }
    }

    #[test]
    fn a_load_in_percent_is_shared_by_the_senders() {
        let background = BackgroundTraffic::Poisson { percent: 20.0 };
        let part = background.part(&PAIRS, Rate::from_gbit(10)).expect("tcp");
        assert_eq!(part.spec.arrival, ArrivalProcess::Poisson(ArrivalRate::Load(Rate::from_gbit(1))));
        assert_eq!(part.class, "background");
    }

    #[test]
    fn bulk_background_keeps_its_own_congestion_control() {
        let part = BackgroundTraffic::read("bulk:2:cubic")
            .expect("valid")
            .part(&PAIRS, Rate::from_gbit(1))
            .expect("tcp");
        assert_eq!((part.spec.flows, part.cc.as_deref()), (2, Some("cubic")));
        assert!(BackgroundTraffic::Udp(Rate::from_mbit(1)).part(&PAIRS, Rate::from_gbit(1)).is_none());
    }

    #[test]
    fn datagrams_at_3_mbit_leave_375_a_second_without_drift() {
        let mut source = UdpSource::new(Rate::from_mbit(3), Time::ZERO);
        for _ in 0..375_000 {
            source.advance();
        }
        assert_eq!(source.next(), Time::ZERO + Dur::from_secs(1000));
    }
}
