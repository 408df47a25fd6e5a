//! The counters of the namespace that the process is in (`/proc/net/snmp`, `/proc/net/netstat`), by the names of `nstat`.

use std::collections::BTreeMap;
use std::io;
use tcpassay_linux::sys;

/// All counters that are not 0.
pub fn read() -> io::Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for file in ["/proc/self/net/snmp", "/proc/self/net/netstat"] {
        parse(&sys::read_text(file)?, &mut all);
    }
    Ok(all)
}

/// Adds the counters of a file, whose lines come in pairs: names, values.
fn parse(text: &str, all: &mut BTreeMap<String, u64>) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (mut names, mut values) = (names.split_whitespace(), values.split_whitespace());
        let prefix = names.next().unwrap_or_default().trim_end_matches(':').to_owned();
        values.next();
        for (name, value) in names.zip(values) {
            if let Some(n) = value.parse::<u64>().ok().filter(|n| *n > 0) {
                all.insert(format!("{prefix}{name}"), n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_nstat_and_zeroes_are_left_out() {
        let mut all = BTreeMap::new();
        parse(
            "TcpExt: TCPTimeouts DelayedACKs\nTcpExt: 3 0\nTcp: MaxConn RetransSegs\nTcp: -1 7\n",
            &mut all,
        );
        let pairs: Vec<_> = all.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(pairs, [("TcpExtTCPTimeouts", 3), ("TcpRetransSegs", 7)]);
    }
}
