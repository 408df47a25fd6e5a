//! Scripts set the knobs of Linux by shell commands, cases by the parameters that declare these knobs. Both must change the model in the same way.

use super::config::config;
use super::socket::{OpenMode, SocketOptions};
use crate::host::ScriptHost;
use crate::settings::ScriptSettings;
use std::collections::{BTreeMap, BTreeSet};
use tcpassay_case::params::{Substrate, Value, rows};
use tcpassay_case::{Case, Change};
use tcpassay_tcp::{Config, MemoryRules, Profile};

/// Values beside the levels of a parameter, where the levels are the defaults of Linux.
const MORE: &[(&str, &str)] = &[
    ("stack.syn_retries", "3"),
    ("stack.retries", "7"),
    ("stack.fin_wait2", "5s"),
    ("stack.loss_detection", "dupthresh:5:adaptive"),
    ("stack.loss_detection", "dupthresh:5"),
    ("stack.hystart", "linux-delay"),
];

/// Parameters that must hold beside a parameter, so that Linux has it.
const BESIDE: &[(&str, &str, &str)] = &[
    ("stack.hystart", "stack.cc", "cubic"),
    ("stack.dctcp_receiver", "stack.cc", "dctcp"),
    ("stack.dctcp_receiver", "stack.ecn", "dctcp"),
];

/// Fields of the settings that a knob changes differently in scripts and in cases, with the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "stack.syn_retries",
        "syn_linear",
        "Linux 6.1, which cases run on, has no linear timeouts; the newest Linux, which scripts run on, has four beside",
    ),
    ("stack.max_rwnd", "recv_buffer", "scripts count receive memory by the measured rules of the kernel"),
    ("stack.max_rwnd", "recv_memory", "scripts count receive memory by the measured rules of the kernel"),
    ("stack.rcv_autotune", "recv_memory", "scripts count receive memory by the measured rules of the kernel"),
    (
        "stack.max_sndbuf",
        "skbs",
        "scripts count send memory by the overhead of the kernel that they were written for",
    ),
    ("stack.pacing", "pacing", "the packets of a script are not paced"),
    (
        "stack.tso_autosize",
        "tso_autosize",
        "the super-segments of a script do not depend on the round-trip time",
    ),
    (
        "stack.delayed_ack",
        "delayed_ack",
        "the newest Linux, which scripts run on, delays an ACK by less than the shortest timeout (`tcp_delack_max`); see the test below",
    ),
];

fn triples(rows: &[(&str, &str)]) -> BTreeMap<String, Value> {
    rows.iter().map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect()
}

/// The settings of the sender of a case on the model.
fn by_case(rows: &[(&str, &str)]) -> Option<Config> {
    let mut all = triples(rows);
    all.insert("stack.profile".to_owned(), Value::from("linux"));
    Some(Case::from_triples(&all).ok()?.hosts[0].stack.clone())
}

/// The commands by which a script sets the knobs of the sender of a case on Linux; `None` if Linux cannot do what the case asks for.
fn commands(rows: &[(&str, &str)]) -> Option<Vec<String>> {
    let no_files = |_: &str| Err(std::io::Error::other("none"));
    let case = Case::on(Substrate::Kernel, &triples(rows), &no_files).ok()?;
    if !case.unsupported_by_linux().is_empty() {
        return None;
    }
    let command = |change| match change {
        Change::Sysctl(name, value) => Some(format!("sysctl -q net.ipv4.{name}=\"{value}\"")),
        Change::Route(attribute, value) => Some(format!("ip route change default {attribute} {value}")),
        Change::Module { file, value, .. } => Some(format!("echo {value} > /sys/module/{file}")),
        Change::Device(..)
        | Change::DeviceFile(..)
        | Change::Offload(..)
        | Change::Hardware(..)
        | Change::Socket(..) => None,
    };
    let path = rows[0].0;
    let asked = case.changes(0).into_iter().filter(|asked| asked.parameter.path == path);
    Some(asked.filter_map(|asked| command(asked.change)).collect())
}

/// The settings of a socket of a script after commands.
fn by_script(commands: &[String]) -> Result<Config, String> {
    let mut host = ScriptHost::default();
    for command in commands {
        host.run(command, None)?;
    }
    config(Profile::Linux, &host, &ScriptSettings::default(), &SocketOptions::default(), OpenMode::Active)
}

/// The settings by name, as text.
fn fields(config: &Config) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut name = String::new();
    for line in format!("{config:#?}").lines().skip(1) {
        let indented = line.strip_prefix("    ").unwrap_or(line);
        if let Some((field, _)) = indented.split_once(':').filter(|_| !indented.starts_with([' ', '}', ')']))
        {
            field.clone_into(&mut name);
        }
        all.entry(name.clone()).or_default().push_str(indented);
    }
    all
}

#[test]
fn a_knob_of_linux_changes_the_model_alike_in_a_script_and_in_a_case() {
    let (mut wrong, mut seen, mut with_knob) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for row in rows().filter(|row| row.path.starts_with("stack.")) {
        let more = MORE.iter().filter(|(path, _)| *path == row.path).map(|(_, value)| *value);
        for value in row.levels.iter().copied().chain(more) {
            let beside =
                BESIDE.iter().filter(|(path, ..)| *path == row.path).map(|(_, path, value)| (*path, *value));
            let asked: Vec<_> = [(row.path, value)].into_iter().chain(beside).collect();
            let Some(commands) = commands(&asked).filter(|commands| !commands.is_empty()) else { continue };
            with_knob.insert(row.path);
            let (Some(case), script) = (by_case(&asked), by_script(&commands)) else { continue };
            let script = match script {
                Ok(config) => fields(&config),
                Err(why) => {
                    wrong.push(format!("{asked:?}: {commands:?}: {why}"));
                    continue;
                }
            };
            let without = fields(&by_case(&asked[1..]).expect("a case"));
            for (name, value) in fields(&case).into_iter().filter(|(name, value)| without[name] != *value) {
                let excused =
                    DIFFERENT.iter().any(|(path, field, _)| (*path, *field) == (row.path, name.as_str()));
                seen.insert(row.path);
                if !excused && script[&name] != value {
                    wrong.push(format!("{asked:?}: {commands:?}: {value}, in a script {}", script[&name]));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // Every knob must have been compared at a value that changes the model.
    assert_eq!(with_knob.difference(&seen).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(seen.len() > 15, "{seen:?}");
}

#[test]
fn the_route_attribute_quickack_acknowledges_each_segment_and_leaves_the_other_rules() {
    let without = by_script(&[]).expect("a configuration").delayed_ack;
    let with =
        by_script(&["ip route change default quickack 1".to_owned()]).expect("a configuration").delayed_ack;
    assert_eq!((without.every, with.every), (2, 1));
    assert_eq!(
        (with.timeout, with.adaptive, with.quick_ack),
        (without.timeout, without.adaptive, without.quick_ack)
    );
}

#[test]
fn receive_memory_of_6_1_is_half_window_and_of_later_versions_the_measured_share() {
    for (profile, rules) in [
        (Profile::Linux61, MemoryRules::Half),
        (Profile::Linux, MemoryRules::Measured),
        (Profile::Linux73, MemoryRules::Measured),
    ] {
        let settings = ScriptSettings::default();
        let made =
            config(profile, &ScriptHost::default(), &settings, &SocketOptions::default(), OpenMode::Active);
        assert_eq!(made.expect("settings").recv_memory.expect("an account").rules, rules, "{profile:?}");
    }
}
