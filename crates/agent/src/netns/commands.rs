//! Commands of `ip` and `tc` that this process executes by netlink, without a process of the tool.
//!
//! The commands of a case are lines for `ip -batch` and `tc -batch`. Those of an ordinary case are understood here and become
//! one datagram of requests; a process of the tool executes the others. A process costs milliseconds, and in a guest, where
//! each of its page faults stops it twice, more than half of the time of a short run.

use crate::netns::topology::NETNS_FOLDER;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::str::SplitWhitespace;
use tcpassay_linux::netlink::Netlink;
use tcpassay_linux::netlink::requests::{
    LinkChanges, NewQdisc, QdiscKind, ROOT, Request, RouteMetric, VethEnd,
};

/// Executes the commands up to the first one that is not understood or fails. Returns how many were executed. Requests behind
/// one that failed may have been executed, too.
pub fn execute(tool: &str, lines: &[String]) -> usize {
    let Ok(netlink) = Netlink::open() else { return 0 };
    let mut devices = Devices { netlink: &netlink, known: BTreeMap::new() };
    let understood: Vec<Request> = lines.iter().map_while(|line| request(tool, line, &mut devices)).collect();
    if understood.is_empty() {
        return 0;
    }
    netlink.make(&understood).map_or_else(|(failed, _)| failed, |()| understood.len())
}

/// The indices of the devices that commands have named, by name.
struct Devices<'a> {
    netlink: &'a Netlink,
    known: BTreeMap<String, i32>,
}

impl Devices<'_> {
    /// The index of a device; `None` if there is none of this name.
    fn index(&mut self, name: &str) -> Option<i32> {
        if let Some(index) = self.known.get(name) {
            return Some(*index);
        }
        let index = self.netlink.interface_index(name).ok()?;
        self.known.insert(name.to_owned(), index);
        Some(index)
    }

    /// Takes `dev NAME`. Returns the index of the device.
    fn take(&mut self, words: &mut SplitWhitespace) -> Option<i32> {
        keyword(words, "dev")?;
        self.index(words.next()?)
    }
}

/// The request of a command; `None` if it is not understood, or if an object that it names does not exist.
fn request(tool: &str, line: &str, devices: &mut Devices) -> Option<Request> {
    let mut words = line.split_whitespace();
    match (tool, words.next()?, words.next()?) {
        ("ip", "link", "add") => veth(words),
        ("ip", "link", "set") => link(words, devices),
        ("ip", "addr", "add") => address(words, devices),
        ("ip", "route", "add") => route(words, devices),
        ("tc", "qdisc", "add") => qdisc(words, devices),
        _ => None,
    }
}

/// Takes a word, which must be this one.
fn keyword(words: &mut SplitWhitespace, expected: &str) -> Option<()> {
    (words.next()? == expected).then_some(())
}

/// Takes a keyword and a number behind it.
fn number(words: &mut SplitWhitespace, name: &str) -> Option<u32> {
    keyword(words, name)?;
    words.next()?.parse().ok()
}

/// `name A mtu M address MAC netns N type veth peer name B mtu M address MAC netns N`
fn veth(mut words: SplitWhitespace) -> Option<Request> {
    let near = veth_end(&mut words)?;
    for expected in ["type", "veth", "peer"] {
        keyword(&mut words, expected)?;
    }
    let far = veth_end(&mut words)?;
    words.next().is_none().then(|| Request::veth([near, far]))
}

/// `name A mtu M address MAC netns N`
fn veth_end<'a>(words: &mut SplitWhitespace<'a>) -> Option<VethEnd<'a>> {
    keyword(words, "name")?;
    let name = words.next()?;
    let mtu = number(words, "mtu")?;
    keyword(words, "address")?;
    let mac = mac_address(words.next()?)?;
    keyword(words, "netns")?;
    let netns = File::open(format!("{NETNS_FOLDER}/{}", words.next()?)).ok()?.into();
    Some(VethEnd { name, mtu, mac, netns })
}

