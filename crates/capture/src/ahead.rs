//! An analysis in steps, by several threads if the capture is large: one reads and decodes packets ahead, one analyses them in the order of the
//! file. Results do not depend on the number of threads.

use crate::analysis::{Analysis, AnalysisOptions};
use crate::counts::PacketCounts;
use crate::flow::Round;
use crate::intake::{Arrival, ClockStep, Intake};
use crate::reader::{Interface, ReadError, Reader};
use std::io::Read;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Packets that are read in a step.
const STEP: u64 = 100_000;
/// Packets that pass from thread to thread at once; a step is a multiple of it.
const BATCH: u64 = 500;
/// Batches, and rounds of so many steps, that wait for a thread. They bound the memory.
const WAITING: usize = 4;

/// Packets of a capture, in order.
struct Batch {
    arrivals: Vec<Arrival>,
    /// The clock of the capture up to here.
    clock: ClockStep,
    interfaces: Arc<[Interface]>,
    /// Behind the last packet.
    end: Option<End>,
}

/// The end of a capture.
struct End {
    /// What the reader has counted.
    counts: PacketCounts,
    skipped_blocks: u64,
    too_many_interfaces: u64,
    error: Option<ReadError>,
}

/// The analysis of a capture, step by step.
pub struct Steps<R: Read>(State<R>);

enum State<R: Read> {
    /// One thread does everything.
    Here(Box<(Reader<R>, Analysis)>),
    /// The rounds of each step, and the thread that analyses.
    Ahead(Mutex<Receiver<Vec<Round>>>, JoinHandle<Finished>),
    Over(Box<Finished>),
    /// A thread ended by a panic.
    Broken,
}

/// The analysis of the whole capture.
struct Finished {
    analysis: Analysis,
    interfaces: Arc<[Interface]>,
}

impl<R: Read + Send + 'static> Steps<R> {
    /// Begins an analysis; `threads` says whether there are several.
    pub fn new(reader: Reader<R>, options: AnalysisOptions, threads: bool) -> Steps<R> {
        let intake = Intake::new(options.interface.clone(), options.merge_interfaces);
        let analysis = Analysis::new(options);
        if !threads {
            return Steps(State::Here(Box::new((reader, analysis))));
        }
        let (batches, decoded) = sync_channel(WAITING);
        let (used, spare) = sync_channel(2 * WAITING);
        let (rounds, analysed) = sync_channel(WAITING);
        thread::spawn(move || decode(reader, intake, &batches, &spare));
        let thread = thread::spawn(move || analyse(analysis, &decoded, &used, &rounds));
        Steps(State::Ahead(Mutex::new(analysed), thread))
    }

    /// The rounds that ended in the next step; `None` at the end of the capture.
    pub fn rounds(&mut self) -> Option<Vec<Round>> {
        match &mut self.0 {
            State::Here(here) => {
                let (reader, analysis) = &mut **here;
                let more = analysis.read(reader, STEP);
                let rounds = analysis.take_rounds();
                if !more {
                    self.finish();
                }
                Some(rounds)
            }
            State::Ahead(analysed, _) => {
                let rounds = analysed.get_mut().unwrap_or_else(PoisonError::into_inner).recv().ok();
                if rounds.is_none() {
                    self.finish();
                }
                rounds
            }
            State::Over(_) | State::Broken => None,
        }
    }

    fn finish(&mut self) {
        let finished = match std::mem::replace(&mut self.0, State::Broken) {
            State::Here(here) => {
                let (reader, analysis) = *here;
                Finished { analysis, interfaces: reader.interfaces().into() }
            }
            State::Ahead(_, thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            State::Over(_) | State::Broken => return,
        };
        self.0 = State::Over(Box::new(finished));
    }

    /// The analysis and the interfaces; `None` while other threads work on it.
    pub fn analysis(&self) -> Option<(&Analysis, &[Interface])> {
        match &self.0 {
            State::Here(here) => Some((&here.1, here.0.interfaces())),
            State::Over(finished) => Some((&finished.analysis, &finished.interfaces)),
            State::Ahead(..) | State::Broken => None,
        }
    }
}

/// Reads and decodes a capture. Ends early if nobody receives the packets any more.
fn decode<R: Read>(
    mut reader: Reader<R>,
    mut intake: Intake,
    batches: &SyncSender<Batch>,
    spare: &Receiver<Vec<Arrival>>,
) {
    let mut counts = PacketCounts::default();
    let mut interfaces: Arc<[Interface]> = reader.interfaces().into();
    loop {
        let mut arrivals = spare.try_recv().unwrap_or_default();
        arrivals.clear();
        let mut end = None;
        for _ in 0..BATCH {
            match reader.next_content(&mut counts) {
                Ok(Some(content)) => {
                    arrivals.extend(intake.content(content, reader.interfaces(), &mut counts));
                }
                Ok(None) => {
                    end = Some(None);
                    break;
                }
                Err(error) => {
                    end = Some(Some(error));
                    break;
                }
            }
        }
        if interfaces.len() < reader.interfaces().len() {
            interfaces = reader.interfaces().into();
        }
        let is_over = end.is_some();
        let end = end.map(|error| End {
            counts: std::mem::take(&mut counts),
            skipped_blocks: reader.skipped_blocks(),
            too_many_interfaces: reader.too_many_interfaces(),
            error,
        });
        let batch = Batch { arrivals, clock: intake.clock, interfaces: Arc::clone(&interfaces), end };
        if batches.send(batch).is_err() || is_over {
            return;
        }
    }
}

/// Analyses the packets that are decoded. Ends early if nobody receives the rounds any more.
fn analyse(
    mut analysis: Analysis,
    decoded: &Receiver<Batch>,
    used: &SyncSender<Vec<Arrival>>,
    rounds: &SyncSender<Vec<Round>>,
) -> Finished {
    let mut interfaces: Arc<[Interface]> = Arc::new([]);
    let mut read = 0;
    while let Ok(batch) = decoded.recv() {
        for arrival in &batch.arrivals {
            analysis.take(arrival, &batch.interfaces);
        }
        // A full channel has spare memory enough.
        let _ = used.try_send(batch.arrivals);
        analysis.intake.clock = batch.clock;
        interfaces = batch.interfaces;
        read += BATCH;
        let is_over = batch.end.is_some();
        if let Some(end) = batch.end {
            analysis.error = end.error;
            analysis.counts.read(end.counts);
            analysis.end(end.skipped_blocks, end.too_many_interfaces);
        }
        if (is_over || read.is_multiple_of(STEP)) && rounds.send(analysis.take_rounds()).is_err() {
            break;
        }
    }
    Finished { analysis, interfaces }
}
