//! The substrate `remote`: the part of a run on one machine of a testbed.
//!
//! A controller starts `tcpassay-agent remote` on each machine by ssh, and speaks with it over standard input and output (crate `messages`).
//! The agent builds and runs its part of a case with the code of the substrate `host`: the namespaces that
//! [`placement`](crate::placement) puts on its machine. Links to other machines are macvlan devices on the test interfaces.
//!
//! | process | task |
//! | --- | --- |
//! | agent ([`session`]) | serves the controller between runs; holds the lock of the machine |
//! | supervisor ([`supervisor`]) | changes the settings of test interfaces ([`settings`]) and restores them, whatever ends the agent |
//! | run ([`part`]) | one for each case; everything that it creates is in its own namespaces, which the kernel removes with it |
//!
//! The recordings of all machines become one on the controller's machine ([`merge`]).

mod hardware;
mod inspect;
mod machine;
mod merge;
mod part;
mod path;
mod session;
mod settings;
mod supervisor;

pub use merge::main as merge;
pub use session::main;

/// Restores the settings that a killed agent and its killed supervisor have left, as after a reboot.
///
/// # Errors
/// Settings that cannot be restored, and an agent that is running.
pub fn restore() -> Result<(), String> {
    let Some(_lock) = supervisor::lock(crate::host::LOCK)? else {
        return Err("a controller or a run uses this machine; its agent restores the settings".to_owned());
    };
    let problems = supervisor::restore_journal();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}
