//! The analysis of a capture without Python: `cargo run --release -p tcpassay-capture --example rounds FILE [one]`; `one`: one thread.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use tcpassay_capture::{AnalysisOptions, Reader, Steps};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("give a capture")?;
    let threads = std::env::args().nth(2).is_none();
    let mut steps = Steps::new(Reader::new(File::open(file)?)?, AnalysisOptions::default(), threads);
    let mut out = BufWriter::new(std::io::stdout().lock());
    while let Some(rounds) = steps.rounds() {
        for round in rounds {
            writeln!(out, "{}", round.line())?;
        }
    }
    let (analysis, interfaces) = steps.analysis().ok_or("the analysis has ended")?;
    let summary = analysis.summary(interfaces);
    for flow in &summary.flows {
        writeln!(out, "Flow {}: {} > {}", flow.flow, flow.sender, flow.receiver)?;
        for text in flow.words.iter().chain(&flow.unknown) {
            writeln!(out, "  {text}")?;
        }
    }
    for text in &summary.notes {
        writeln!(out, "note: {text}")?;
    }
    Ok(())
}
