//! What this crate may know.

/// "A controller never sees a sequence number, a timer or a header" is true because there is nothing to see them through.
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
    // Nor by another kind of table (target-specific, build).
    let tables: Vec<&str> = manifest.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(tables, ["[package]", "[lints]", "[dependencies]", "[dev-dependencies]"]);
}
