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

/// The bytes of `options` in Linux's layout; up to 64, of which a header can hold 40.
pub(crate) fn write_options(options: &Options) -> ArrayVec<u8, 64> {
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
