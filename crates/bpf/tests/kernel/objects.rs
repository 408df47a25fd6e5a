//! Controllers that are BPF programs, from object files.
use crate::lab::Namespaces;
use crate::{lab, needs_bpf, registered};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tcpassay_bpf::objects::Objects;

/// Compiles `tests/kernel/<name>.bpf.c`.
fn compiled(name: &str) -> PathBuf {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.bpf.o"));
    let status = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-I", env!("TCPASSAY_LIBBPF"), "-I", "src/bpf"])
        .args(["-idirafter", &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH), "-c"])
        .arg(format!("tests/kernel/{name}.bpf.c"))
        .arg("-o")
        .arg(&object)
        .status();
    assert!(status.expect("clang compiled the crate's own").success());
    object
}

#[test]
fn a_controller_in_an_object_file_drives_a_sender_under_its_own_name_and_is_gone_when_dropped() {
    needs_bpf!();
    let objects = Objects::load("fixed.o", &compiled("fixed")).unwrap();
    assert_eq!(objects.names(), ["tat_fixed"]);
    let sent = Namespaces::new("fixed", 50, 60_000).transfer(
        "tat_fixed",
        None,
        (Duration::from_millis(500), 500_000),
    );
    assert_eq!(sent.controller, "tat_fixed");
    // Where a timeout came between, the window is one packet for a moment.
    assert!(sent.samples.iter().any(|(_, window)| *window == 20), "{:?}", sent.samples);
    drop(objects);
    assert!(!registered("tat_fixed"));
}

#[test]
fn a_file_that_is_missing_or_not_an_object_file_is_refused_with_its_name() {
    needs_bpf!();
    let error = Objects::load("mine.o", Path::new("/nowhere.o")).unwrap_err().to_string();
    assert_eq!(error, "mine.o: No such file or directory (os error 2)");
    let error = Objects::load("mine.o", Path::new("Cargo.toml")).unwrap_err().to_string();
    assert!(error.contains("mine.o") && error.contains("ELF"), "{error}");
}
