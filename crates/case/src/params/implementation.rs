//! `stack.implementation`: the TCP of a host of the model, and which parameters an implementation has.

use super::grammar::DelayedAckValue;
use super::kind::Setting;
use std::fmt;
use tcpassay_tcp::DelayedAck;

/// The TCP of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Implementation {
    /// The model of this project.
    #[default]
    Model,
    /// smoltcp, in the process.
    Smoltcp,
    /// A process that `tcpassay stack build` has built: of the pinned version, or of this one.
    Built(Built, Option<String>),
    /// A process that this command starts.
    Exec(String),
}

/// The TCPs that `tcpassay stack build` knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Built {
    /// gVisor's network stack.
    Gvisor,
    /// lwIP.
    Lwip,
    /// `PyTCP`.
    Pytcp,
    /// Another version of smoltcp than the one in the process.
    Smoltcp,
}

impl Built {
    const ALL: [Built; 3] = [Built::Gvisor, Built::Lwip, Built::Pytcp];

    /// The word of `stack.implementation`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Built::Gvisor => "gvisor",
            Built::Lwip => "lwip",
            Built::Pytcp => "pytcp",
            Built::Smoltcp => "smoltcp",
        }
    }

    fn lacks(self, path: &str, setting: &Setting) -> Option<&'static str> {
        match self {
            Built::Gvisor => gvisor_lacks(path, setting),
            Built::Lwip => lwip_lacks(path, setting),
            Built::Pytcp => pytcp_lacks(path, setting),
            Built::Smoltcp => smoltcp_lacks(path, setting),
        }
    }
}

/// The form of a version and of a command.
pub(super) const FORM: &str = "another version of one as in `smoltcp@<version>`, or `exec:<command>`";
const EXEC: &str = "exec:";

/// The TCP and the version that `<name>@<version>` names.
fn versioned(text: &str) -> Option<(Built, &str)> {
    let (name, version) = text.split_once('@')?;
    // The name of a folder, and an argument of a tool that builds it.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    let good = version.starts_with(|c: char| c.is_ascii_alphanumeric()) && version.chars().all(plain);
    let built = Built::ALL.into_iter().chain([Built::Smoltcp]).find(|built| built.name() == name)?;
    (good && version.len() <= 100).then_some((built, version))
}

/// Checks `<name>@<version>` and `exec:<command>`.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.contains('@') && !text.starts_with(EXEC) {
        let why =
            "it does not name a version (letters, digits, `.`, `-`, `+`) of smoltcp, gvisor, lwip or pytcp";
        return versioned(text).map(drop).ok_or_else(|| why.to_owned());
    }
    match text.strip_prefix(EXEC).map(str::trim) {
        None => Err("it does not begin with `exec:`".to_owned()),
        Some("") => Err("the command is missing".to_owned()),
        // Its words are separated by spaces, in every language that reads it.
        Some(command) if command.contains(char::is_control) => Err("it has control characters".to_owned()),
        Some(_) => Ok(()),
    }
}

impl Implementation {
    /// The words of `stack.implementation`.
    pub(super) const NAMES: [&str; 5] = ["model", "smoltcp", "gvisor", "lwip", "pytcp"];

    /// The implementation that a setting names.
    pub(super) fn of(setting: &Setting) -> Implementation {
        match setting {
            Setting::Word("smoltcp") => Implementation::Smoltcp,
            Setting::Word(word) => {
                let built = Built::ALL.into_iter().find(|built| built.name() == *word);
                built.map_or(Implementation::Model, |built| Implementation::Built(built, None))
            }
            Setting::Text(text) => match (text.strip_prefix(EXEC), versioned(text)) {
                (None, Some((built, version))) => Implementation::Built(built, Some(version.to_owned())),
                (command, _) => Implementation::Exec(command.unwrap_or(text).trim().to_owned()),
            },
            _ => Implementation::Model,
        }
    }

    /// Why the implementation does not have a setting of a parameter of hosts that differs from the default; `None` if it has it.
    pub(crate) fn lacks(&self, path: &str, setting: &Setting) -> Option<&'static str> {
        match self {
            Implementation::Model => match (path, setting) {
                ("stack.cc", Setting::Word("none")) => {
                    Some("the model always has a controller; smoltcp supports `none`")
                }
                _ => None,
            },
            Implementation::Smoltcp => smoltcp_lacks(path, setting),
            Implementation::Built(built, _) => built.lacks(path, setting),
            Implementation::Exec(_) => process_lacks(path, setting),
        }
    }
}

