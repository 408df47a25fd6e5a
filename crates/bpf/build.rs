//! With the feature `bpf`: compiles every `src/bpf/*.bpf.c` to `OUT_DIR/*.bpf.o`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let clang = env("CLANG").unwrap_or_else(|| "clang".to_owned());
    let out = PathBuf::from(env("OUT_DIR").expect("cargo sets it"));
    let libbpf = env("DEP_BPF_INCLUDE").expect("libbpf-sys sets the variable with the folder of its headers");
    // For tests that compile a program of their own.
    println!("cargo:rustc-env=TCPASSAY_LIBBPF={libbpf}");
    let arch = env("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let mut sources: Vec<PathBuf> = std::fs::read_dir("src/bpf")
        .expect("the folder is part of the crate")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    for source in sources {
        compile(&clang, &source, &out.join(source.file_stem().expect("it has a name")), &libbpf, &arch);
    }
}

/// `object` lacks its suffix `.o`. Linux 5.1 and newer run `-mcpu=v3`, which has the atomic operations.
fn compile(clang: &str, source: &Path, object: &Path, libbpf: &str, arch: &str) {
    let object = object.with_extension("bpf.o");
    let result = Command::new(clang)
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror",
            "-std=gnu11",
        ])
        .args(["-I", libbpf, "-I", "src/bpf", "-idirafter"])
        // The folder of <asm/types.h> on Debian, which clang does not search for the target BPF.
        .arg(format!("/usr/include/{arch}-linux-gnu"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output();
    match result {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            panic!(
                "{clang} could not compile {}:\n{}",
                source.display(),
                String::from_utf8_lossy(&output.stderr)
            )
        }
        Err(e) => panic!(
            "{clang} does not run ({e}); the feature `bpf` needs clang (tools/bpf.sh), or CLANG=<path>"
        ),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo passes its settings to build scripts in the environment"
)]
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
