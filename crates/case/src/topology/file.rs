//! A topology from a TOML file.
//!
//! ```toml
//! hosts = ["a", "b", "c"]
//! switches = ["s"]
//! links = [
//!     { from = "a", to = "s", rate = "10Gbit", delay = "5us" },   # rate and delay: else link.rate, link.delay
//!     { from = "b", to = "s" },
//!     { from = "s", to = "c" },
//! ]
//! flows = [{ from = "a", to = "c" }, { from = "b", to = "c" }]
//! ```
//!
//! A link has both directions. A second link between the same nodes, with `from` and `to` exchanged, gives rate and delay of the reverse
//! direction.

use super::net::{Host, MOST_HOSTS, MOST_SWITCHES, Net, Node, ReverseLink, Side, TopologyLink};
use std::collections::BTreeMap;
use std::ops::Range;
use toml_edit::{Document, Item, TableLike};

/// The largest allowed size of a file, in bytes; parsed, a byte needs up to a hundred.
const LARGEST: usize = 4 << 20;
/// The largest number of links and of flows in a file.
const MOST_LINKS: usize = 65_536;

/// The lines of a text, to name places in it.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        Lines(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn at(&self, span: Option<Range<usize>>) -> String {
        match span {
            Some(span) => format!("line {}", 1 + self.0.partition_point(|end| *end < span.start)),
            None => "the file".to_owned(),
        }
    }
}

/// Reads the text of the file into `net`. Errors contain the line.
pub(super) fn fill(net: &mut Net, text: &str) -> Result<(), String> {
    if text.len() > LARGEST {
        return Err(format!("it has more than {} MiB", LARGEST >> 20));
    }
    let doc = Document::parse(text).map_err(|why| why.to_string())?;
    let lines = Lines::of(text);
    for (key, item) in doc.iter() {
        if !["hosts", "switches", "links", "flows"].contains(&key) {
            return Err(format!(
                "{}: `{key}` is unknown; allowed are hosts, switches, links, flows",
                lines.at(item.span())
            ));
        }
    }
    let mut nodes = BTreeMap::new();
    for (i, name) in names(doc.get("hosts"), "hosts", MOST_HOSTS, &lines)?.into_iter().enumerate() {
        add(&mut nodes, &name, Node::Host(i))?;
        net.hosts.push(Host { name, side: Side::Both });
    }
    for (i, name) in names(doc.get("switches"), "switches", MOST_SWITCHES, &lines)?.into_iter().enumerate() {
        add(&mut nodes, &name, Node::Switch(i))?;
        net.switches.push(name);
    }
    // The links by their ends, the smaller one first.
    let mut between: BTreeMap<(Node, Node), usize> = BTreeMap::new();
    for (table, place) in tables(doc.get("links"), "links", &lines)? {
        let fields = fields(table, &["from", "to", "rate", "delay"], &place)?;
        let [from, to, rate, delay] = fields.try_into().expect("four were asked for");
        let (from, to) = ends(net, &nodes, from, to, &place)?;
        let name = format!("{}-{}", net.name(from), net.name(to));
        if let Some(&i) = between.get(&(from.min(to), from.max(to))) {
            reverse(&mut net.links[i], (from, rate, delay))
                .map_err(|why| format!("{place}: `{name}`: {why}"))?;
            continue;
        }
        between.insert((from.min(to), from.max(to)), net.links.len());
        net.links.push(TopologyLink {
            name,
            group: "link",
            from,
            to,
            main: true,
            both_ways: true,
            rate,
            delay,
            back: None,
        });
    }
    for (table, place) in tables(doc.get("flows"), "flows", &lines)? {
        let [from, to] = fields(table, &["from", "to"], &place)?.try_into().expect("two");
        match ends(net, &nodes, from, to, &place)? {
            (Node::Host(from), Node::Host(to)) => net.flows.push((from, to)),
            _ => return Err(format!("{place}: both ends of a flow must be hosts")),
        }
    }
    if net.flows.is_empty() {
        return Err("the list of flows is empty".to_owned());
    }
    settle_hosts(net)
}

