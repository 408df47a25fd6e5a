//! Any bytes as a capture, alone and behind the beginning of a pcap or pcapng file: no panic, and the same result twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader, Round, Summary};

/// The magic number of classic pcap files.
const PCAP: &[u8] = &[0x4d, 0x3c, 0xb2, 0xa1];
/// A section header of pcapng, and an interface of Ethernet.
const PCAPNG: &[u8] = &[
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255,
    255, 255, 28, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
];

fn analyse(file: &[u8]) -> Option<(Summary, Vec<Round>)> {
    let mut reader = Reader::new(file).ok()?;
    let mut analysis = Analysis::new(AnalysisOptions::default());
    while analysis.read(&mut reader, 1000) {}
    let rounds = analysis.take_rounds();
    Some((analysis.summary(reader.interfaces()), rounds))
}

fuzz_target!(|bytes: &[u8]| {
    assert_eq!(analyse(bytes), analyse(bytes), "an analysis is a function of the file");
    for beginning in [PCAP, PCAPNG] {
        analyse(&[beginning, bytes].concat());
    }
});
