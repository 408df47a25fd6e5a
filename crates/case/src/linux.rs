//! The changes that a case makes in a Linux kernel, and the settings that Linux does not support. Both
//! follow from the knobs of the parameter table.

use crate::case::Case;
use crate::given::Scope;
use crate::linux_cc::module_parameters;
use crate::params::linux::{HardwareSetting, Knob, Offload, SocketOption, SocketValue};
use crate::params::{CcEngine, HostSettings, ParamSpec, Row, Setting, Substrate, find, table};

/// The path of the congestion controller.
const CC: &str = "stack.cc";

/// One change of a kernel, which the agent executes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A sysctl below `net.ipv4`.
    Sysctl(&'static str, String),
    /// An attribute of the default route.
    Route(&'static str, String),
    /// An attribute of the device.
    Device(&'static str, String),
    /// A file of the device below `/sys/class/net`.
    DeviceFile(&'static str, String),
    /// An offload of the device.
    Offload(Offload, bool),
    /// A number of the hardware of the interface.
    Hardware(HardwareSetting, u64),
    /// An option of every socket.
    Socket(SocketOption, SocketValue),
    /// A parameter of a module.
    Module {
        /// The file below `/sys/module`.
        file: &'static str,
        /// The value.
        value: String,
        /// The value that describes the behaviour of a kernel without the file.
        absent: &'static str,
    },
}

/// A change and the parameter that requires it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The parameter.
    pub parameter: &'static ParamSpec,
    /// The setting of the parameter.
    pub setting: Setting,
    /// The change.
    pub change: Change,
}

/// A setting that Linux does not support.
#[derive(Clone, PartialEq, Debug)]
pub struct Unsupported {
    /// The setting.
    pub setting: Setting,
    /// The full path at which it was given.
    pub path: String,
    /// The reason.
    pub why: String,
}

impl Case {
    /// The changes that the parameters of a host make in a kernel, in the order of the table.
    pub fn changes(&self, host: usize) -> Vec<Asked> {
        let names = self.net.host_addresses(host);
        let scope = self.host_scope(&names);
        let mut all = Vec::new();
        for rows in table::HOST {
            changes(rows, &scope, &self.hosts[host], &mut all);
        }
        changes(table::NIC, &scope, &self.hosts[host].nic, &mut all);
        all.extend(self.controller_changes(host));
        all
    }

    /// The changes that `stack.cc.<name>` of a host makes in a kernel; none if Linux does not support one of
    /// the values.
    fn controller_changes(&self, host: usize) -> Vec<Asked> {
        let settings = &self.hosts[host];
        if settings.engine != CcEngine::Kernel || settings.cc_values.is_empty() {
            return Vec::new();
        }
        let parameter = find(CC).expect("a row of the table");
        let setting = self.host_setting(host, CC).0;
        let asked = |(file, value)| Asked {
            parameter,
            setting: setting.clone(),
            change: Change::Module { file, value, absent: "" },
        };
        module_parameters(settings).unwrap_or_default().into_iter().map(asked).collect()
    }

    /// The values of `stack.cc.<name>` that the kernel of a guest does not support. On substrate `host` the
    /// modules of the kernel are not changed.
    pub fn unsupported_controller_values(&self) -> Vec<Unsupported> {
        let mut all = Vec::new();
        for (i, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.engine == CcEngine::Kernel) {
            let other = (0..i).find(|first| {
                self.hosts[*first].cc == host.cc && self.hosts[*first].cc_values != host.cc_values
            });
            let once = other.map(|other| {
                format!(
                    "a kernel has one set of parameters of this controller, and {} has other values",
                    self.net.hosts[other].name
                )
            });
            for why in module_parameters(host).err().into_iter().chain(once) {
                let (setting, path) = self.host_setting(i, CC);
                all.push(Unsupported { setting, path, why });
            }
        }
        all
    }

    /// The settings that no Linux kernel supports.
    pub fn unsupported_by_linux(&self) -> Vec<Unsupported> {
        let mut all = Vec::new();
        for rows in table::NETWORK {
            unsupported(rows, &self.given.whole(), &self.network, &mut all);
        }
        for (i, link) in self.links.iter().enumerate() {
            let names = self.net.link_addresses(i);
            let scope = self.given.scope(&names, self.net.links[i].main);
            unsupported(table::LINK, &scope, link, &mut all);
            unsupported(table::QUEUE, &scope, &link.queue, &mut all);
        }
        for (i, host) in self.hosts.iter().enumerate() {
            let names = self.net.host_addresses(i);
            let scope = self.host_scope(&names);
            for rows in table::HOST {
                unsupported(rows, &scope, host, &mut all);
                self.once_per_kernel(rows, i, &scope, &mut all);
            }
            unsupported(table::NIC, &scope, &host.nic, &mut all);
        }
        all
    }

    /// Module parameters of a host that differ from those of the first host that shares the module.
    fn once_per_kernel(
        &self,
        rows: &[Row<HostSettings>],
        host: usize,
        scope: &Scope,
        all: &mut Vec<Unsupported>,
    ) {
        for row in rows {
            for knob in row.linux {
                let Knob::Module { shared, once, .. } = knob else { continue };
                let first = (0..host).find(|first| shared(&self.hosts[*first], &self.hosts[host]));
                let (setting, path) = scope.of(&row.spec);
                if first.is_some_and(|first| self.host_setting(first, row.spec.path).0 != setting) {
                    all.push(Unsupported { setting, path, why: (*once).to_owned() });
                }
            }
        }
    }
}

fn unsupported<S>(rows: &[Row<S>], scope: &Scope, settings: &S, all: &mut Vec<Unsupported>) {
    for row in rows.iter().filter(|row| !row.linux.is_empty()) {
        let (setting, path) = scope.of(&row.spec);
        // Only a testbed has hardware. The NICs of guests have no limits of `ethtool`.
        let hardware = scope.substrate() == Substrate::Remote;
        let knobs = row.linux.iter().filter(|knob| hardware || !matches!(knob, Knob::Hardware(..)));
        for why in knobs.filter_map(|knob| knob.unsupported(&setting, settings)) {
            all.push(Unsupported { setting: setting.clone(), path: path.clone(), why: why.to_owned() });
        }
    }
}

fn changes<S>(rows: &'static [Row<S>], scope: &Scope, settings: &S, all: &mut Vec<Asked>) {
    for row in rows.iter().filter(|row| !row.linux.is_empty()) {
        let setting = scope.of(&row.spec).0;
        for change in row.linux.iter().filter_map(|knob| change(knob, &setting, settings)) {
            all.push(Asked { parameter: &row.spec, setting: setting.clone(), change });
        }
    }
}

/// The change that a knob makes; `None` if it makes none or Linux does not support the value.
fn change<S>(knob: &Knob<S>, setting: &Setting, settings: &S) -> Option<Change> {
    let text = |value: &fn(&Setting, &S) -> Result<Option<String>, &'static str>| {
        value(setting, settings).ok().flatten()
    };
    match knob {
        Knob::Sysctl(name, value) => text(value).map(|value| Change::Sysctl(name, value)),
        Knob::Route(attribute, value) => text(value).map(|value| Change::Route(attribute, value)),
        Knob::Device(attribute, value) => text(value).map(|value| Change::Device(attribute, value)),
        Knob::DeviceFile(file, value) => text(value).map(|value| Change::DeviceFile(file, value)),
        Knob::Module { file, value, absent, .. } => {
            text(value).map(|value| Change::Module { file, value, absent })
        }
        Knob::Offload(offload, value) => {
            value(setting, settings).ok().flatten().map(|on| Change::Offload(*offload, on))
        }
        Knob::Hardware(hardware, value) => {
            value(setting, settings).ok().flatten().map(|value| Change::Hardware(*hardware, value))
        }
        Knob::Socket(option, value) => {
            value(setting, settings).ok().flatten().map(|value| Change::Socket(*option, value))
        }
        Knob::Netem(_) | Knob::Builtin(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Value;

    fn case(rows: &[(&str, &str)]) -> Case {
        let triples = rows.iter().map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect();
        let no_files = |_: &str| Err(std::io::Error::other("none"));
        Case::on(Substrate::Kernel, &triples, &no_files).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    fn sysctls(rows: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let sysctl = |asked: Asked| match asked.change {
            Change::Sysctl(name, value) => Some((name, value)),
            _ => None,
        };
        case(rows).changes(0).into_iter().filter_map(sysctl).collect()
    }

    #[test]
    fn an_empty_case_sets_only_buffers_and_ecn() {
        let expected =
            [("tcp_ecn", "0"), ("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")];
        assert_eq!(sysctls(&[]), expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn a_kernel_of_another_version_has_its_own_largest_receive_buffer_unless_the_case_sets_one() {
        for (release, rows, expected) in [
            ("7.3.4-tcpassay", &[][..], "4096 131072 33554432"),
            ("7.3.4-tcpassay", &[("stack.profile", "linux")], "4096 131072 33554432"),
            ("7.3.4-tcpassay", &[("stack.max_rwnd", "100KB")], "4096 131072 200000"),
            ("6.1.176", &[], "4096 131072 6291456"),
            ("6.18.2", &[], "4096 131072 6291456"),
        ] {
            let mut case = case(rows);
            case.adopt(release);
            let rmem = case.changes(0).into_iter().find_map(|asked| match asked.change {
                Change::Sysctl("tcp_rmem", value) => Some(value),
                _ => None,
            });
            assert_eq!(rmem.as_deref(), Some(expected), "{release} {rows:?}");
            let memory = case.hosts[0].stack.recv_memory.expect("Linux counts memory");
            assert!(expected.ends_with(&memory.max.get().to_string()), "{release} {rows:?}");
        }
    }

    #[test]
    fn a_parameter_becomes_the_sysctl_of_linux() {
        for (path, value, expected) in [
            ("stack.sack", "off", &[("tcp_sack", "0")][..]),
            ("stack.frto", "on", &[("tcp_frto", "2")]),
            ("stack.tlp", "off", &[("tcp_early_retrans", "0")]),
            ("stack.ecn", "classic", &[("tcp_ecn", "1")]),
            ("stack.tso_autosize", "rate", &[("tcp_tso_rtt_log", "0")]),
            ("stack.tso_autosize", "rate-and-rtt", &[("tcp_tso_rtt_log", "9")]),
            ("stack.slow_start_after_idle", "decay", &[("tcp_slow_start_after_idle", "1")]),
            ("stack.fin_wait2", "5s", &[("tcp_fin_timeout", "5")]),
            ("stack.max_rwnd", "100KB", &[("tcp_rmem", "4096 131072 200000")]),
            ("stack.pacing", "150%,110%", &[("tcp_pacing_ss_ratio", "150"), ("tcp_pacing_ca_ratio", "110")]),
            ("stack.profile", "linux-7.3", &[("tcp_rmem", "4096 131072 33554432")]),
            ("stack.loss_detection", "rack", &[("tcp_recovery", "3")]),
            ("stack.loss_detection", "rack:dsack", &[("tcp_recovery", "1")]),
            (
                "stack.loss_detection",
                "dupthresh:5",
                &[("tcp_recovery", "0"), ("tcp_reordering", "5"), ("tcp_max_reordering", "5")],
            ),
            (
                "stack.loss_detection",
                "dupthresh:5:adaptive",
                &[("tcp_recovery", "0"), ("tcp_reordering", "5")],
            ),
        ] {
            let all = sysctls(&[(path, value)]);
            for (name, value) in expected {
                assert!(all.contains(&(name, (*value).to_owned())), "{path}: {all:?}");
            }
            let more = all.len() - sysctls(&[]).len();
            assert!(more == expected.len() || ["tcp_ecn", "tcp_rmem"].contains(&expected[0].0), "{all:?}");
        }
    }

    #[test]
    fn an_unsupported_setting_is_reported_with_its_path() {
        let found = case(&[("receiver/stack.tlp", "open-only")]).unsupported_by_linux();
        let expected = Unsupported {
            setting: Setting::Word("open-only"),
            path: "receiver/stack.tlp".to_owned(),
            why: "only Linux before 4.15 behaves so; the model supports it".to_owned(),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn two_hosts_cannot_want_different_parameters_of_a_module() {
        let rows =
            [("stack.cc", "dctcp"), ("stack.ecn", "dctcp"), ("receiver/stack.dctcp_receiver", "rearm")];
        let found = case(&rows).unsupported_by_linux();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "receiver/stack.dctcp_receiver");
    }

    #[test]
    fn hystart_is_a_parameter_of_cubic_alone() {
        let modules = |rows: &[(&str, &str)]| -> Vec<(&str, String)> {
            let module = |asked: Asked| match asked.change {
                Change::Module { file, value, .. } => Some((file, value)),
                _ => None,
            };
            case(rows).changes(0).into_iter().filter_map(module).collect()
        };
        let delay = modules(&[("stack.cc", "cubic"), ("stack.hystart", "linux-delay")]).into_iter();
        let expected = [("hystart", "1"), ("hystart_detect", "2")];
        let expected =
            expected.map(|(name, value)| (format!("tcp_cubic/parameters/{name}"), value.to_owned()));
        assert!(delay.map(|(file, value)| (file.to_owned(), value)).eq(expected));
        assert!(modules(&[("stack.cc", "reno"), ("stack.hystart", "off")]).is_empty());
        let reno = case(&[("stack.cc", "reno"), ("stack.hystart", "linux")]).unsupported_by_linux();
        assert_eq!(reno[0].why, "Linux has it only in cubic");
    }

    #[test]
    fn netem_gets_only_the_parameters_of_the_direction() {
        use crate::params::linux::LinkDirection;
        let words = |rows: &[(&str, &str)], way| {
            let words: Vec<String> = case(rows).links[0].netem(way).map(|(_, words)| words).collect();
            words.join(" ")
        };
        let rows = [
            ("link.delay", "5ms"),
            ("link.jitter", "1ms"),
            ("link.jitter_correlation", "25%"),
            ("link.jitter_distribution", "pareto"),
            ("link.loss", "1%"),
            ("link.loss_correlation", "30%"),
            ("link.ack_loss", "10%"),
            ("link.slot", "1ms,5ms,4"),
        ];
        assert_eq!(
            words(&rows, LinkDirection::Forward),
            "delay 5000.000us 1000.000us 25% distribution pareto loss 1% 30% slot 1000.000us 5000.000us packets 4"
        );
        assert_eq!(words(&rows, LinkDirection::Backward), "delay 5000.000us loss 10%");
        assert_eq!(words(&[("link.delay", "0s")], LinkDirection::Forward), "");
    }
}
