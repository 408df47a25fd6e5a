//! Any bytes as a log of siftr: no panic, and the same result twice; any text as fields of a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_capture::siftr::read_siftr;

/// A line that the fuzzer may damage.
const LINE: &str = "i,0x00000000,1547810107.990995,192.168.0.1,8080,192.0.2.1,12988,1073725440,40001,0,33553920,66000,9,6,4,1000,0,1,608,23,57576,36000,66000,0,36000,0,0,0\n";

fuzz_target!(|input: (Vec<(u16, u8)>, &[u8])| {
    let (damage, more) = input;
    let mut log = LINE.repeat(3).into_bytes();
    for (place, byte) in damage {
        let place = usize::from(place) % log.len();
        log[place] = byte;
    }
    log.extend(more);
    for log in [&log[..], more] {
        let read = |log| read_siftr(log).ok();
        assert_eq!(read(log), read(log), "a summary is a function of the log");
    }
});