/// Sets the sides of the hosts. Each must have one link.
fn settle_hosts(net: &mut Net) -> Result<(), String> {
    let (mut sends, mut receives) = (vec![false; net.hosts.len()], vec![false; net.hosts.len()]);
    for &(from, to) in &net.flows {
        (sends[from], receives[to]) = (true, true);
    }
    let mut ports = vec![0; net.hosts.len()];
    for node in net.links.iter().flat_map(|link| [link.from, link.to]) {
        if let Node::Host(i) = node {
            ports[i] += 1;
        }
    }
    for (i, host) in net.hosts.iter_mut().enumerate() {
        host.side = match (sends[i], receives[i]) {
            (true, false) => Side::Sender,
            (false, true) => Side::Receiver,
            _ => Side::Both,
        };
        if ports[i] != 1 {
            return Err(format!("host `{}` has {} links; a host has one", host.name, ports[i]));
        }
    }
    Ok(())
}

/// Takes a second link between two nodes as the reverse direction of the first.
fn reverse(
    first: &mut TopologyLink,
    (from, rate, delay): (Node, Option<String>, Option<String>),
) -> Result<(), String> {
    if from == first.from {
        return Err("a second link in this direction; packets would take the first one only".to_owned());
    }
    if first.back.is_some() {
        return Err(
            "a second link in this direction, which describes the reverse direction of the first".to_owned()
        );
    }
    first.back = Some(ReverseLink { rate, delay });
    Ok(())
}

fn add(nodes: &mut BTreeMap<String, Node>, name: &str, node: Node) -> Result<(), String> {
    let reserved = ["sender", "receiver", "link"].contains(&name);
    if reserved || name.is_empty() || name.contains('/') || nodes.insert(name.to_owned(), node).is_some() {
        return Err(format!("the name `{name}` is taken, reserved or malformed"));
    }
    Ok(())
}

/// The error of a list with more than `most` entries.
fn bounded(entries: usize, most: usize, what: &str, place: &str) -> Result<(), String> {
    if entries > most {
        return Err(format!("{place}: `{what}` has {entries} entries; at most {most} are possible"));
    }
    Ok(())
}

fn names(item: Option<&Item>, what: &str, most: usize, lines: &Lines) -> Result<Vec<String>, String> {
    let Some(item) = item else { return Ok(Vec::new()) };
    let wrong = || format!("{}: `{what}` is a list of names", lines.at(item.span()));
    let array = item.as_array().ok_or_else(wrong)?;
    bounded(array.len(), most, what, &lines.at(item.span()))?;
    array.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

type Tables<'a> = Vec<(&'a dyn TableLike, String)>;

fn tables<'a>(item: Option<&'a Item>, what: &str, lines: &Lines) -> Result<Tables<'a>, String> {
    let Some(item) = item else { return Ok(Vec::new()) };
    let place = lines.at(item.span());
    if let Some(array) = item.as_array_of_tables() {
        bounded(array.len(), MOST_LINKS, what, &place)?;
        return Ok(array.iter().map(|table| (table as &dyn TableLike, lines.at(table.span()))).collect());
    }
    let wrong = || format!("{place}: `{what}` is a list of tables");
    let array = item.as_array().ok_or_else(wrong)?;
    bounded(array.len(), MOST_LINKS, what, &place)?;
    array
        .iter()
        .map(|value| {
            let table = value.as_inline_table().ok_or_else(wrong)?;
            Ok((table as &dyn TableLike, lines.at(value.span())))
        })
        .collect()
}

fn fields(table: &dyn TableLike, allowed: &[&str], place: &str) -> Result<Vec<Option<String>>, String> {
    for (key, item) in table.iter() {
        if !allowed.contains(&key) || item.as_str().is_none() {
            return Err(format!("{place}: `{key}` is not one of the texts {}", allowed.join(", ")));
        }
    }
    Ok(allowed.iter().map(|key| table.get(key).and_then(Item::as_str).map(str::to_owned)).collect())
}

