//! The thread that makes the system calls of a script, so that a blocking call does not stop the script.

use super::arguments::{Job, Returned};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use tcpassay_linux::syscall;

/// A handle of the thread.
pub struct Worker {
    jobs: Sender<Job>,
    results: Receiver<Returned>,
    bell: UnixStream,
    running: Arc<AtomicBool>,
    thread: i32,
}

impl Worker {
    /// Starts the thread. It ends with the process.
    pub fn start() -> io::Result<Worker> {
        let (jobs, todo) = channel::<Job>();
        let (done, results) = channel();
        let (bell, mut rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let running = Arc::new(AtomicBool::new(false));
        let number = Arc::new(AtomicI32::new(0));
        let (flag, place) = (running.clone(), number.clone());
        std::thread::spawn(move || {
            place.store(syscall::thread_id(), Ordering::SeqCst);
            for job in todo {
                flag.store(true, Ordering::SeqCst);
                let returned = job();
                flag.store(false, Ordering::SeqCst);
                // The byte is written first, so that the receiver of the result can clear it.
                if rings.write_all(&[0]).is_err() || done.send(returned).is_err() {
                    return;
                }
            }
        });
        while number.load(Ordering::SeqCst) == 0 {
            syscall::yield_processor();
        }
        Ok(Worker { jobs, results, bell, running, thread: number.load(Ordering::SeqCst) })
    }

    /// Makes a call. Returns when the call has returned or sleeps in the kernel (`None`).
    pub fn make(&mut self, job: Job) -> io::Result<Option<Returned>> {
        self.jobs.send(job).map_err(|_| io::Error::other("the thread that makes calls is gone"))?;
        let stat = format!("/proc/self/task/{}/stat", self.thread);
        loop {
            if let Some(returned) = self.returned() {
                return Ok(Some(returned));
            }
            if self.running.load(Ordering::SeqCst) {
                let text = std::fs::read_to_string(&stat)?;
                let sleeps = text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'));
                if sleeps && self.running.load(Ordering::SeqCst) {
                    return Ok(self.returned());
                }
            }
            syscall::yield_processor();
        }
    }

    /// The result of the last call if it has returned. The result is delivered once.
    pub fn returned(&mut self) -> Option<Returned> {
        let returned = self.results.try_recv().ok()?;
        while self.bell.read(&mut [0]).is_ok() {}
        Some(returned)
    }

    /// Readable when a call has returned.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use tcpassay_script::run::SyscallResult;

    fn read(mut from: UnixStream) -> Job {
        Box::new(move || {
            let n = from.read(&mut [0; 10]).expect("the peer is open");
            let answer = Ok(SyscallResult::Done(i64::try_from(n).expect("10 at most")));
            Returned { answer, made: None }
        })
    }

    #[test]
    fn a_call_that_returns_at_once_gives_its_result() {
        let (mut peer, ours) = UnixStream::pair().unwrap();
        peer.write_all(&[0; 3]).unwrap();
        let returned = Worker::start().unwrap().make(read(ours)).unwrap().expect("it returns");
        assert_eq!(returned.answer, Ok(SyscallResult::Done(3)));
    }

    #[test]
    fn a_call_that_sleeps_in_the_kernel_gives_its_result_later() {
        let (mut peer, ours) = UnixStream::pair().unwrap();
        let mut worker = Worker::start().unwrap();
        assert!(worker.make(read(ours)).unwrap().is_none());
        peer.write_all(&[0; 2]).unwrap();
        let returned = loop {
            if let Some(returned) = worker.returned() {
                break returned;
            }
            std::thread::yield_now();
        };
        assert_eq!(returned.answer, Ok(SyscallResult::Done(2)));
        assert!(worker.returned().is_none());
    }
}
