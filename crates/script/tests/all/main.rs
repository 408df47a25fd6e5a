//! Scripts against the model.

mod accecn;
mod commands;
mod errors;
mod fastopen;
mod freebsd;
mod hostile;
mod literal;
mod memory;
mod mismatch;
mod opening;
mod own;
mod queue;
mod robust;
mod sockets;
mod stacks;
mod waiting;

use tcpassay_script::report::Report;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

/// An accepted connection of profile `linux` whose peer offers `options`; then `rest`.
fn accepted(options: &str, answer: &str, rest: &str) -> String {
    format!(
        "`../common/defaults.sh`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000{options}>
+0 > S. 0:0(0) ack 1 <mss 1460{answer}>
+.1 < . 1:1(0) ack 1 win 32792
+0 accept(3, ..., ...) = 4
{rest}"
    )
}

/// The report of that script on profile `linux`.
fn plain(rest: &str) -> Report {
    linux(&accepted(",sackOK,nop,nop", ",nop,nop,sackOK", rest))
}

fn linux(text: &str) -> Report {
    run(text, &RunOptions::new(Profile::Linux))
}

/// The verdict of the script `text` on `profile`.
fn verdict_on(profile: Profile, text: &str) -> String {
    verdict(&run(text, &RunOptions::new(profile)))
}

/// Asserts that `rest` passes after an accepted connection on profile `linux`.
#[track_caller]
fn passes(rest: &str) {
    let report = plain(rest);
    assert_eq!(verdict(&report), "pass 0 ", "{:#?}", report.details);
}

/// `status line reason`
fn verdict(report: &Report) -> String {
    let line = report.position.map_or(0, |p| p.line);
    format!("{} {line} {}", report.status.name(), report.reason)
}
