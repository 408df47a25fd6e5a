//! An analysis in steps. If the capture is large, a thread analyses it while the caller uses the rounds of the steps before. Results do not
//! depend on the number of threads.

use crate::analysis::{Analysis, AnalysisOptions};
use crate::flow::Round;
use crate::reader::{Interface, Reader};
use std::io::Read;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Packets that are read in a step.
const STEP: u64 = 100_000;
/// Steps whose rounds wait for the caller. They bound the memory.
const WAITING: usize = 4;

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
    interfaces: Vec<Interface>,
}

impl<R: Read + Send + 'static> Steps<R> {
    /// Begins an analysis; `threads` says whether it has a thread of its own.
    pub fn new(reader: Reader<R>, options: AnalysisOptions, threads: bool) -> Steps<R> {
        let analysis = Analysis::new(options);
        if !threads {
            return Steps(State::Here(Box::new((reader, analysis))));
        }
        let (rounds, analysed) = sync_channel(WAITING);
        let thread = thread::spawn(move || analyse(reader, analysis, &rounds));
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
                Finished { analysis, interfaces: reader.interfaces().to_vec() }
            }
            State::Ahead(_, thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            State::Over(_) | State::Broken => return,
        };
        self.0 = State::Over(Box::new(finished));
    }

    /// The analysis and the interfaces; `None` while another thread works on it.
    pub fn analysis(&self) -> Option<(&Analysis, &[Interface])> {
        match &self.0 {
            State::Here(here) => Some((&here.1, here.0.interfaces())),
            State::Over(finished) => Some((&finished.analysis, &finished.interfaces)),
            State::Ahead(..) | State::Broken => None,
        }
    }
}

/// Analyses a capture. Ends early if nobody receives the rounds any more.
fn analyse<R: Read>(
    mut reader: Reader<R>,
    mut analysis: Analysis,
    rounds: &SyncSender<Vec<Round>>,
) -> Finished {
    loop {
        let more = analysis.read(&mut reader, STEP);
        if rounds.send(analysis.take_rounds()).is_err() || !more {
            break;
        }
    }
    Finished { analysis, interfaces: reader.interfaces().to_vec() }
}
