//! The bytes of a stream: byte `i` is a function of (flow, `i`).
//!
//! Both ends compute the same bytes without exchanging them, so that what arrives is compared with what was written. The
//! sequence repeats after [`PERIOD`] bytes, a prime: data that a stack delivers at a wrong position, displaced by whole
//! segments, buffers or powers of two, are different from the right ones.

use std::sync::LazyLock;

/// Number of bytes after which the bytes of a stream repeat; the largest prime below 2^16.
pub const PERIOD: usize = 65_521;

/// The sequence twice, so that each part up to [`PERIOD`] bytes is contiguous.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0_u64;
    let mut bytes: Vec<u8> = (0..PERIOD)
        .map(|_| {
            state = mix(state);
            state.to_be_bytes()[0]
        })
        .collect();
    bytes.extend_from_within(..);
    bytes
});

/// A step of a linear congruential generator with the constants of Knuth's MMIX.
fn mix(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// The `len` bytes of stream `flow` from position `at` on, at most [`PERIOD`].
pub fn bytes(flow: u32, at: u64, len: usize) -> &'static [u8] {
    let period = PERIOD as u64;
    let from = usize::try_from((at + mix(u64::from(flow)) % period) % period).expect("below the period");
    &BYTES[from..from + len.min(PERIOD)]
}

/// Whether `found` are the bytes of stream `flow` from position `at` on; otherwise the first position that differs.
///
/// # Errors
/// The position of the first byte that differs.
pub fn verify(flow: u32, mut at: u64, found: &[u8]) -> Result<(), u64> {
    for part in found.chunks(PERIOD) {
        let expected = bytes(flow, at, part.len());
        if part != expected {
            let same = part.iter().zip(expected).take_while(|(a, b)| a == b).count();
            return Err(at + same as u64);
        }
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_stream_is_the_same_wherever_it_begins() {
        let whole = bytes(3, 60_000, 10_000).to_vec();
        assert_eq!(bytes(3, 65_000, 5_000), &whole[5_000..]);
        assert_eq!(verify(3, 60_000, &whole), Ok(()));
        let long: Vec<u8> = (0..200_000).map(|at| bytes(3, at, 1)[0]).collect();
        assert_eq!(verify(3, 0, &long), Ok(()));
    }

    #[test]
    fn data_of_another_position_or_flow_are_different() {
        for displaced in [1_u64, 536, 1460, 1_448, 65_535, 65_536, 1 << 32] {
            let wrong = bytes(3, displaced, 100).to_vec();
            assert!(verify(3, 0, &wrong).is_err(), "{displaced}");
        }
        assert!(verify(4, 0, bytes(3, 0, 100)).is_err());
    }

    #[test]
    fn the_first_wrong_position_is_found() {
        let mut wrong = bytes(1, 1_000, 500).to_vec();
        wrong[123] ^= 0x40;
        assert_eq!(verify(1, 1_000, &wrong), Err(1_123));
    }
}
