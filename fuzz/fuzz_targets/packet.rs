//! Any bytes as an IP packet: an error or a packet, and what can be written again is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_wire::codec::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = decode(bytes) else { return };
    let mut written = Vec::new();
    if encode(&packet.envelope, &packet.content, usize::MAX, &mut written).is_ok() {
        let again = decode(&written).expect("what was written can be read");
        assert_eq!(again.content, packet.content);
        assert_eq!(again.envelope, packet.envelope);
        assert_ne!(again.checksum_ok, Some(false), "a written checksum is right");
    }
});