/// The bytes of a MAC address; `None` for another text.
pub fn mac_address(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// `[dev] D`, and what changes.
fn link(mut words: SplitWhitespace, devices: &mut Devices) -> Option<Request> {
    let name = match words.next()? {
        "dev" => words.next()?,
        name => name,
    };
    let changes = link_changes(words)?;
    Some(Request::link(devices.index(name)?, &changes))
}

fn link_changes(mut words: SplitWhitespace) -> Option<LinkChanges> {
    let mut changes = LinkChanges::default();
    while let Some(word) = words.next() {
        match word {
            "up" => changes.up = true,
            "arp" => {
                keyword(&mut words, "off")?;
                changes.no_arp = true;
            }
            _ => {
                let place = match word {
                    "mtu" => &mut changes.mtu,
                    "gso_max_segs" => &mut changes.gso_max_segs,
                    "gso_max_size" => &mut changes.gso_max_size,
                    "gro_max_size" => &mut changes.gro_max_size,
                    _ => return None,
                };
                *place = Some(words.next()?.parse().ok()?);
            }
        }
    }
    Some(changes)
}

/// An IPv4 address with the length of its prefix.
fn prefix(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, length) = text.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok().filter(|length| *length <= 32)?))
}

/// `A/P dev D`
fn address(mut words: SplitWhitespace, devices: &mut Devices) -> Option<Request> {
    let (address, length) = prefix(words.next()?)?;
    let interface = devices.take(&mut words)?;
    words.next().is_none().then(|| Request::address(interface, address, length))
}

/// `default|A/P [via G] dev D`, and metrics.
fn route(mut words: SplitWhitespace, devices: &mut Devices) -> Option<Request> {
    let to = match words.next()? {
        "default" => (Ipv4Addr::UNSPECIFIED, 0),
        text => prefix(text)?,
    };
    let mut gateway = None;
    if words.clone().next()? == "via" {
        words.next();
        gateway = Some(words.next()?.parse().ok()?);
    }
    let interface = devices.take(&mut words)?;
    let mut metrics = Vec::new();
    while let Some(word) = words.next() {
        let metric = match word {
            "advmss" => RouteMetric::AdvertisedMss,
            "initcwnd" => RouteMetric::InitialWindow,
            "quickack" => RouteMetric::QuickAck,
            _ => return None,
        };
        metrics.push((metric, words.next()?.parse().ok()?));
    }
    Some(Request::route(interface, to, gateway, &metrics))
}

/// `dev D root|parent P handle H [stab overhead B] KIND OPTIONS`
fn qdisc(mut words: SplitWhitespace, devices: &mut Devices) -> Option<Request> {
    let interface = devices.take(&mut words)?;
    let (parent, handle, overhead, kind) = qdisc_words(words)?;
    Some(Request::qdisc(&NewQdisc { interface, parent, handle, overhead, kind }))
}

fn qdisc_words(mut words: SplitWhitespace) -> Option<(u32, u32, i32, QdiscKind)> {
    let parent = match words.next()? {
        "root" => ROOT,
        "parent" => handle(words.next()?)?,
        _ => return None,
    };
    keyword(&mut words, "handle")?;
    let handle = handle(words.next()?)?;
    let mut word = words.next()?;
    let mut overhead = 0;
    if word == "stab" {
        keyword(&mut words, "overhead")?;
        overhead = words.next()?.parse().ok()?;
        word = words.next()?;
    }
    let kind = match word {
        "pfifo" => QdiscKind::PacketFifo(number(&mut words, "limit")?),
        "bfifo" => QdiscKind::ByteFifo(number(&mut words, "limit")?),
        "tbf" => {
            let rate = rate(&mut words)?;
            keyword(&mut words, "burst")?;
            let burst = words.next()?.strip_suffix('b')?.parse().ok()?;
            QdiscKind::TokenBucket { rate, burst, limit: number(&mut words, "limit")? }
        }
        "netem" => {
            let (limit, rate) = (number(&mut words, "limit")?, rate(&mut words)?);
            let delay = match words.next() {
                None => 0,
                Some("delay") => nanoseconds(words.next()?)?,
                Some(_) => return None,
            };
            QdiscKind::Wire { limit, rate, delay }
        }
        _ => return None,
    };
    words.next().is_none().then_some((parent, handle, overhead, kind))
}

