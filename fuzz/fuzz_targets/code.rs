//! Any text as a block of code, and as a command, of a packetdrill script with a connection: a report, and the same one again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_script::run::{RunOptions, run};
use tcpassay_tcp::Profile;

fuzz_target!(|input: (&str, &str)| {
    let (code, command) = input;
    let text = format!(
        "`{}`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000,sackOK>
* > S. 0:0(0) ack 1 <...>
+0 %{{ {} }}%
+0 %{{ assert 1 }}%",
        command.replace('`', ""),
        code.replace("}%", "")
    );
    let options = RunOptions { step_limit: 20_000, ..RunOptions::new(Profile::Linux) };
    let report = run(&text, &options);
    assert_eq!(report, run(&text, &options), "a run is a function of the script");
});
