//! Test of the dependencies of this crate.

/// A controller cannot access sequence numbers, timers or headers, because the crate depends on no crate
/// that defines them.
#[test]
fn the_crate_depends_on_units_alone() {
    let manifest = include_str!("../Cargo.toml");
    let dependencies = manifest.split("[dependencies]").nth(1).expect("a table of dependencies");
    let lines: Vec<&str> = dependencies
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.trim().is_empty())
        .collect();
    assert_eq!(lines, ["tcpassay-units.workspace = true"]);
    // Other tables of dependencies (target-specific, build) must not exist either.
    let tables: Vec<&str> = manifest.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(tables, ["[package]", "[lints]", "[dependencies]", "[dev-dependencies]"]);
}
