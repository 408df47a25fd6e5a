//! Encoding and decoding of TCP options.

use crate::{AccEcn, Options, SackBlock, Timestamps};
use arrayvec::ArrayVec;
use tcpassay_units::SeqNum;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const ACCECN0: u8 = 172;
const ACCECN1: u8 = 174;

/// The order and the padding of options in SYNs. Other segments have the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// Linux (`tcp_options_write`): MSS, SACK permitted, timestamps, NOP, window scale. What is absent becomes NOPs, or is left out with its NOPs.
    #[default]
    Linux,
    /// FreeBSD (`tcp_addoptions`): MSS, window scale, SACK permitted, timestamps, each behind the NOPs that align it, then END and zeros.
    FreeBsd,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Layout; 2] = [Layout::Linux, Layout::FreeBsd];

    /// Which of [`Layout::ALL`] the options of a SYN may have, which are `bytes`. All of them with an option that a layout does not know.
    pub(crate) fn possible(bytes: &[u8], options: &Options) -> [bool; 2] {
        if has_others(bytes) {
            return [true; 2];
        }
        Layout::ALL.map(|layout| write_options(options, layout).as_slice() == bytes)
    }
}

/// Whether a list has options that [`Layout`] does not place.
fn has_others(mut bytes: &[u8]) -> bool {
    while let [kind, rest @ ..] = bytes {
        bytes = match (*kind, rest) {
            (END, _) => return false,
            (NOP, _) => rest,
            (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, [len, ..])
                if (2..=bytes.len()).contains(&usize::from(*len)) =>
            {
                &bytes[usize::from(*len)..]
            }
            _ => return true,
        };
    }
    false
}

/// The bytes of the options of a SYN of FreeBSD.
fn write_bsd(options: &Options) -> ArrayVec<u8, 64> {
    let mut out = ArrayVec::<u8, 64>::new();
    // An option begins where its position modulo `step` is `place`.
    let mut put = |step: usize, place: usize, bytes: &[u8]| {
        while out.len() % step != place {
            out.push(NOP);
        }
        out.try_extend_from_slice(bytes).expect("four options are 40 bytes at most");
    };
    if let Some(mss) = options.mss {
        let [high, low] = mss.to_be_bytes();
        put(4, 0, &[MSS, 4, high, low]);
    }
    if let Some(shift) = options.window_scale {
        put(2, 1, &[WINDOW_SCALE, 3, shift]);
    }
    if options.sack_permitted {
        put(2, 0, &[SACK_PERMITTED, 2]);
    }
    if let Some(stamps) = options.timestamps {
        put(4, 2, &[TIMESTAMPS, 10]);
        put(1, 0, &stamps.val.to_be_bytes());
        put(1, 0, &stamps.ecr.to_be_bytes());
    }
    while out.len() % 4 != 0 {
        out.push(END);
    }
    out
}

/// The bytes of `options` in a layout; up to 64, of which a header can hold 40.
pub(crate) fn write_options(options: &Options, layout: Layout) -> ArrayVec<u8, 64> {
    if layout == Layout::FreeBsd && options.sack.is_empty() && options.accecn().is_none() {
        return write_bsd(options);
    }
    let mut out = ArrayVec::new();
    let mut put = |bytes: &[u8]| out.try_extend_from_slice(bytes).expect("all options together are 64 bytes");
    if let Some(mss) = options.mss {
        put(&[MSS, 4]);
        put(&mss.to_be_bytes());
    }
    if let Some(ts) = options.timestamps {
        put(if options.sack_permitted { &[SACK_PERMITTED, 2] } else { &[NOP, NOP] });
        put(&[TIMESTAMPS, 10]);
        put(&ts.val.to_be_bytes());
        put(&ts.ecr.to_be_bytes());
    }
    // The bytes of an accurate ECN option beyond a multiple of four replace the next NOPs, if these suffice.
    let mut spare = 0;
    if let Some(option) = options.accecn() {
        let len = option.wire_len();
        put(&[if option.e1b_first { ACCECN1 } else { ACCECN0 }, u8::try_from(len).expect("11 at most")]);
        for field in option.order() {
            put(&option.counts[field].to_be_bytes()[1..]);
        }
        if len % 4 <= options.spare_nops() {
            spare = len % 4;
        } else {
            (len..len.next_multiple_of(4)).for_each(|_| put(&[NOP]));
        }
    }
    let mut nops = |out: &mut ArrayVec<u8, 64>, wanted: u32| {
        let replaced = if spare <= wanted { std::mem::take(&mut spare) } else { 0 };
        (replaced..wanted).for_each(|_| out.push(NOP));
    };
    if options.timestamps.is_none() && options.sack_permitted {
        nops(&mut out, 2);
        out.extend([SACK_PERMITTED, 2]);
    }
    if let Some(shift) = options.window_scale {
        nops(&mut out, 1);
        out.extend([WINDOW_SCALE, 3, shift]);
    }
    if !options.sack.is_empty() {
        let len = u8::try_from(2 + 8 * options.sack.len()).expect("at most 4 blocks");
        nops(&mut out, 2);
        out.extend([SACK, len]);
        for block in &options.sack {
            out.extend(block.start.get().to_be_bytes());
            out.extend(block.end.get().to_be_bytes());
        }
    }
    out
}

/// Decodes options; [`codec`](crate::codec) describes which errors are ignored. The last one of repeated options
/// counts. The second value is false if an option runs past the bytes, or has a length that its kind does not have: what the list says is
/// unknown.
#[inline]
pub(crate) fn read_options(bytes: &[u8]) -> (Options, bool) {
    // Timestamps alone, as in nearly all segments (RFC 7323 appendix A).
    if let [NOP, NOP, TIMESTAMPS, 10, words @ ..] = bytes
        && let ([val, ecr], []) = words.as_chunks::<4>()
    {
        let timestamps = Timestamps { val: u32::from_be_bytes(*val), ecr: u32::from_be_bytes(*ecr) };
        return (Options { timestamps: Some(timestamps), ..Options::default() }, true);
    }
    read_list(bytes)
}