/// `MAJOR:[MINOR]`, hexadecimal.
fn handle(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let number = |text: &str| u16::from_str_radix(text, 16).ok();
    let minor = if minor.is_empty() { 0 } else { number(minor)? };
    Some(u32::from(number(major)?) << 16 | u32::from(minor))
}

/// Takes `rate Nbit`. Returns bytes a second, as `tc` rounds them.
fn rate(words: &mut SplitWhitespace) -> Option<u64> {
    keyword(words, "rate")?;
    let bits: u64 = words.next()?.strip_suffix("bit")?.parse().ok()?;
    Some(bits / 8)
}

/// Microseconds with three decimals, as nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.strip_suffix("us")?.split_once('.')?;
    let whole: u64 = whole.parse().ok()?;
    (decimals.len() == 3).then_some(())?;
    whole.checked_mul(1000)?.checked_add(decimals.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changes_of_a_device_are_understood_or_left_to_the_tool() {
        let changes = |line: &str| link_changes(line.split_whitespace());
        let all = LinkChanges {
            up: true,
            no_arp: true,
            mtu: Some(1400),
            gso_max_segs: Some(1),
            gso_max_size: Some(6000),
            gro_max_size: Some(65_536),
        };
        let line = "arp off mtu 1400 gso_max_segs 1 gso_max_size 6000 gro_max_size 65536 up";
        assert_eq!(changes(line), Some(all));
        for foreign in ["arp on up", "master br0", "mtu", "gso_max_size big up"] {
            assert_eq!(changes(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_queues_of_an_ordinary_link_are_understood_and_others_are_left_to_the_tool() {
        let words = |line: &str| qdisc_words(line.split_whitespace());
        let bucket = QdiscKind::TokenBucket { rate: 12_500_000, burst: 1516, limit: 1_000_000_000 };
        assert_eq!(
            words("root handle 1: stab overhead -14 tbf rate 100000000bit burst 1516b limit 1000000000"),
            Some((ROOT, 0x1_0000, -14, bucket))
        );
        assert_eq!(
            words("parent 1:1 handle 10: pfifo limit 1000"),
            Some((0x1_0001, 0x10_0000, 0, QdiscKind::PacketFifo(1000)))
        );
        let wire = QdiscKind::Wire { limit: 10_000_000, rate: 12_500_000, delay: 5_000_250 };
        assert_eq!(
            words("root handle 1: stab overhead -14 netem limit 10000000 rate 100000000bit delay 5000.250us"),
            Some((ROOT, 0x1_0000, -14, wire))
        );
        for foreign in [
            "root handle 1: netem limit 10000000 rate 100000000bit delay 5000.000us 1000.000us",
            "root handle 1: netem limit 10000000 rate 100000000bit loss 1%",
            "root handle 1: netem limit 10000000 slot 800ns 800ns",
            "root handle 1: htb default 1",
            "parent 1:1 handle 10: pfifo limit 1000 extra",
            "parent 1:g handle 10: pfifo limit 1000",
        ] {
            assert_eq!(words(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn what_names_no_device_or_another_object_is_left_to_the_tool() {
        let netlink = Netlink::open().unwrap();
        let mut devices = Devices { netlink: &netlink, known: BTreeMap::new() };
        for (tool, line) in [
            ("ip", "link set dev no-such-device up"),
            ("ip", "addr add 10.0.0.1/32 dev no-such-device"),
            ("ip", "addr add 10.0.0.1/33 dev lo"),
            ("ip", "addr add fd00::1/64 dev lo"),
            ("ip", "route add default dev lo rto_min 10ms"),
            ("ip", "rule add iif lo blackhole pref 1"),
            ("tc", "filter add dev lo egress matchall action drop"),
            ("ip", "qdisc add dev lo root handle 1: pfifo limit 1"),
        ] {
            assert!(request(tool, line, &mut devices).is_none(), "{line}");
        }
        let line = "route add default via 10.0.0.2 dev lo advmss 1400";
        assert!(request("ip", line, &mut devices).is_some());
    }

    #[test]
    fn a_mac_address_has_six_bytes() {
        assert_eq!(mac_address("02:00:0a:ff:00:01"), Some([2, 0, 10, 255, 0, 1]));
        for wrong in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:0g"] {
            assert_eq!(mac_address(wrong), None, "{wrong}");
        }
    }
}
