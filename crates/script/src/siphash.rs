//! SipHash-2-4 (Aumasson and Bernstein 2012), as Linux computes Fast Open cookies.

use siphasher::sip::SipHasher24;

/// The hash of `data` under `key`, whose halves are little-endian numbers as in `siphash_key_t` of Linux.
pub(crate) fn siphash(key: [u64; 2], data: &[u8]) -> u64 {
    SipHasher24::new_with_keys(key[0], key[1]).hash(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_vectors_of_the_paper_hold() {
        // Appendix A: key 00 01 .. 0f, data 00 01 .. 0e. The second vector, for empty data, is from the reference implementation.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let data: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &data), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
    }
}
