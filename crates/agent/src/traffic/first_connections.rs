//! The connections that the applications open at the start of a run.
//!
//! Their sockets are opened before the start of the traffic: everything that a machine does after the agreed instant delays its first
//! packets.

use crate::system::Failure;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tcpassay_units::{Bytes, Time};
use tcpassay_workload::{Apps, ConnKey, SocketId, Sockets};

/// The sockets of these connections, each with its host, in the order in which applications ask for them.
#[derive(Default)]
pub struct OpenedSockets(VecDeque<(usize, ConnKey, OwnedFd)>);

impl OpenedSockets {
    /// Adds the socket of a connection that `host` opens.
    pub fn add(&mut self, host: usize, key: ConnKey, fd: OwnedFd) {
        self.0.push_back((host, key, fd));
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `act` for each socket.
    ///
    /// # Errors
    /// The first error of `act`.
    pub fn each(&self, act: impl Fn(BorrowedFd, ConnKey) -> Result<(), Failure>) -> Result<(), Failure> {
        self.0.iter().try_for_each(|(_, key, fd)| act(fd.as_fd(), *key))
    }

    /// Removes the socket of a connection; `None` if it was not opened.
    pub fn take(&mut self, host: usize, key: ConnKey) -> Option<OwnedFd> {
        // It is the first one, unless the applications of several hosts ask in another order.
        let place = self.0.iter().position(|(at, which, _)| (*at, *which) == (host, key))?;
        self.0.remove(place).map(|(_, _, fd)| fd)
    }
}

/// The connections that these applications open at the start, in this order. Their state does not change.
pub fn of(apps: &Apps) -> Vec<ConnKey> {
    let mut opened = Opened::default();
    let mut apps = apps.clone();
    apps.start(Time::ZERO);
    apps.wake(Time::ZERO, &mut opened);
    opened.0
}

/// Sockets that are never established: an application can only open them.
#[derive(Default)]
struct Opened(Vec<ConnKey>);

impl Sockets for Opened {
    fn connect(&mut self, _: SocketId, key: ConnKey) {
        self.0.push(key);
    }

    fn connect_again(&mut self, _: SocketId, _: ConnKey, _: ConnKey) {}

    fn halt(&mut self) {}

    fn boot(&mut self) {}

    fn write(&mut self, _: SocketId, _: Bytes) -> Bytes {
        Bytes::ZERO
    }

    fn readable(&self, _: SocketId) -> Bytes {
        Bytes::ZERO
    }

    fn read(&mut self, _: SocketId, _: Bytes) -> Bytes {
        Bytes::ZERO
    }

    fn peer_closed(&self, _: SocketId) -> bool {
        false
    }

    fn shutdown(&mut self, _: SocketId) {}

    fn close(&mut self, _: SocketId) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use std::sync::Arc;
    use tcpassay_case::params::Substrate;
    use tcpassay_units::Seed;
    use tcpassay_workload::HostIndex;

    fn first(rows: &[(&str, &str)]) -> Vec<Vec<u32>> {
        let case = case(Substrate::Host, rows);
        let schedule = Arc::new(case.plan(Seed(1)));
        let hosts = (0..2).map(|host| of(&schedule.apps(HostIndex(host))));
        hosts.map(|keys| keys.iter().map(|key| key.index).collect()).collect()
    }

    #[test]
    fn all_bulk_flows_of_the_sender_are_opened_at_the_start_and_none_of_the_receiver() {
        assert_eq!(first(&[("app.workload", "bulk"), ("app.flows", "3")]), [vec![0, 1, 2], vec![]]);
    }

    #[test]
    fn the_socket_of_a_connection_is_taken_once_and_by_its_host() {
        let key = |index| ConnKey { client: HostIndex(0), server: HostIndex(1), part: 0, index };
        let mut opened = OpenedSockets::default();
        for index in [4, 5] {
            opened.add(0, key(index), std::fs::File::open("/dev/null").unwrap().into());
        }
        assert!(opened.take(1, key(5)).is_none());
        assert!(opened.take(0, key(5)).is_some());
        assert!(opened.take(0, key(5)).is_none());
        let seen = std::cell::Cell::new(None);
        opened
            .each(|_, key| {
                seen.set(Some(key.index));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen.get(), Some(4));
    }

    #[test]
    fn applications_that_start_later_open_nothing_at_the_start() {
        let rows = [("app.workload", "bulk"), ("app.flows", "3"), ("app.start", "1s")];
        assert_eq!(first(&rows), [vec![], vec![]] as [Vec<u32>; 2]);
    }
}
