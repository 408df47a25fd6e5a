//! The options of packetdrill's command line. The `--` lines of a script may also set them.

use std::net::IpAddr;
use tcpassay_units::Dur;

/// The address family of sockets and packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IpVersion {
    /// IPv4 on both sides.
    #[default]
    V4,
    /// An IPv6 socket with IPv4 packets (`::ffff:192.0.2.1`).
    V4MappedV6,
    /// IPv6 on both sides.
    V6,
}

/// Differences between versions of a stack that have no sysctl.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StackVersion {
    /// The version of the profile.
    #[default]
    Profile,
    /// FreeBSD 12: the interval of SYN and SYN-ACK retransmissions doubles only after the fifth one (`tcp_syn_backoff`).
    FreeBsd12,
}

/// The options of packetdrill, from the command line and from the script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScriptSettings {
    /// `--ip_version`
    pub ip_version: IpVersion,
    /// `--mtu`: the MTU of the interface; 1500 if absent.
    pub mtu: Option<u16>,
    /// `--mss`: the segment size (`gso_size`) of an inbound GSO packet. The stack receives the packet as a whole.
    pub gso: Option<u16>,
    /// `--max_tcp_header`: bytes that the kernel reserves for the headers of a packet (`MAX_TCP_HEADER`); 320 if absent, as with tunnels
    /// and wireless networks. Only for the model.
    pub tcp_header: Option<u16>,
    /// `--tolerance_usecs`: the allowed error in time. It is zero by default, because time is virtual.
    pub tolerance: Dur,
    /// `--tcp_ts_tick_usecs`: the tick of the timestamp clock. With zero, timestamps are not compared.
    pub ts_tick: Dur,
    /// `--strict_segments`: an expected packet matches exactly one packet of the stack.
    pub strict_segments: bool,
    /// `-D name=value`: words of the script and their replacement.
    pub defines: Vec<(String, String)>,
    /// `--allow-shell`: unknown commands are executed. The name contains `-`, so a `--` line of a script cannot set it.
    pub allow_shell: bool,
    /// Shell scripts in the folder of the script: the name by which commands call them, and their text.
    pub shell_files: Vec<(String, String)>,
    /// `--sysctl name=value`: sysctls that are set before the script.
    pub sysctls: Vec<(String, String)>,
    /// The version of the stack.
    pub version: StackVersion,
    /// `--local_ip`, `--remote_ip`, `--gateway_ip`.
    pub addresses: Vec<(String, IpAddr)>,
}

/// Options without effect here: they concern a real interface or the program packetdrill.
const WITHOUT_EFFECT: &[&str] = &[
    "bind_port",
    "connect_port",
    "code_command",
    "code_format",
    "code_sockopt",
    "speed",
    "netmask_ip",
    "init_scripts",
    "wire_client",
    "wire_client_dev",
    "wire_server",
    "wire_server_at",
    "wire_server_ip",
    "wire_server_port",
    "wire_server_dev",
    "dry_run",
    "verbose",
    "debug",
    "no_cleanup",
    "so_filename",
    "so_flags",
    "persistent_tun_dev",
    "is_anyip",
    "send_omit_free",
    "tolerance_percent",
    "packetdrill_speed",
    "use_expect",
    "non_fatal",
    "tun_dev",
];

impl ScriptSettings {
    /// Sets one option; `name` is without the dashes.
    ///
    /// # Errors
    /// The name or the value is not allowed. The message says what is.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bad = |what: &str| Err(format!("`--{name}={value}`: expected {what}"));
        match name {
            "ip_version" => {
                self.ip_version = match value {
                    "ipv4" => IpVersion::V4,
                    "ipv4-mapped-ipv6" => IpVersion::V4MappedV6,
                    "ipv6" => IpVersion::V6,
                    _ => return bad("`ipv4`, `ipv4-mapped-ipv6` or `ipv6`"),
                };
            }
            "mtu" => match value.parse() {
                Ok(mtu) if mtu >= 68 => self.mtu = Some(mtu),
                _ => return bad("an MTU of 68 to 65535 bytes"),
            },
            "mss" => match value.parse() {
                Ok(0) => self.gso = None,
                Ok(n) => self.gso = Some(n),
                Err(_) => return bad("bytes of a segment, 0 to 65535"),
            },
            "max_tcp_header" => match value.parse() {
                Ok(n @ 64..=1024) => self.tcp_header = Some(n),
                _ => return bad("64 to 1024 bytes"),
            },
            "tolerance_usecs" | "tcp_ts_tick_usecs" => {
                let Ok(n) = value.parse::<u32>() else { return bad("microseconds, 0 to 4294967295") };
                let d = Dur::from_micros(u64::from(n));
                if name == "tolerance_usecs" { self.tolerance = d } else { self.ts_tick = d }
            }
            "tcp_ts_ecr_scaled" => {}
            "strict_segments" => self.strict_segments = true,
            "allow-shell" => self.allow_shell = true,
            // Its name is none that a script's own line could have, either.
            "shell-file" => match value.split_once('\n') {
                Some((path, text)) => self.shell_files.push((path.to_owned(), text.to_owned())),
                None => return bad("a name, a new line and the text"),
            },
            "define" | "D" => match value.split_once('=') {
                Some((word, text)) if !word.is_empty() => {
                    self.defines.push((word.to_owned(), text.to_owned()));
                }
                _ => return bad("`name=value`"),
            },
            "sysctl" => match value.split_once('=') {
                Some((key, text)) if key.contains('.') => {
                    self.sysctls.push((key.to_owned(), text.to_owned()));
                }
                _ => return bad("`name=value`, as in `net.inet.tcp.delacktime=100`"),
            },
            "local_ip" | "local_linux_ip" | "remote_ip" | "gateway_ip" => match value.parse() {
                Ok(ip) => self.addresses.push((name.to_owned(), ip)),
                Err(_) => return bad("an IP address"),
            },
            "udp_encaps" => return Err(format!("`--{name}`: packets inside UDP are not supported")),
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err(format!("`--{name}` is not an option; see `tcpassay script --help`")),
        }
        Ok(())
    }

    /// The script with defined words replaced. As in packetdrill, strings, commands, code and comments stay unchanged.
    ///
    /// # Errors
    /// The result is longer than [`MAX_SCRIPT_SIZE`].
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        let long = || format!("a script of more than {MAX_SCRIPT_SIZE} bytes");
        if text.len() > MAX_SCRIPT_SIZE {
            return Err(long());
        }
        if self.defines.is_empty() {
            return Ok(text.to_owned());
        }
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut made = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let n = match first {
                c if name(c) => rest.find(|c| !name(c)).unwrap_or(rest.len()),
                '"' | '`' => quoted(rest, first),
                '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |n| n + 4),
                '%' if rest.starts_with("%{") => rest.find("}%").map_or(rest.len(), |n| n + 2),
                c => c.len_utf8(),
            };
            let (piece, after) = rest.split_at(n);
            match self.defines.iter().rev().find(|(word, _)| word == piece) {
                Some((_, value)) => made.push_str(value),
                None => made.push_str(piece),
            }
            if made.len() > MAX_SCRIPT_SIZE {
                return Err(long());
            }
            rest = after;
        }
        Ok(made)
    }
}

/// The size in bytes of the quoted string at the beginning of `text`, with its quotes. A backslash escapes a quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (n, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return n + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The maximum size of a script in bytes: more than 100 times the longest public script.
const MAX_SCRIPT_SIZE: usize = 4 << 20;
