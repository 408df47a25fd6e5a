//! Following a packet capture that was taken at one end of connections, of which nothing but the packets is known.
//!
//! The receiver of the end is followed in both directions: what it sent, and what it should have sent. What its sender sends, and the windows
//! that it announces, are taken from the capture: when the application wrote and read, and how large its buffers are, is not in it. The
//! sender is judged only for what it may not send, whatever its application does.
//!
//! | module | what |
//! | --- | --- |
//! | `packet` | a packet |
//! | `end` | the ends of a capture, with their packets and why they cannot be followed |
//! | `outcome` | how far an end was followed |
//! | `order` | the order of the packets of one instant |
//! | `profile` | the settings of a profile, as far as the handshake of a connection tells them |
//! | `hypothesis` | one possibility: a connection, and what it sends that the capture has not shown yet |
//! | `follow` | follows one end up to the first difference |
//! | `arrival` | the ways in which an end may process a segment that arrives |
//! | `foresight` | what the packets behind one tell about it |
//! | `explain` | how a difference reads |
//! | `settings` | settings of a host that its packets may show |
//! | `sender` | what the sender of an end may not do |

mod arrival;
mod end;
mod explain;
mod follow;
mod foresight;
mod hypothesis;
mod order;
mod outcome;
mod packet;
mod profile;
mod sender;
mod settings;

pub use end::{CapturedEnd, CapturedEnds, Options, read};
pub use follow::follow;
pub use outcome::{CaptureOutcome, Stop};
pub use packet::CapturedPacket;
pub use profile::{PROFILES, Unknown, profile};