fn ends(
    net: &Net,
    nodes: &BTreeMap<String, Node>,
    from: Option<String>,
    to: Option<String>,
    place: &str,
) -> Result<(Node, Node), String> {
    let node = |name: Option<String>, end: &str| -> Result<Node, String> {
        let name = name.ok_or(format!("{place}: `{end}` is missing"))?;
        nodes.get(&name).copied().ok_or(format!("{place}: `{name}` is neither a host nor a switch"))
    };
    let (from, to) = (node(from, "from")?, node(to, "to")?);
    if from == to { Err(format!("{place}: both ends are `{}`", net.name(from))) } else { Ok((from, to)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{RackCounts, Shape};

    fn read(text: &str) -> Result<Net, String> {
        let racks = RackCounts { hosts: 1, fanout: 1 };
        Net::of(&Shape::File("t.toml".to_owned()), racks, &|_| Ok(text.to_owned()))
    }

    const GOOD: &str = r#"
hosts = ["a", "b"]
switches = ["s"]
links = [{ from = "a", to = "s", rate = "10Gbit" }, { from = "s", to = "b" }]
flows = [{ from = "a", to = "b" }]
"#;

    #[test]
    fn hosts_switches_links_and_flows_are_read() {
        let net = read(GOOD).unwrap();
        assert_eq!(net.links[0].name, "a-s");
        assert_eq!(net.links[0].rate.as_deref(), Some("10Gbit"));
        assert_eq!((net.hosts[0].side, net.hosts[1].side), (Side::Sender, Side::Receiver));
    }

    #[test]
    fn a_link_with_exchanged_ends_is_the_reverse_direction_of_the_first() {
        let more =
            |link: &str| GOOD.replace("to = \"b\" }]\nflows", &format!("to = \"b\" }}, {link}]\nflows"));
        let back = r#"{ from = "s", to = "a", rate = "1Mbit", delay = "3ms" }"#;
        let net = read(&more(back)).unwrap();
        assert_eq!(net.links.len(), 2);
        let reverse = net.links[0].back.as_ref().unwrap();
        assert_eq!((reverse.rate.as_deref(), reverse.delay.as_deref()), (Some("1Mbit"), Some("3ms")));
        let again = read(&more(&format!("{back}, {back}"))).unwrap_err();
        assert!(again.starts_with("t.toml: line 4: `s-a`: a second link in this direction"), "{again}");
        let same = read(&more(r#"{ from = "a", to = "s" }"#)).unwrap_err();
        assert!(same.starts_with("t.toml: line 4: `a-s`: a second link in this direction"), "{same}");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_line() {
        let error = read(&GOOD.replace("to = \"b\" }]\nflows", "to = \"x\" }]\nflows")).unwrap_err();
        assert_eq!(error, "t.toml: line 4: `x` is neither a host nor a switch");
    }

    #[test]
    fn an_unknown_key_and_a_host_without_a_link_are_refused() {
        assert!(read(&format!("host = []\n{GOOD}")).unwrap_err().contains("`host` is unknown"));
        let error = read(&GOOD.replace("[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]")).unwrap_err();
        assert!(error.contains("host `c` has 0 links"), "{error}");
    }
    #[test]
    fn more_links_than_possible_are_refused_before_they_are_looked_at() {
        let link = r#"{ from = "x", to = "y" }, "#;
        let error = read(&format!("hosts = []\nlinks = [{}]", link.repeat(65_537))).unwrap_err();
        assert_eq!(error, "t.toml: line 2: `links` has 65537 entries; at most 65536 are possible");
        let hosts = r#""a","#.repeat(16_385);
        let error = read(&format!("hosts = [{hosts}]")).unwrap_err();
        assert_eq!(error, "t.toml: line 1: `hosts` has 16385 entries; at most 16384 are possible");
        assert_eq!(read(&" ".repeat((4 << 20) + 1)).unwrap_err(), "t.toml: it has more than 4 MiB");
    }

    #[test]
    fn links_in_tables_of_their_own_are_named_with_their_lines() {
        let text = "hosts = [\"a\"]\n[[links]]\nfrom = \"a\"\nto = \"a\"\n";
        assert_eq!(read(text).unwrap_err(), "t.toml: line 2: both ends are `a`");
    }
}
