//! Runs scripts from the command line: `script PROFILE [-v] [--OPTION=VALUE] FILE...`.

use tcpassay_script::run::{RunOptions, run};

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let verbose = args.iter().any(|a| a == "-v");
    args.retain(|a| a != "-v");
    let (options, args): (Vec<String>, Vec<String>) = args.into_iter().partition(|a| a.starts_with("--"));
    for file in &args[1..] {
        let text =
            String::from_utf8_lossy(&std::fs::read(file).expect("a file that can be read")).into_owned();
        let mut made = RunOptions::by_name(&args[0]).expect("a profile");
        for option in &options {
            let (name, value) = option[2..].split_once('=').unwrap_or((&option[2..], ""));
            made.settings.set(name, value).expect("an option");
        }
        let report = run(&text, &made);
        let position = report.position.map_or(String::new(), |p| format!(":{p}"));
        println!("{:11} {file}{position} {}", report.status.name(), report.reason);
        if verbose {
            report.details.iter().for_each(|line| println!("    {line}"));
        }
    }
}
