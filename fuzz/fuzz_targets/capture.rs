//! Any bytes as a capture, alone and behind the beginning of a pcap or pcapng file: no panic, and the same result twice.
//! With the feature `follow` its ends are followed, too.
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

/// Two profiles follow both ends of each connection, wherever the capture was taken.
#[cfg(feature = "follow")]
fn follow(file: &[u8]) {
    use tcpassay_follow::capture::{Options, follow, profile, read};
    let Ok(mut reader) = Reader::new(file) else { return };
    let analysis = AnalysisOptions::default();
    let options = Options { analysis, most_packets: 10_000, host: None, acts_within: None };
    let made = read(&mut reader, &options);
    for name in ["linux-6.1", "freebsd"] {
        let config = profile(name).expect("it exists");
        for end in &made.ends {
            let outcome = follow(end, &config);
            assert!(outcome.followed <= outcome.packets, "more packets than there are");
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    assert_eq!(analyse(bytes), analyse(bytes), "an analysis is a function of the file");
    for beginning in [PCAP, PCAPNG] {
        let file = [beginning, bytes].concat();
        analyse(&file);
        #[cfg(feature = "follow")]
        follow(&file);
    }
    #[cfg(feature = "follow")]
    follow(bytes);
});
