//! Cookies and keys of TCP Fast Open (RFC 7413 section 4).
//!
//! Sources: `tcp_fastopen.c` and `tcp_fastopen_cache_set` of Linux; `tcp_fastopen.c` of FreeBSD. A script has one peer, so the
//! cookie cache has one entry. A server on FreeBSD generates its cookies from a random key, so scripts cannot contain them.

use crate::run::tcp_options::hex;
use crate::settings::{IpVersion, ScriptSettings};
use crate::siphash::siphash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcpassay_tcp::FastOpen;
use tcpassay_units::Time;

/// The entry of the cookie cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Cache {
    pub(super) cookie: Option<FastOpen>,
    pub(super) mss: Option<u16>,
    /// Linux (`try_exp`): 1 requests the cookie with the experimental option next time, 2 does not try it again.
    pub(super) try_exp: u8,
    /// FreeBSD: the time when Fast Open was disabled for the path.
    pub(super) disabled: Option<Time>,
}

/// The cookies of a server with these keys, one per key.
pub(super) fn cookies(keys: &[[u64; 2]], settings: &ScriptSettings) -> Vec<Vec<u8>> {
    let (remote, local) = addresses(settings);
    let path: Vec<u8> = match (remote, local) {
        (IpAddr::V4(r), IpAddr::V4(l)) => [r.octets(), l.octets()].concat(),
        (IpAddr::V6(r), IpAddr::V6(l)) => [r.octets(), l.octets()].concat(),
        _ => Vec::new(),
    };
    keys.iter().map(|key| siphash(*key, &path).to_le_bytes().to_vec()).collect()
}

/// The remote and the local address: those of the command line, or the defaults of packetdrill.
fn addresses(settings: &ScriptSettings) -> (IpAddr, IpAddr) {
    let configured = |name: &str| settings.addresses.iter().rev().find(|(n, _)| n == name).map(|(_, ip)| *ip);
    let v6 = |parts: [u16; 8]| IpAddr::V6(Ipv6Addr::from(parts));
    let (remote, local) = match settings.ip_version {
        IpVersion::V4 | IpVersion::V4MappedV6 => {
            (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)))
        }
        IpVersion::V6 => {
            (v6([0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1]), v6([0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1]))
        }
    };
    (configured("remote_ip").unwrap_or(remote), configured("local_ip").unwrap_or(local))
}

/// Keys in the form `a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4`, separated by commas.
pub(super) fn keys(text: &str) -> Option<Vec<[u64; 2]>> {
    let key = |text: &str| {
        let words: Option<Vec<u32>> = if text.contains('-') {
            text.split('-').map(|w| u32::from_str_radix(w, 16).ok()).collect()
        } else {
            return None;
        };
        let [a, b, c, d] = words?.try_into().ok()?;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Some([pair(a, b), pair(c, d)])
    };
    text.split(',').map(|t| key(t.trim())).collect()
}

/// The value of `TCP_FASTOPEN_KEY`: one or two keys of 16 bytes. Scripts write it as text with `\x` before two digits.
pub(super) fn key_of_text(text: &str) -> Option<Vec<[u64; 2]>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(digits) = rest.strip_prefix("\\x").and_then(|r| r.get(..2)) {
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[4..];
        } else {
            bytes.push(u8::try_from(c).ok()?);
            rest = &rest[c.len_utf8()..];
        }
    }
    if let Some(keys) = keys(text) {
        return Some(keys);
    }
    let (whole, rest) = bytes.as_chunks::<16>();
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    (rest.is_empty() && (1..=2).contains(&whole.len()))
        .then(|| whole.iter().map(|k| [word(&k[..8]), word(&k[8..])]).collect())
}

/// Words with a predefined value: the cookies of the usual keys, and `IP_RECVERR` of the address family. The command line may
/// define them differently.
pub(crate) fn words(settings: &ScriptSettings) -> Vec<(String, String)> {
    let usual = keys("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("a key");
    let v6 = settings.ip_version == IpVersion::V6;
    let mut words = vec![
        ("TFO_COOKIE".to_owned(), hex(&cookies(&usual, settings)[0])),
        ("TFO_COOKIE_ZERO".to_owned(), hex(&cookies(&[[0, 0]], settings)[0])),
    ];
    let (level, kind) = if v6 { ("SOL_IPV6", "IPV6_RECVERR") } else { ("SOL_IP", "IP_RECVERR") };
    words.push(("CMSG_LEVEL_IP".to_owned(), level.to_owned()));
    words.push(("CMSG_TYPE_RECVERR".to_owned(), kind.to_owned()));
    words
}
