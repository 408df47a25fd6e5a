//! The TCP options of a segment as a list, in the order in which each stack writes them.

use crate::ast::{TcpOption, TcpPacket};
use tcpassay_tcp::FastOpen;
use tcpassay_wire::{AccEcn, Options, SackBlocks};

/// The stack whose order and padding of options is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OptionLayout {
    Linux,
    FreeBsd,
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, b| text + &format!("{b:02x}"))
}

/// The bytes of hexadecimal digits; `None` if the text has other characters or an odd length.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// The Fast Open option of a packet of the script.
pub(super) fn fast_open_of(tcp: &TcpPacket) -> Result<Option<FastOpen>, String> {
    let found = tcp.options.iter().flatten().find_map(|opt| match opt {
        TcpOption::FastOpen { experimental, cookie } => Some((*experimental, cookie)),
        _ => None,
    });
    let Some((experimental, cookie)) = found else { return Ok(None) };
    let cookie = bytes_of(cookie).ok_or("a cookie to inject must be hexadecimal digits")?;
    Ok(Some(FastOpen { experimental, cookie }))
}

/// The fields of the accurate ECN option, in the order of [`AccEcn::counts`].
const COUNTERS: [&str; 3] = ["e0b", "ceb", "e1b"];

/// Parses the counters of an accurate ECN option, as in `e1b 1 ceb 0 e0b 1`.
pub(super) fn counters_of(text: &str) -> Result<AccEcn, String> {
    let wrong =
        || format!("the counters `{text}`: expected e0b, ceb and e1b from either end, of 24 bits each");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut option =
        AccEcn { e1b_first: words.first().is_none_or(|name| *name == "e1b"), fields: 0, counts: [0; 3] };
    for pair in words.chunks(2) {
        let &[name, value] = pair else { return Err(wrong()) };
        let position = COUNTERS.iter().position(|known| *known == name).ok_or_else(wrong)?;
        let next = if option.e1b_first {
            2_usize.checked_sub(option.fields.into())
        } else {
            Some(option.fields.into())
        };
        let value = value.parse().ok().filter(|&n: &u32| n < 1 << 24).ok_or_else(wrong)?;
        if next != Some(position) {
            return Err(wrong());
        }
        option.counts[position] = value;
        option.fields += 1;
    }
    Ok(option)
}

fn counters_text(option: &AccEcn) -> String {
    let parts: Vec<String> = option
        .order()
        .map(|position| format!("{} {}", COUNTERS[position], option.counts[position]))
        .collect();
    parts.join(" ")
}

/// The SACK blocks without the accurate ECN option.
fn bare(live: &Options) -> SackBlocks {
    live.sack.iter().copied().collect()
}

/// The options in the order of a stack, with padding.
pub(super) fn ordered_options(
    live: &Options,
    fast_open: Option<&FastOpen>,
    layout: OptionLayout,
) -> Vec<TcpOption> {
    let mut list = Vec::new();
    let scale = live.window_scale.map(TcpOption::WindowScale);
    let stamps = live.timestamps.map(|t| TcpOption::Timestamps(Some(t.val), Some(t.ecr)));
    let sack = (!live.sack.is_empty())
        .then(|| TcpOption::Sack(live.sack.iter().map(|b| (b.start.get(), b.end.get())).collect()));
    let fast_open =
        fast_open.map(|o| TcpOption::FastOpen { experimental: o.experimental, cookie: hex(&o.cookie) });
    list.extend(live.mss.map(TcpOption::Mss));
    match layout {
        // `tcp_options_write` of Linux.
        OptionLayout::Linux => {
            if let Some(t) = stamps {
                list.extend(if live.sack_permitted {
                    vec![TcpOption::SackPermitted, t]
                } else {
                    vec![TcpOption::Nop, TcpOption::Nop, t]
                });
            }
            // The end of the AccECN option replaces the next NOPs if there are enough of them. Otherwise NOPs follow it.
            let mut spare = 0;
            if let Some(counters) = live.accecn() {
                list.push(TcpOption::AccurateEcn(counters_text(&counters)));
                spare = counters.wire_len() % 4;
                let padding = live.wire_len() - Options { sack: bare(live), ..*live }.wire_len();
                if padding > counters.wire_len() {
                    list.extend((spare..4).map(|_| TcpOption::Nop));
                    spare = 0;
                }
            }
            let mut nops = |wanted: u32| {
                let replaced = if spare <= wanted { std::mem::take(&mut spare) } else { 0 };
                (replaced..wanted).map(|_| TcpOption::Nop)
            };
            if live.sack_permitted && live.timestamps.is_none() {
                list.extend(nops(2).chain([TcpOption::SackPermitted]));
            }
            if let Some(scale) = scale {
                list.extend(nops(1).chain([scale]));
            }
            if let Some(sack) = sack {
                list.extend(nops(2).chain([sack]));
            }
            if let Some(fast_open) = fast_open {
                list.push(fast_open);
                while !wire_len(&list).is_multiple_of(4) {
                    list.push(TcpOption::Nop);
                }
            }
        }
        // `tcp_addoptions` of FreeBSD: NOPs align an option, EOL pads the list.
        OptionLayout::FreeBsd => {
            if let Some(scale) = scale {
                list.extend([TcpOption::Nop, scale]);
            }
            if live.sack_permitted {
                list.push(TcpOption::SackPermitted);
            }
            if let Some(t) = stamps {
                while wire_len(&list) % 4 != 2 {
                    list.push(TcpOption::Nop);
                }
                list.push(t);
            }
            if let Some(sack) = sack {
                while wire_len(&list) % 4 != 2 {
                    list.push(TcpOption::Nop);
                }
                list.push(sack);
            }
            list.extend(live.accecn().map(|counters| TcpOption::AccurateEcn(counters_text(&counters))));
            list.extend(fast_open);
            while !wire_len(&list).is_multiple_of(4) {
                list.push(TcpOption::Eol);
            }
        }
    }
    list
}

/// The size of a list of options in bytes.
pub(super) fn wire_len(list: &[TcpOption]) -> usize {
    let len = |opt: &TcpOption| match opt {
        TcpOption::Mss(_) => 4,
        TcpOption::WindowScale(_) => 3,
        TcpOption::SackPermitted => 2,
        TcpOption::Timestamps(..) => 10,
        TcpOption::Sack(blocks) => 2 + 8 * blocks.len(),
        TcpOption::Nop | TcpOption::Eol => 1,
        TcpOption::Md5(_) => 18,
        TcpOption::FastOpen { experimental, cookie } => {
            2 + if *experimental { 2 } else { 0 } + cookie.len() / 2
        }
        TcpOption::AccurateEcn(text) => 2 + 3 * (text.split_whitespace().count() / 2),
    };
    list.iter().map(len).sum()
}
