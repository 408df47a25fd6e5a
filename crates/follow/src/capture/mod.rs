//! Following a packet capture that was taken at one end of connections, of which nothing but the packets is known.
//!
//! The receiver of the end is followed in both directions: what it sent, and what it should have sent. What its sender sends, and the windows
//! that it announces, are taken from the capture: when the application wrote and read, and how large its buffers are, is not in it. The
//! sender is judged only for what it may not send, whatever its application does.
//!
//! | module | what |
//! | --- | --- |
//! | `end` | the ends of a capture, with their packets and why they cannot be followed |
//! | `profile` | the settings of a profile, as far as the handshake of a connection tells them |
//! | `hypothesis` | one possibility: a connection, and what it sends that the capture has not shown yet |
//! | `follow` | follows one end up to the first difference |
//! | `foresight` | what the packets behind one tell about it |
//! | `explain` | how a difference reads |
//! | `sender` | what the sender of an end may not do |

mod end;
mod explain;
mod follow;
mod foresight;
mod hypothesis;
mod profile;
mod sender;

pub use end::{CapturedEnd, CapturedEnds, CapturedPacket, Options, read};
pub use follow::{CaptureOutcome, Stop, follow};
pub use profile::{PROFILES, Unknown, profile};
