//! The project's own scripts pass on the profiles that they name.

use std::path::{Path, PathBuf};
use tcpassay_script::report::Status;
use tcpassay_script::run::{Options, run};
use tcpassay_tcp::Profile;

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

#[test]
fn every_script_of_the_project_passes_with_exact_times() {
    let mut found = Vec::new();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts"), &mut found);
    assert!(found.len() >= 12, "only {} scripts", found.len());
    let mut wrong = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let name = text.lines().next().and_then(|l| l.strip_prefix("// profile: ")).expect("a profile");
        let profile = Profile::by_name(name).expect("a known profile");
        let report = run(&text, &Options::new(profile));
        if report.status != Status::Pass {
            wrong.push(format!("{}: {} {:#?}", path.display(), report.reason, report));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
