//! `tcpassay-agent limiter`: the paper's rate limiter on a device of this machine. The limiter is an HTB over a FIFO of bytes. While the
//! backlog is above a threshold, outgoing packets get the CE mark, or incoming ACKs get the ECE flag.
//!
//! The command changes only the named device. A queue discipline that is neither the system's default nor a limiter is not replaced; the
//! command fails instead. A limiter is recognised by the handle of its root ([`ROOT`]) and by its program.

use crate::netns::qdiscs::ETHERNET;
use crate::system::PATH;
use serde::Serialize;
use std::fs;
use std::process::{Command, Stdio};
use tcpassay_bpf::limiter::{self, LimiterState, MarkedPackets, Settings};
use tcpassay_linux::netlink::{Netlink, Qdisc};
use tcpassay_linux::sys;
use tcpassay_units::{Bytes, Dur, Rate};

/// The major number of the handle of a limiter's HTB.
const ROOT: u16 = 0x7ca5;
/// The minimum of the default capacity of the FIFO, in bytes. The default is 100 ms of the rate.
const MIN_LIMIT: u64 = 1_000_000;
/// The major number of the handle of every `clsact` (`TC_H_CLSACT`).
const CLSACT: u16 = 0xffff;

/// The state of a limiter, for the user.
#[derive(Serialize)]
struct LimiterStatus {
    device: String,
    rate_bps: u64,
    limit_bytes: u64,
    threshold_bytes: u64,
    mark: &'static str,
    packets: u64,
    marks: u64,
    backlog_bytes: u64,
    sent_bytes: u64,
    dropped_packets: u64,
}

/// Executes the command, and prints the state of the limiter afterwards as a line of JSON (`null` without a limiter).
///
/// # Errors
/// A message for the user.
pub fn main(arguments: &[&str]) -> Result<(), String> {
    if !sys::is_root() {
        return Err("needs root: it changes the queue of a device".to_owned());
    }
    let limiter = match arguments {
        ["apply", device, settings @ ..] if settings.len() == 4 => {
            let settings = parse(settings)?;
            let device = Device::of(device)?;
            device.apply(&settings)?;
            device.limiter()?
        }
        ["show", device] => Device::of(device)?.limiter()?,
        ["remove", device] => {
            Device::of(device)?.remove()?;
            None
        }
        _ => {
            return Err(
                "usage: limiter apply DEV RATE THRESHOLD data|ack LIMIT|auto; limiter show DEV; limiter remove DEV"
                    .to_owned(),
            );
        }
    };
    println!("{}", serde_json::to_string(&limiter).expect("plain fields"));
    Ok(())
}

/// The settings of the command `apply`.
#[derive(PartialEq, Debug)]
struct ApplySettings {
    rate: Rate,
    threshold: Bytes,
    mark: MarkedPackets,
    /// The capacity of the FIFO.
    limit: Bytes,
}

/// Parses rate, threshold, mark and limit.
fn parse(arguments: &[&str]) -> Result<ApplySettings, String> {
    let [rate, threshold, mark, limit] = arguments else { unreachable!("the caller passes four") };
    let rate: Rate = rate.parse().map_err(|e| format!("--rate {rate}: {e}"))?;
    let threshold: Bytes = threshold.parse().map_err(|e| format!("--threshold {threshold}: {e}"))?;
    let mark = match *mark {
        "data" => MarkedPackets::Data,
        "ack" => MarkedPackets::Acks,
        other => return Err(format!("--mark {other}: allowed are data, ack")),
    };
    let limit = match *limit {
        "auto" => Bytes::new(MIN_LIMIT.max(rate.bytes_in(Dur::from_millis(100)).get())),
        text => text.parse().map_err(|e| format!("--limit {text}: {e}"))?,
    };
    if threshold >= limit {
        return Err(format!(
            "--threshold {threshold}: the limit of the queue is {limit}, so that it drops packets before it marks them"
        ));
    }
    Ok(ApplySettings { rate, threshold, mark, limit })
}

/// The commands of `tc` that create the shaper of a limiter; `exists`: its root exists already.
fn shaper_commands(rate: Rate, limit: Bytes, exists: bool) -> Vec<String> {
    let r = rate.bits_per_sec();
    // The bytes that the rate sends while a timer is late, as on the substrate `host`.
    let burst = rate.bytes_in(Dur::from_micros(100)).get().max(1600);
    let root = (!exists).then(|| format!("qdisc add root handle {ROOT:x}: htb default 1"));
    let rest = [
        format!(
            "class replace parent {ROOT:x}: classid {ROOT:x}:1 htb rate {r}bit ceil {r}bit burst {burst}b cburst {burst}b quantum 100000"
        ),
        format!("qdisc replace parent {ROOT:x}:1 handle {:x}: bfifo limit {}", ROOT + 1, limit.get()),
    ];
    root.into_iter().chain(rest).collect()
}

