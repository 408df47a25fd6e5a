//! The analysis of a capture without Python: `cargo run --release -p tcpassay-capture --example rounds FILE`.

use std::error::Error;
use std::fs::File;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("give a capture")?;
    let mut reader = Reader::new(File::open(file)?)?;
    let mut analysis = Analysis::new(AnalysisOptions::default());
    loop {
        let more = analysis.read(&mut reader, 100_000);
        analysis.take_rounds().iter().for_each(|round| println!("{}", round.line()));
        if !more {
            break;
        }
    }
    let summary = analysis.summary(reader.interfaces());
    for flow in &summary.flows {
        println!("Flow {}: {} > {}", flow.flow, flow.sender, flow.receiver);
        flow.words.iter().chain(&flow.unknown).for_each(|text| println!("  {text}"));
    }
    summary.notes.iter().for_each(|text| println!("note: {text}"));
    Ok(())
}
