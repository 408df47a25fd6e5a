//! Parameters of the stack. A row whose default is `profile` leaves the setting of `stack.profile` as it is.

mod acks;
mod buffers;
mod controller;
mod ecn;
mod handshake;
mod kinds;
mod lifetime;
mod output;
mod recovery;
mod rto;
mod segments;
mod window;

pub(crate) use controller::PROFILE_NAMES;

use kinds::P;

/// The parameters of the stack, in the order of the documentation.
pub(super) const ROWS: [&[P]; 11] = [
    controller::ROWS,
    ecn::ROWS,
    acks::ROWS,
    handshake::ROWS,
    rto::ROWS,
    recovery::ROWS,
    window::ROWS,
    segments::ROWS,
    buffers::ROWS,
    output::ROWS,
    lifetime::ROWS,
];
