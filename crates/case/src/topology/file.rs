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

use super::net::{Host, Net, Node, ReverseLink, Side, TopologyLink};
use toml_edit::{Document, Item, TableLike};

/// Reads the text of the file into `net`. Errors contain the line.
pub(super) fn fill(net: &mut Net, text: &str) -> Result<(), String> {
    let doc = Document::parse(text).map_err(|why| why.to_string())?;
    let at = |item: &Item| match item.span() {
        Some(span) => format!("line {}", 1 + text[..span.start].matches('\n').count()),
        None => "the file".to_owned(),
    };
    for (key, item) in doc.iter() {
        if !["hosts", "switches", "links", "flows"].contains(&key) {
            return Err(format!(
                "{}: `{key}` is unknown; allowed are hosts, switches, links, flows",
                at(item)
            ));
        }
    }
    for name in names(doc.get("hosts"), "hosts", &at)? {
        unused(net, &name)?;
        net.hosts.push(Host { name, side: Side::Both });
    }
    for name in names(doc.get("switches"), "switches", &at)? {
        unused(net, &name)?;
        net.switches.push(name);
    }
    for (table, place) in tables(doc.get("links"), "links", &at)? {
        let fields = fields(table.as_ref(), &["from", "to", "rate", "delay"], &place)?;
        let [from, to, rate, delay] = fields.try_into().expect("four were asked for");
        let (from, to) = ends(net, from, to, &place)?;
        let name = format!("{}-{}", net.name(from), net.name(to));
        if let Some(i) = net.links.iter().position(|l| [(from, to), (to, from)].contains(&(l.from, l.to))) {
            reverse(&mut net.links[i], (from, rate, delay))
                .map_err(|why| format!("{place}: `{name}`: {why}"))?;
            continue;
        }
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
    for (table, place) in tables(doc.get("flows"), "flows", &at)? {
        let [from, to] = fields(table.as_ref(), &["from", "to"], &place)?.try_into().expect("two");
        match ends(net, from, to, &place)? {
            (Node::Host(from), Node::Host(to)) => net.flows.push((from, to)),
            _ => return Err(format!("{place}: both ends of a flow must be hosts")),
        }
    }
    if net.flows.is_empty() {
        return Err("the list of flows is empty".to_owned());
    }
    for i in 0..net.hosts.len() {
        let sends = net.flows.iter().any(|f| f.0 == i);
        let receives = net.flows.iter().any(|f| f.1 == i);
        net.hosts[i].side = match (sends, receives) {
            (true, false) => Side::Sender,
            (false, true) => Side::Receiver,
            _ => Side::Both,
        };
        let ports = net.links.iter().filter(|l| l.from == Node::Host(i) || l.to == Node::Host(i)).count();
        if ports != 1 {
            return Err(format!("host `{}` has {ports} links; a host has one", net.hosts[i].name));
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

fn unused(net: &Net, name: &str) -> Result<(), String> {
    let taken = net.hosts.iter().any(|h| h.name == name) || net.switches.iter().any(|s| s == name);
    let reserved = ["sender", "receiver", "link"].contains(&name);
    if taken || reserved || name.is_empty() || name.contains('/') {
        return Err(format!("the name `{name}` is taken, reserved or malformed"));
    }
    Ok(())
}

fn names(item: Option<&Item>, what: &str, at: &dyn Fn(&Item) -> String) -> Result<Vec<String>, String> {
    let Some(item) = item else { return Ok(Vec::new()) };
    let wrong = || format!("{}: `{what}` is a list of names", at(item));
    let array = item.as_array().ok_or_else(wrong)?;
    array.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

type Tables<'a> = Vec<(Box<dyn TableLike + 'a>, String)>;

fn tables<'a>(
    item: Option<&'a Item>,
    what: &str,
    at: &dyn Fn(&Item) -> String,
) -> Result<Tables<'a>, String> {
    let Some(item) = item else { return Ok(Vec::new()) };
    let wrong = || format!("{}: `{what}` is a list of tables", at(item));
    if let Some(array) = item.as_array_of_tables() {
        return Ok(array.iter().map(|t| (Box::new(t.clone()) as Box<dyn TableLike>, at(item))).collect());
    }
    let array = item.as_array().ok_or_else(wrong)?;
    array
        .iter()
        .map(|value| {
            let table = value.as_inline_table().ok_or_else(wrong)?;
            Ok((Box::new(table.clone()) as Box<dyn TableLike>, at(&Item::Value(value.clone()))))
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

fn ends(net: &Net, from: Option<String>, to: Option<String>, place: &str) -> Result<(Node, Node), String> {
    let node = |name: Option<String>, end: &str| -> Result<Node, String> {
        let name = name.ok_or(format!("{place}: `{end}` is missing"))?;
        let host = net.hosts.iter().position(|h| h.name == name).map(Node::Host);
        let switch = net.switches.iter().position(|s| *s == name).map(Node::Switch);
        host.or(switch).ok_or(format!("{place}: `{name}` is neither a host nor a switch"))
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
}
