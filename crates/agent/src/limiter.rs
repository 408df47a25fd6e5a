//! `tcpassay-agent limiter`: the paper's rate limiter on a device of this machine: HTB over a FIFO of bytes, and above a
//! threshold of its backlog CE on what goes out or ECE on the ACKs that come back.
//!
//! Only the named device is touched. What stands there and is not the system's default is not ours to replace: it is refused. A
//! limiter says that it is one by the handle of its root ([`ROOT`]) and by its program.

use crate::netns::qdiscs::ETHERNET;
use crate::system::PATH;
use serde::Serialize;
use std::fs;
use std::process::{Command, Stdio};
use tcpassay_bpf::limiter::{self, Mark, Settings, State};
use tcpassay_linux::netlink::{Netlink, Qdisc};
use tcpassay_linux::sys;
use tcpassay_units::{Bytes, Rate};

/// Major number of the handle of a limiter's HTB.
const ROOT: u16 = 0x7ca5;
/// What the FIFO holds, when nothing is said: 100 ms of the rate, and at least this.
const LEAST: u64 = 1_000_000;
/// `clsact` has this handle wherever it is (`TC_H_CLSACT`).
const CLSACT: u16 = 0xffff;

/// A limiter, in words for the user.
#[derive(Serialize)]
struct Limiter {
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

/// Does what the arguments say and prints what the limiter is afterwards, a line of JSON (`null` for none).
///
/// # Errors
/// What is wrong, in words for the user.
pub fn main(arguments: &[&str]) -> Result<(), String> {
    if !sys::is_root() {
        return Err("needs root: it changes the queue of a device".to_owned());
    }
    let limiter = match arguments {
        ["apply", device, rate, threshold, mark, limit] => {
            let rate: Rate = rate.parse().map_err(|e| format!("--rate {rate}: {e}"))?;
            let threshold: Bytes = threshold.parse().map_err(|e| format!("--threshold {threshold}: {e}"))?;
            let mark = match *mark {
                "data" => Mark::Data,
                "ack" => Mark::Acks,
                other => return Err(format!("--mark {other}: allowed are data, ack")),
            };
            let limit = match *limit {
                "auto" => Bytes::new(LEAST.max(rate.bytes_in(tcpassay_units::Dur::from_millis(100)).get())),
                text => text.parse().map_err(|e| format!("--limit {text}: {e}"))?,
            };
            if threshold >= limit {
                return Err(format!(
                    "--threshold {threshold}: the queue holds {limit}, and drops before it marks"
                ));
            }
            let device = Device::of(device)?;
            device.apply(rate, threshold, mark, limit)?;
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

fn has_clsact(qdiscs: &[Qdisc]) -> bool {
    qdiscs.iter().any(|q| q.handle == CLSACT)
}

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
        let all = Netlink::open().and_then(|n| n.qdiscs()).map_err(|e| format!("qdiscs: {e}"))?;
        Ok(all.into_iter().filter(|q| q.interface == self.index).collect())
    }

    /// Runs `tc` on words of our own; the device's name is one of them and never an option.
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
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(format!("tc {words} ({}): {said}", self.name))
    }

    /// Whether a limiter's root is there. What stands at the root and is neither ours nor the default is an error.
    fn is_limited(&self, qdiscs: &[Qdisc]) -> Result<bool, String> {
        // The default has no handle; the root's parent is TC_H_ROOT.
        let root = qdiscs.iter().find(|q| q.is_root && q.handle != 0);
        match root {
            Some(q) if q.handle == ROOT && q.kind == "htb" => Ok(true),
            Some(q) => Err(format!(
                "`{}` has the queue discipline {} {:x}:, which is not of `limiter`: `tc qdisc del dev {} root` removes it",
                self.name, q.kind, q.handle, self.name
            )),
            None => Ok(false),
        }
    }

    fn header(&self) -> Result<u32, String> {
        let path = format!("/sys/class/net/{}/type", self.name);
        // ARPHRD_ETHER and ARPHRD_LOOPBACK (include/uapi/linux/if_arp.h) have one of Ethernet; ARPHRD_NONE has none.
        match fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?.trim() {
            "1" | "772" => Ok(ETHERNET),
            "65534" => Ok(0),
            other => {
                Err(format!("`{}` is a device of type {other}; limiter knows Ethernet and tun", self.name))
            }
        }
    }

    fn apply(&self, rate: Rate, threshold: Bytes, mark: Mark, limit: Bytes) -> Result<(), String> {
        tcpassay_bpf::available().map_err(|e| e.to_string())?;
        let qdiscs = self.qdiscs()?;
        let was_limited = self.is_limited(&qdiscs)?;
        let header = self.header()?;
        let before = self.state(&qdiscs)?;
        let made_clsact = before.map_or(!has_clsact(&qdiscs), |state| state.settings.made_clsact);
        let done = self.shape(rate, limit, was_limited).and_then(|()| {
            // One mark at a time: the other hook is freed first.
            if let Some(other) = before.filter(|state| state.settings.mark != mark) {
                limiter::detach(self.index, other.settings.mark).map_err(|e| e.to_string())?;
            }
            let settings = Settings { mark, threshold, header, made_clsact };
            limiter::attach(self.index, &settings).map(drop).map_err(|e| e.to_string())
        });
        if done.is_err() && !was_limited {
            // Half a limiter is none.
            let _ = self.remove();
        }
        done
    }

    fn shape(&self, rate: Rate, limit: Bytes, again: bool) -> Result<(), String> {
        let r = rate.bits_per_sec();
        // What passes while a timer is late, as the substrate `host` has it.
        let burst = rate.bytes_in(tcpassay_units::Dur::from_micros(100)).get().max(1600);
        if !again {
            self.tc(&format!("qdisc add root handle {ROOT:x}: htb default 1"))?;
        }
        self.tc(&format!(
            "class replace parent {ROOT:x}: classid {ROOT:x}:1 htb rate {r}bit ceil {r}bit burst {burst}b cburst {burst}b quantum 100000"
        ))?;
        self.tc(&format!(
            "qdisc replace parent {ROOT:x}:1 handle {:x}: bfifo limit {}",
            ROOT + 1,
            limit.get()
        ))
    }

    fn state(&self, qdiscs: &[Qdisc]) -> Result<Option<State>, String> {
        if !has_clsact(qdiscs) {
            return Ok(None);
        }
        limiter::find(self.index).map_err(|e| e.to_string())
    }

    fn limiter(&self) -> Result<Option<Limiter>, String> {
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
        Ok(Some(Limiter {
            device: self.name.clone(),
            rate_bps: rate_bps.unwrap_or(0),
            limit_bytes: leaf.map_or(0, |q| q.limit),
            threshold_bytes: state.settings.threshold.get(),
            mark: if state.settings.mark == Mark::Data { "data" } else { "ack" },
            packets: state.packets,
            marks: state.marks,
            backlog_bytes: leaf.map_or(0, |q| q.backlog),
            sent_bytes: leaf.map_or(0, |q| q.bytes),
            dropped_packets: leaf.map_or(0, |q| q.drops),
        }))
    }

    /// Takes the limiter away; what the system puts there by default comes back by itself. Without one there is nothing to do.
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

    /// Whether somebody else has put filters on the hooks meanwhile.
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
