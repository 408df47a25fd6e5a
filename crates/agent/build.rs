//! Links the agent as one static program at fixed addresses where the static libraries are installed, as they are with Debian's `libc6-dev`. In a
//! guest each system call and each page fault of a loader, which would map five libraries and write their addresses into the program, stops the
//! agent several times.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries of `std`, with the archives that have their content.
const OF_STD: [(&str, &[&str]); 6] = [
    ("c", &["libc.a", "libgcc_eh.a", "libgcc.a"]),
    ("m", &["libm.a"]),
    ("gcc_s", &["libgcc_eh.a", "libgcc.a"]),
    ("rt", &["librt.a"]),
    ("pthread", &["libpthread.a"]),
    ("dl", &["libdl.a"]),
];
/// Those of libbpf.
const OF_LIBBPF: [(&str, &[&str]); 2] = [("elf", &["libelf.a"]), ("z", &["libz.a"])];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-no-pie");
    let with_bpf = std::env::var_os("CARGO_FEATURE_BPF").is_some();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let libraries: Vec<_> = OF_STD.iter().chain(OF_LIBBPF.iter().filter(|_| with_bpf)).collect();
    if libraries.iter().flat_map(|(_, archives)| *archives).all(|archive| is_installed(archive)) {
        for (library, archives) in libraries {
            replace(&out, library, archives);
        }
        println!("cargo:rustc-link-arg-bins=-static");
        println!("cargo:rustc-link-arg-bins=-L{}", out.display());
    }
}

/// Whether the linker finds an archive: the compiler then prints its path, and its bare name otherwise.
fn is_installed(archive: &str) -> bool {
    let answer = Command::new("cc").arg(format!("-print-file-name={archive}")).output();
    answer.is_ok_and(|answer| answer.stdout.contains(&b'/'))
}

/// Writes a linker script in place of a shared library: rustc asks for shared libraries by name, as `-static` alone would not change.
fn replace(out: &Path, library: &str, archives: &[&str]) {
    let archives: Vec<String> = archives.iter().map(|archive| format!("-l:{archive}")).collect();
    let script = format!("GROUP({})\n", archives.join(" "));
    std::fs::write(out.join(format!("lib{library}.so")), script).expect("cargo's folder can be written");
}
