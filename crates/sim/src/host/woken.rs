//! Applications that were woken and have not run.
//!
//! The segments of an interrupt are processed before an application runs (`net_rx_action`): `sk_data_ready` only wakes it. Here these are
//! the packets that an element passes on at the same instant. After a single packet the application runs at once, without this list.

use crate::engine::TimerId;

/// The connections whose applications run at the end of this instant, in the order in which they were woken.
#[derive(Default, Debug)]
pub(super) struct Woken {
    conns: Vec<u32>,
    /// The timer of the end of the instant.
    pub timer: Option<TimerId>,
}

impl Woken {
    /// Adds a connection. Returns whether it is the first of this instant.
    pub fn add(&mut self, c: u32) -> bool {
        self.conns.push(c);
        self.conns.len() == 1
    }

    /// Takes all connections.
    pub fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.conns)
    }

    pub fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }
}
