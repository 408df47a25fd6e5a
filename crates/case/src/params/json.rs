//! Export of the table as JSON for Python, the documentation and shell completion.

use super::kind::ValueKind;
use super::table::rows;
use serde_json::{Value as Json, json};

/// The table as JSON: a list of objects `path`, `kind`, `allowed`, `choices` (of a choice), `default`, `levels`,
/// `substrates`, `constraints`, `doc`. The parameters of controllers follow the rows, each with a `controllers` object
/// that gives default and range by controller.
pub fn to_json() -> String {
    let mut all: Vec<Json> = rows()
        .map(|row| {
            let mut json = json!({
                "path": row.path,
                "kind": row.kind.name(),
                "allowed": row.kind.allowed(),
                "default": row.default,
                "levels": row.levels,
                "substrates": row.substrates.names(),
                "constraints": row.constraints,
                "doc": row.doc,
            });
            if let Some(words) = words(&row.kind) {
                json["choices"] = json!(words);
            }
            json
        })
        .collect();
    let mut names: Vec<&str> =
        tcpassay_cc::names().into_iter().flat_map(tcpassay_cc::params).map(|info| info.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let mut controllers = serde_json::Map::new();
        let mut doc = "";
        for controller in tcpassay_cc::names() {
            for info in tcpassay_cc::params(controller).iter().filter(|info| info.name == name) {
                doc = info.doc;
                let entry = json!({ "default": info.default, "min": info.range.0, "max": info.range.1, "doc": info.doc });
                controllers.insert(controller.to_owned(), entry);
            }
        }
        all.push(json!({
            "path": format!("stack.cc.{name}"),
            "kind": "real",
            "allowed": "a number in the controller's range",
            "default": "controller",
            "levels": [],
            "substrates": ["model", "kernel", "host", "remote"],
            "constraints": "stack.cc has this parameter",
            "doc": doc,
            "controllers": controllers,
        }));
    }
    serde_json::to_string_pretty(&all).expect("strings and numbers always serialise")
}

fn words(kind: &ValueKind) -> Option<Vec<&'static str>> {
    match kind {
        ValueKind::Choice(words) => Some(words.to_vec()),
        ValueKind::Bool => Some(vec!["off", "on"]),
        ValueKind::Or(words, inner) => {
            Some(words.iter().copied().chain(self::words(inner).unwrap_or_default()).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_holds_every_row_and_the_controllers_parameters() {
        let all: Vec<Json> = serde_json::from_str(&to_json()).unwrap();
        let path = |p: &str| all.iter().find(|row| row["path"] == p).unwrap_or_else(|| panic!("{p}"));
        assert_eq!(path("queue.ecn_mark")["choices"], json!(["off", "data", "ack"]));
        assert_eq!(path("app.blocking")["substrates"], json!(["kernel", "host", "remote"]));
        assert!(path("stack.cc.beta")["controllers"]["reno"]["min"].is_number());
        assert!(all.len() > 100);
    }
}
