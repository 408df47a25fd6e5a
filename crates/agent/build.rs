//! Links the agent without position independence: its addresses are fixed then, so that the loader need not write them into the
//! program. In a guest each page that it writes stops the program several times.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