fn has_clsact(qdiscs: &[Qdisc]) -> bool {
    qdiscs.iter().any(|q| q.handle == CLSACT)
}

/// See [`Device::is_limited`]. `qdiscs` are those of the device `name`.
fn is_limited(name: &str, qdiscs: &[Qdisc]) -> Result<bool, String> {
    // The default qdisc has the handle 0.
    match qdiscs.iter().find(|q| q.is_root && q.handle != 0) {
        Some(q) if q.handle == ROOT && q.kind == "htb" => Ok(true),
        Some(q) => Err(format!(
            "`{name}` has the queue discipline {} {:x}:, which is not of `limiter`: `tc qdisc del dev {name} root` removes it",
            q.kind, q.handle
        )),
        None => Ok(false),
    }
}

/// A network device of this machine.
struct Device {
    name: String,
    index: i32,
}

impl Device {
    fn of(name: &str) -> Result<Device, String> {
        let index = sys::interface_index(name).map_err(|_| format!("`{name}`: there is no such device"))?;
        Ok(Device { name: name.to_owned(), index })
    }

    fn qdiscs(&self) -> Result<Vec<Qdisc>, String> {
        let all = Netlink::open().and_then(|n| n.qdiscs(|_| &[])).map_err(|e| format!("qdiscs: {e}"))?;
        Ok(all.into_iter().filter(|q| q.interface == self.index).collect())
    }

