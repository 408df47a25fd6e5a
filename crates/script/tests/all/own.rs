//! The project's own scripts pass on the profiles that they name.

use std::path::{Path, PathBuf};
use tcpassay_script::report::Status;
use tcpassay_script::run::{RunOptions, run};

fn scripts(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|e| e.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|e| e == "pkt") {
            found.push(path);
        }
    }
}

/// Runs the scripts of a folder with the profiles that their first lines name. Returns the failures. Panics
/// if there are fewer than `least` scripts.
fn wrong(folder: &str, least: usize) -> String {
    let mut found = Vec::new();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    assert!(found.len() >= least, "only {} scripts", found.len());
    let mut wrong = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let name = text.lines().next().and_then(|l| l.strip_prefix("// profile: ")).expect("a profile");
        let options = RunOptions::by_name(name).expect("a known stack");
        let report = run(&text, &options);
        if report.status != Status::Pass {
            wrong.push(format!("{}: {} {:#?}", path.display(), report.reason, report));
        }
    }
    wrong.join("\n")
}

#[test]
fn every_script_of_the_project_passes_with_exact_times() {
    assert_eq!(wrong("../../scripts", 50), "");
}

#[test]
fn every_script_for_an_older_version_passes_with_that_version() {
    assert_eq!(wrong("tests/older", 7), "");
}
