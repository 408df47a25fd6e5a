//! The model TCP follows a log: it receives what one end of a connection received and what its application called, and for each segment that
//! this end sent it is asked whether it would have sent it, and as time passes whether it would have sent something.
//!
//! | module | what |
//! | --- | --- |
//! | [`read`](read()) | the ends of a recording, with what each of them sent, received and was asked to do |
//! | [`follow`](follow()) | follows one end up to the first difference |
//! | [`ORACLE`], [`differences`] | the oracle: the first differences of a run on a kernel as findings |
//! | [`Tolerance`] | what does not count as a difference |
//! | [`capture`] | follows an end of a packet capture, without its calls |
//!
//! What a log does not contain (the order of events within an instant, whether a timer that is due now fired before an arrival) is a small
//! set of candidates. Those that contradict the log end; the end of the last one is the first difference. Its reason is the last decision
//! of that candidate in the model's own log.

mod candidate;
pub mod capture;
mod compare;
mod difference;
mod end;
mod follow;
mod gro;
mod inside;
mod kind;
mod oracle;
mod order;
mod own_queue;
mod read;
mod reason;

pub use difference::Difference;
pub use end::{End, Row, Setup, Substrate};
pub use follow::{Outcome, Tolerance, follow};
pub use inside::Told;
pub use kind::{Kind, Role};
pub use oracle::{FOLLOWED, ORACLE, differences, lacks};
pub use read::{Unfollowed, read};
