//! Runs scripts from the command line: `script PROFILE [-v] FILE...`.

use tcpassay_script::run::{Options, run};
use tcpassay_tcp::Profile;

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let verbose = args.iter().any(|a| a == "-v");
    args.retain(|a| a != "-v");
    let profile = Profile::by_name(&args[0]).expect("a profile");
    for file in &args[1..] {
        let text =
            String::from_utf8_lossy(&std::fs::read(file).expect("a file that can be read")).into_owned();
        let report = run(&text, &Options::new(profile));
        let place = report.place.map_or(String::new(), |p| format!(":{p}"));
        println!("{:11} {file}{place} {}", report.status.name(), report.reason);
        if verbose {
            report.details.iter().for_each(|line| println!("    {line}"));
        }
    }
}