fn read_list(mut bytes: &[u8]) -> (Options, bool) {
    let (mut options, mut whole) = (Options::default(), true);
    while let [kind, rest @ ..] = bytes {
        match (*kind, rest) {
            (END, _) => break,
            (NOP, _) => bytes = rest,
            (kind, [len, ..]) if *len >= 2 && usize::from(*len) <= bytes.len() => {
                let (option, next) = bytes.split_at(usize::from(*len));
                whole &= read_option(kind, &option[2..], &mut options);
                bytes = next;
            }
            _ => return (options, false),
        }
    }
    (options, whole)
}

/// False for a length that the kind does not have.
fn read_option(kind: u8, body: &[u8], options: &mut Options) -> bool {
    match (kind, body) {
        (MSS, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
        (WINDOW_SCALE, &[shift]) => options.window_scale = Some(shift),
        (SACK_PERMITTED, []) => options.sack_permitted = true,
        (TIMESTAMPS, [val @ .., _, _, _, _]) if val.len() == 4 => {
            let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
            options.timestamps = Some(Timestamps { val: word(val), ecr: word(&body[4..]) });
        }
        (SACK, blocks) if blocks.len().is_multiple_of(8) && (8..=32).contains(&blocks.len()) => {
            let (words, _) = blocks.as_chunks::<4>();
            let word = |i: usize| SeqNum::new(u32::from_be_bytes(words[i]));
            let beside = options.accecn();
            options.sack = (0..words.len() / 2)
                .map(|i| SackBlock { start: word(2 * i), end: word(2 * i + 1) })
                .take(if beside.is_some() { 3 } else { 4 })
                .collect();
            if let Some(option) = beside {
                options.set_accecn(&option);
            }
        }
        // RFC 9768 section 3.2.3: complete fields count; remaining bytes are padding.
        (ACCECN0 | ACCECN1, body) => {
            let mut option = AccEcn { e1b_first: kind == ACCECN1, fields: 0, counts: [0; 3] };
            option.fields = u8::try_from(body.len() / 3).unwrap_or(3).min(3);
            let (threes, _) = body.as_chunks::<3>();
            for (field, &[a, b, c]) in option.order().collect::<Vec<_>>().into_iter().zip(threes) {
                option.counts[field] = u32::from_be_bytes([0, a, b, c]);
            }
            if options.sack.len() <= 3 {
                options.set_accecn(&option);
            }
        }
        (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => return false,
        _ => {}
    }
    true
}

#[cfg(test)]
mod layouts {
    use super::*;

    const STAMPS: Timestamps = Timestamps { val: 0x0102_0304, ecr: 0 };

    /// The options of a SYN: MSS 1460, and window scale 6, SACK permitted, timestamps if they are wanted.
    fn syn(scale: bool, sack: bool, stamps: bool) -> Options {
        Options {
            mss: Some(1460),
            window_scale: scale.then_some(6),
            sack_permitted: sack,
            timestamps: stamps.then_some(STAMPS),
            ..Options::default()
        }
    }

    #[test]
    fn each_option_of_a_freebsd_syn_has_the_nops_before_it_that_align_it() {
        let written = |options: Options| write_options(&options, Layout::FreeBsd).to_vec();
        let mss = [2, 4, 5, 0xb4];
        let stamps = [8, 10, 1, 2, 3, 4, 0, 0, 0, 0];
        let all = [&mss[..], &[1, 3, 3, 6, 4, 2], &stamps].concat();
        assert_eq!(written(syn(true, true, true)), all);
        assert_eq!(written(syn(true, true, false)), [&mss[..], &[1, 3, 3, 6, 4, 2, 0, 0]].concat());
        assert_eq!(written(syn(true, false, true)), [&mss[..], &[1, 3, 3, 6, 1, 1], &stamps].concat());
        assert_eq!(written(syn(false, true, true)), [&mss[..], &[4, 2], &stamps].concat());
        assert_eq!(written(syn(false, false, true)), [&mss[..], &[1, 1], &stamps].concat());
        assert_eq!(written(syn(false, true, false)), [&mss[..], &[4, 2, 0, 0]].concat());
    }

    #[test]
    fn both_layouts_have_the_same_length_and_options() {
        for bits in 0..8 {
            let options = syn(bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
            let [linux, bsd] = Layout::ALL.map(|layout| write_options(&options, layout));
            assert_eq!(linux.len(), bsd.len(), "{options:?}");
            assert_eq!(read_options(&bsd), (options, true));
        }
    }

    #[test]
    fn the_order_of_the_options_tells_the_layout() {
        let options = syn(true, true, true);
        for (place, layout) in Layout::ALL.into_iter().enumerate() {
            let mut expected = [false; 2];
            expected[place] = true;
            assert_eq!(Layout::possible(&write_options(&options, layout), &options), expected);
        }
        // An MSS alone, an order of neither (Windows), and an option that none of them places (Fast Open, RFC 7413).
        let alone = Options { mss: Some(1460), ..Options::default() };
        assert_eq!(Layout::possible(&[2, 4, 5, 0xb4], &alone), [true, true]);
        let windows = [2, 4, 5, 0xb4, 1, 3, 3, 6, 1, 1, 4, 2];
        assert_eq!(Layout::possible(&windows, &syn(true, true, false)), [false, false]);
        assert_eq!(Layout::possible(&[2, 4, 5, 0xb4, 34, 2, 1, 1], &alone), [true, true]);
    }
}