/// What smoltcp 0.14 can be told: the setters of `socket::tcp::Socket`, and the MTU of its device.
fn smoltcp_lacks(path: &str, setting: &Setting) -> Option<&'static str> {
    match path {
        "stack.implementation"
        | "stack.mtu"
        | "stack.isn"
        | "stack.timestamps"
        | "app.sndbuf"
        | "app.rcvbuf"
        | "app.nodelay"
        | "app.keepalive"
        | "app.user_timeout" => None,
        "stack.cc" => match setting {
            Setting::Word("none" | "reno" | "cubic") => None,
            _ => Some("smoltcp has the controllers none, reno and cubic"),
        },
        "stack.delayed_ack" => {
            let every_other = |d: DelayedAck| d.every == 2 && !d.adaptive && d.quick_ack == 0;
            let has = setting.parsed::<DelayedAckValue>().is_none_or(|value| value.0.is_none_or(every_other));
            (!has).then_some(
                "smoltcp acknowledges once more than one full segment has arrived, or after a delay: `off` or `2,<timeout>`",
            )
        }
        "stack.profile" => Some("a profile is a set of settings of the model"),
        "stack.sack" => Some("smoltcp always offers SACK and has no switch for it"),
        "stack.window_scale" => Some("smoltcp always offers window scaling and has no switch for it"),
        "stack.mss" => Some("smoltcp announces the MTU minus 40 bytes of headers"),
        "stack.ecn" => Some("smoltcp has no ECN"),
        "app.linger" => match setting {
            Setting::Dur(wait) if wait.is_zero() => None,
            _ => Some("smoltcp has no lingering close; 0s resets at once"),
        },
        "nic.tso" | "nic.gso_max" => Some("smoltcp sends packets that fit the MTU"),
        "nic.gro" | "nic.gro_max" | "nic.gro_timeout" | "nic.lro_order" => Some(
            "smoltcp receives packets as they were sent; merging them would create packets that it never meets",
        ),
        _ if path.starts_with("stack.") || is_socket_option(path) => {
            Some("smoltcp has no such setting; it is a parameter of the model")
        }
        _ => None,
    }
}

/// What the protocol of processes has settings for. Which of them an adapter has it says when the run begins.
fn process_lacks(path: &str, setting: &Setting) -> Option<&'static str> {
    match path {
        "stack.cc" => None,
        "stack.profile" => Some("a profile is a set of settings of the model"),
        "nic.tso" | "nic.gso_max" | "nic.gro" | "nic.gro_max" | "nic.gro_timeout" | "nic.lro_order" => {
            Some("a process sends and receives packets that fit the MTU")
        }
        "stack.delayed_ack" | "app.linger" => smoltcp_lacks(path, setting)
            .map(|_| "a process can be told `off` or `2,<timeout>` for ACKs, and a linger of 0s"),
        _ => smoltcp_lacks(path, setting).map(|_| "the protocol of processes has no such setting"),
    }
}

/// What gVisor's network stack can be told through its package `tcpip`.
fn gvisor_lacks(path: &str, setting: &Setting) -> Option<&'static str> {
    match path {
        "stack.cc" => match setting {
            Setting::Word("reno" | "cubic") => None,
            _ => Some("gVisor has the controllers reno and cubic"),
        },
        "stack.timestamps" => Some("gVisor always offers timestamps and has no switch for them"),
        "stack.delayed_ack" => Some("gVisor delays ACKs by its own rule"),
        _ => process_lacks(path, setting),
    }
}

/// What lwIP can be told: fields of `struct tcp_pcb`, and the sizes of its configuration.
fn lwip_lacks(path: &str, setting: &Setting) -> Option<&'static str> {
    match path {
        "stack.cc" => match setting {
            Setting::Word("reno") => None,
            _ => Some("lwIP has no choice of controllers; its own is reno"),
        },
        "stack.timestamps" => Some("lwIP is built without timestamps, which are off by default"),
        "stack.delayed_ack" => Some("lwIP delays ACKs to the next tick of 250 ms"),
        "app.user_timeout" => Some("lwIP has no user timeout"),
        _ => process_lacks(path, setting),
    }
}

/// What `PyTCP` can be told: options of its sockets, and its sysctls.
fn pytcp_lacks(path: &str, setting: &Setting) -> Option<&'static str> {
    match path {
        "stack.cc" => match setting {
            Setting::Word("reno" | "cubic") => None,
            _ => Some("PyTCP has the controllers reno and cubic"),
        },
        "stack.timestamps" => Some("PyTCP always offers timestamps and has no switch for them"),
        "stack.delayed_ack" => match setting.parsed::<DelayedAckValue>() {
            Some(value) if value.0.is_none() => Some("PyTCP always delays ACKs; its sysctl begins at 1 ms"),
            _ => process_lacks(path, setting),
        },
        _ => process_lacks(path, setting),
    }
}

/// Parameters of sockets that are no behaviour of an application.
fn is_socket_option(path: &str) -> bool {
    matches!(path, "app.cork" | "app.notsent_lowat" | "app.quickack" | "app.blocking")
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Implementation::Model => f.write_str("model"),
            Implementation::Smoltcp => f.write_str("smoltcp"),
            Implementation::Built(built, None) => f.write_str(built.name()),
            Implementation::Built(built, Some(version)) => write!(f, "{}@{version}", built.name()),
            Implementation::Exec(command) => write!(f, "{EXEC}{command}"),
        }
    }
}