    /// Runs `tc` with a command line, into which the name of the device is inserted as an argument of its own.
    fn tc(&self, words: &str) -> Result<(), String> {
        let mut parts = words.split(' ');
        let command: Vec<&str> = parts.by_ref().take(2).collect();
        let output = Command::new("tc")
            .args(command)
            .args(["dev", &self.name])
            .args(parts)
            .env_clear()
            .env("PATH", PATH)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("`tc` cannot be run ({e}); it is in Debian's iproute2"))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(format!("tc {words} ({}): {message}", self.name))
    }

    /// Returns true if the root qdisc is a limiter's. A root that is neither a limiter's nor the default is an error.
    fn is_limited(&self, qdiscs: &[Qdisc]) -> Result<bool, String> {
        is_limited(&self.name, qdiscs)
    }

    fn header(&self) -> Result<u32, String> {
        let path = format!("/sys/class/net/{}/type", self.name);
        // ARPHRD_ETHER and ARPHRD_LOOPBACK (include/uapi/linux/if_arp.h) have one of Ethernet; ARPHRD_NONE has none.
        match fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?.trim() {
            "1" | "772" => Ok(ETHERNET),
            "65534" => Ok(0),
            other => {
                Err(format!("`{}` is a device of type {other}; a limiter needs Ethernet or tun", self.name))
            }
        }
    }

    fn apply(&self, settings: &ApplySettings) -> Result<(), String> {
        let ApplySettings { rate, threshold, mark, limit } = *settings;
        tcpassay_bpf::available().map_err(|e| e.to_string())?;
        let qdiscs = self.qdiscs()?;
        let was_limited = self.is_limited(&qdiscs)?;
        let header = self.header()?;
        let before = self.state(&qdiscs)?;
        let made_clsact = before.map_or(!has_clsact(&qdiscs), |state| state.settings.made_clsact);
        let done = self.shape(rate, limit, was_limited).and_then(|()| {
            // A limiter marks either data or ACKs: the program on the other hook is removed first.
            if let Some(other) = before.filter(|state| state.settings.mark != mark) {
                limiter::detach(self.index, other.settings.mark).map_err(|e| e.to_string())?;
            }
            let settings = Settings { mark, threshold, header, made_clsact };
            limiter::attach(self.index, &settings).map(drop).map_err(|e| e.to_string())
        });
        if done.is_err() && !was_limited {
            // An incomplete limiter is removed.
            let _ = self.remove();
        }
        done
    }

    fn shape(&self, rate: Rate, limit: Bytes, exists: bool) -> Result<(), String> {
        shaper_commands(rate, limit, exists).iter().try_for_each(|command| self.tc(command))
    }

    fn state(&self, qdiscs: &[Qdisc]) -> Result<Option<LimiterState>, String> {
        if !has_clsact(qdiscs) {
            return Ok(None);
        }
        limiter::find(self.index).map_err(|e| e.to_string())
    }

    fn limiter(&self) -> Result<Option<LimiterStatus>, String> {
        let qdiscs = self.qdiscs()?;
        if !self.is_limited(&qdiscs).unwrap_or(false) {
            return Ok(None);
        }
        let state = self.state(&qdiscs)?.ok_or_else(|| {
            format!("`{}` has the shaper of a limiter and not its program: apply or remove it", self.name)
        })?;
        let leaf = qdiscs.iter().find(|q| q.handle == ROOT + 1);
        let rate_bps = Netlink::open()
            .and_then(|n| n.class_rate(self.index, ROOT))
            .map_err(|e| format!("classes: {e}"))?;
        Ok(Some(LimiterStatus {
            device: self.name.clone(),
            rate_bps: rate_bps.unwrap_or(0),
            limit_bytes: leaf.map_or(0, |q| q.limit),
            threshold_bytes: state.settings.threshold.get(),
            mark: if state.settings.mark == MarkedPackets::Data { "data" } else { "ack" },
            packets: state.packets,
            marks: state.marks,
            backlog_bytes: leaf.map_or(0, |q| q.backlog),
            sent_bytes: leaf.map_or(0, |q| q.bytes),
            dropped_packets: leaf.map_or(0, |q| q.drops),
        }))
    }

    /// Removes the limiter; the kernel restores its default qdisc. Does nothing without a limiter.
    fn remove(&self) -> Result<(), String> {
        let qdiscs = self.qdiscs()?;
        let limited = self.is_limited(&qdiscs)?;
        if let Some(state) = self.state(&qdiscs)? {
            limiter::detach(self.index, state.settings.mark).map_err(|e| e.to_string())?;
            if state.settings.made_clsact && !self.has_filters()? {
                self.tc("qdisc del clsact")?;
            }
        }
        if limited { self.tc("qdisc del root") } else { Ok(()) }
    }

    /// Returns true if the hooks have other filters.
    fn has_filters(&self) -> Result<bool, String> {
        for hook in ["ingress", "egress"] {
            let output = Command::new("tc")
                .args(["filter", "show", "dev", &self.name, hook])
                .env_clear()
                .env("PATH", PATH)
                .output()
                .map_err(|e| format!("`tc` cannot be run ({e})"))?;
            if !output.stdout.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_capacity_is_100_ms_of_the_rate_and_at_least_a_megabyte() {
        let limit = |rate| parse(&[rate, "30KB", "data", "auto"]).unwrap().limit;
        // 2 Gbit/s are 250 MB/s.
        assert_eq!(limit("2Gbit"), Bytes::new(25_000_000));
        assert_eq!(limit("10Mbit"), Bytes::new(1_000_000));
        let settings = parse(&["1Gbit", "30KB", "ack", "60KB"]).unwrap();
        assert_eq!((settings.mark, settings.limit), (MarkedPackets::Acks, Bytes::new(60_000)));
    }

    #[test]
    fn invalid_settings_are_errors_with_the_option_and_the_value() {
        for (arguments, message) in [
            (["1Gbit", "30KB", "both", "auto"], "--mark both: allowed are data, ack"),
            (
                ["1Gbit", "60KB", "data", "60KB"],
                "--threshold 60KB: the limit of the queue is 60KB, so that it drops packets before it marks them",
            ),
        ] {
            assert_eq!(parse(&arguments).unwrap_err(), message);
        }
        assert!(parse(&["fast", "30KB", "data", "auto"]).unwrap_err().starts_with("--rate fast: "));
        assert!(parse(&["1Gbit", "much", "data", "auto"]).unwrap_err().starts_with("--threshold much: "));
        assert!(parse(&["1Gbit", "30KB", "data", "more"]).unwrap_err().starts_with("--limit more: "));
    }

    #[test]
    fn the_shaper_is_htb_with_100_us_of_burst_over_a_fifo_of_bytes() {
        let commands = shaper_commands(Rate::from_gbit(2), Bytes::new(25_000_000), false);
        assert_eq!(
            commands,
            [
                "qdisc add root handle 7ca5: htb default 1",
                "class replace parent 7ca5: classid 7ca5:1 htb rate 2000000000bit ceil 2000000000bit burst 25000b cburst \
                 25000b quantum 100000",
                "qdisc replace parent 7ca5:1 handle 7ca6: bfifo limit 25000000",
            ]
        );
        assert_eq!(shaper_commands(Rate::from_gbit(2), Bytes::new(25_000_000), true), commands[1..]);
        assert!(shaper_commands(Rate::from_mbit(1), Bytes::new(9000), true)[0].contains("burst 1600b"));
    }

    #[test]
    fn another_queue_discipline_at_the_root_is_not_replaced() {
        let root =
            |handle, kind: &str| Qdisc { is_root: true, handle, kind: kind.to_owned(), ..Qdisc::default() };
        assert_eq!(is_limited("eth0", &[]), Ok(false));
        assert_eq!(is_limited("eth0", &[root(0, "fq_codel")]), Ok(false));
        assert_eq!(is_limited("eth0", &[root(0x7ca5, "htb")]), Ok(true));
        let error = is_limited("eth0", &[root(0x8001, "fq")]).unwrap_err();
        assert!(error.starts_with("`eth0` has the queue discipline fq 8001:"), "{error}");
        assert!(is_limited("eth0", &[root(0x7ca5, "fq")]).is_err());
    }
}
