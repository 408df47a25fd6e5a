//! Any text as a packetdrill script: a report, whatever the profile, and the same one again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

fuzz_target!(|input: (u8, &str)| {
    let (choice, text) = input;
    let profile = Profile::ALL[usize::from(choice) % Profile::ALL.len()];
    // A short run is enough to reach every state.
    let options = RunOptions { step_limit: 20_000, ..RunOptions::new(profile) };
    let report = run(text, &options);
    assert_eq!(report, run(text, &options), "a run is a function of the script");
});
