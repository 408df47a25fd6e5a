//! Any bytes as a classic capture: no panic, and the same result twice. A file without a magic number gets one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader, Round, Summary};

fn analyse(file: &[u8]) -> Option<(Summary, Vec<Round>)> {
    let mut reader = Reader::new(file).ok()?;
    let mut analysis = Analysis::new(AnalysisOptions::default());
    while analysis.read(&mut reader, 1000) {}
    let rounds = analysis.take_rounds();
    Some((analysis.summary(reader.interfaces()), rounds))
}

fuzz_target!(|bytes: &[u8]| {
    assert_eq!(analyse(bytes), analyse(bytes), "an analysis is a function of the file");
    let headed = [&[0x4d, 0x3c, 0xb2, 0xa1][..], bytes].concat();
    analyse(&headed);
});
