//! All rows of the table, and the search for a row.

use super::host::HostSettings;
use super::link::LinkSettings;
use super::network::NetworkSettings;
use super::nic::NicSettings;
use super::queue::QueueSettings;
use super::row::Row;
use super::spec::ParamSpec;
use super::{app, link, network, nic, queue, stack};

/// The parameters of the workload of a host's applications.
pub(crate) static WORKLOAD: &[ParamSpec] = app::WORKLOAD;
/// The parameters of sockets and of the stack of a host.
pub(crate) static HOST: [&[Row<HostSettings>]; 1 + stack::ROWS.len()] = {
    let mut all = [app::SOCKETS; 1 + stack::ROWS.len()];
    let mut i = 0;
    while i < stack::ROWS.len() {
        all[1 + i] = stack::ROWS[i];
        i += 1;
    }
    all
};
/// The parameters of the NIC of a host.
pub(crate) static NIC: &[Row<NicSettings>] = nic::ROWS;
/// The parameters of a link.
pub(crate) static LINK: &[Row<LinkSettings>] = link::ROWS;
/// The parameters of the queue of a link.
pub(crate) static QUEUE: &[Row<QueueSettings>] = queue::ROWS;
/// The parameters of the whole network.
pub(crate) static NETWORK: [&[Row<NetworkSettings>]; 2] = [app::BACKGROUND, network::ROWS];

/// Every parameter, in the order of the documentation. The parameters of controllers (`stack.cc.<name>`) are not rows:
/// the controllers declare them ([`tcpassay_cc::params`]), and [`to_json`](super::to_json) adds them.
pub fn rows() -> impl Iterator<Item = &'static ParamSpec> {
    (WORKLOAD.iter())
        .chain(specs(app::SOCKETS))
        .chain(specs(app::BACKGROUND))
        .chain(stack::ROWS.into_iter().flat_map(specs))
        .chain(specs(NIC))
        .chain(specs(LINK))
        .chain(specs(QUEUE))
        .chain(specs(network::ROWS))
}

fn specs<S>(rows: &'static [Row<S>]) -> impl Iterator<Item = &'static ParamSpec> {
    rows.iter().map(|row| &row.spec)
}

/// Whether a row applies to the whole network, so that it takes no address.
pub(crate) fn is_of_network(spec: &ParamSpec) -> bool {
    NETWORK.iter().copied().flatten().any(|row| row.spec.path == spec.path)
}

/// The row of `path`.
pub fn find(path: &str) -> Option<&'static ParamSpec> {
    rows().find(|row| row.path == path)
}

/// The known path with the smallest edit distance to `path`; `None` if none is similar.
pub fn nearest(path: &str) -> Option<&'static str> {
    let close = |known: &'static str| (distance(path, known), known);
    let (edits, known) = rows().map(|row| close(row.path)).min()?;
    (edits <= path.len().div_ceil(3)).then_some(known)
}

/// Levenshtein distance between two short texts. docs/dev/dependencies.md states why no library computes it.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_default_and_level_is_a_value_of_its_kind() {
        for row in rows() {
            for text in row.levels.iter().chain([&row.default]) {
                let parsed = row.kind.parse(&Value::Text((*text).to_owned()));
                assert!(parsed.is_ok(), "{} = {text}: {}", row.path, parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_path_occurs_once_and_has_a_doc_line() {
        let mut seen = BTreeSet::new();
        for row in rows() {
            assert!(seen.insert(row.path), "{} is declared twice", row.path);
            assert!(row.doc.len() > 10 && !row.doc.contains('\n'), "{}", row.path);
            assert!(row.levels.first().is_none_or(|first| *first == row.default), "{}", row.path);
        }
        assert!(seen.len() > 90, "{}", seen.len());
    }

    #[test]
    fn the_nearest_name_is_suggested_for_a_typing_error_and_nothing_for_unrelated_text() {
        assert_eq!(nearest("link.dealy"), Some("link.delay"));
        assert_eq!(nearest("queue.ecn_treshold"), Some("queue.ecn_threshold"));
        assert_eq!(nearest("flux.capacitor"), None);
    }
}
