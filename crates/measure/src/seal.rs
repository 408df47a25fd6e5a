//! Checksums of files, and JSON texts that contain their own checksum.
//!
//! They detect accidental damage: a bad disk, an interrupted copy, an editor. XXH3 (64 bits) misses one such damage
//! in 2^64 and is faster than reading the memory. It gives no protection against deliberate changes, because a new
//! checksum is easy to compute.

use twox_hash::XxHash3_64;

/// XXH3-64 of `bytes` with seed 0, as sixteen hexadecimal digits.
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(bytes))
}

/// A JSON object with a last key `xxh3`: the checksum of all bytes before the line of that key.
///
/// `body` is the text of the object up to the end of the line of its last value, without a comma.
pub fn seal(body: &str) -> String {
    let body = format!("{body},\n");
    let sum = checksum(body.as_bytes());
    format!("{body} \"xxh3\": \"{sum}\"\n}}\n")
}

/// Whether a text with a checksum of [`seal`] is unchanged.
pub fn is_whole(text: &str) -> bool {
    let Some(at) = text.trim_end_matches('\n').rfind('\n').and_then(|end| text[..end].rfind('\n')) else {
        return false;
    };
    let (body, line) = text.split_at(at + 1);
    line == format!(" \"xxh3\": \"{}\"\n}}\n", checksum(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_xxh3_as_other_programs_compute_it() {
        // The test values of the xxHash project: XXH3_64bits of nothing and of "a".
        assert_eq!(checksum(b""), "2d06800538d394c2");
        assert_eq!(checksum(b"a"), "e6c632b61e964e1f");
    }

    #[test]
    fn a_sealed_text_is_verified_and_any_changed_byte_is_detected() {
        let text = seal("{\n \"format\": 2,\n \"name\": \"x\"");
        assert!(is_whole(&text));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(!is_whole(&String::from_utf8(changed).expect("ASCII")), "byte {at}");
            assert!(!is_whole(&text[..at]), "cut at {at}");
        }
    }
}
