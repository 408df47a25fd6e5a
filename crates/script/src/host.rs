//! The settings of the host that shell commands of a script change: sysctls, the route, the interface.
//!
//! Commands are not executed. A known command changes the settings. A command that only reads, or whose effect the model does
//! not have, is ignored. Any other command is unsupported, unless the caller provides a [`ShellExecutor`].

use std::collections::BTreeMap;
use tcpassay_units::Dur;

/// Executes a command of a script if the user allows it (`--allow-shell`). The error says why the command failed.
pub type ShellExecutor = fn(&str) -> Result<(), String>;

/// The settings of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScriptHost {
    sysctls: BTreeMap<String, String>,
    /// The total time of `sleep` commands. The reader resets it.
    pub sleep_time: Dur,
    /// TSO and GSO are off.
    pub no_tso: bool,
    /// The queue of the interface drops every packet (`pfifo limit 0`).
    pub local_drop: bool,
    /// The TCP metrics were flushed (`ip tcp_metrics flush`). The reader resets it.
    pub metrics_flushed: bool,
    /// The path MTU of ICMP messages.
    pub path_mtu: Option<u64>,
    /// Shell scripts by the name with which commands call them.
    pub files: BTreeMap<String, String>,
    /// The attributes of the route: `advmss`, `mtu`, `initcwnd`, `initrwnd`, `rto_min` (ms) and others.
    pub route: BTreeMap<String, u64>,
}

/// The sysctls that `defaults.sh` of google/packetdrill sets.
const DEFAULTS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 540000 15728640"),
    ("tcp_wmem", "4096 262144 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_syn_retries", "5"),
    ("tcp_synack_retries", "5"),
    ("tcp_frto", "2"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "1"),
    ("tcp_reordering", "3"),
    ("tcp_congestion_control", "cubic"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_early_retrans", "4"),
    ("tcp_recovery", "1"),
    ("tcp_tso_win_divisor", "3"),
    ("tcp_ecn", "0"),
    ("tcp_pacing_ss_ratio", "200"),
    ("tcp_pacing_ca_ratio", "120"),
    ("tcp_notsent_lowat", "4294967295"),
    ("tcp_fastopen", "0x70403"),
    ("tcp_fastopen_key", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4"),
    ("tcp_syncookies", "1"),
    ("tcp_min_tso_segs", "2"),
];

/// The file that selects the DCTCP receiver of this project's patched kernels: 0 immediate, 1 clear-timer, 2 rearm.
const DCTCP_RECEIVER_FILE: &str = "/sys/module/tcp_dctcp/parameters/dctcp_receiver";
/// The key of the DCTCP receiver in [`ScriptHost::get`].
pub const DCTCP_RECEIVER: &str = "module.tcp_dctcp.dctcp_receiver";

/// The maximum depth of shell scripts that call each other.
const MAX_DEPTH: u32 = 4;
/// The maximum size of an IP packet in bytes.
const MAX_IP_PACKET: u64 = 65_535;
/// Queue disciplines that neither delay nor drop the packets of a script.
const QUEUES: &[&str] =
    &["pfifo", "pfifo_fast", "bfifo", "fq", "fq_codel", "noqueue", "mq", "clsact", "ingress"];

/// Commands without effect on the settings.
const NOTHING: &[&str] = &[
    "sockstat",
    "tcpdrop",
    "grep",
    "sync",
    "true",
    ":",
    "rm",
    "dd",
    "kldstat",
    "cat",
    "echo",
    "nstat",
    "ss",
    "netstat",
    "tcpdump",
    "killall",
    "pkill",
    "modprobe",
    "kldload",
    "kldunload",
    "dmesg",
    "ls",
    "which",
    "ulimit",
    "exit",
    "set",
    "export",
    "cd",
    "mkdir",
    "touch",
    "chmod",
    "uname",
    "ifconfig",
    "tc",
    "set+e",
];

impl ScriptHost {
    /// The value of a sysctl; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.sysctls.get(name).map(String::as_str)
    }

    /// Sets a sysctl without checking its name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.sysctls.insert(name.to_owned(), value.to_owned());
    }

    /// The value of a sysctl that is one number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.get(name)?.trim();
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The sysctls with a prefix: the rest of the name, and the value.
    pub fn all<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sysctls.iter().filter_map(move |(k, v)| Some((k.strip_prefix(prefix)?, v.as_str())))
    }

    /// The sysctls whose value is not that of `defaults.sh`.
    pub fn beyond_defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        let default = |name: &str, value: &str| {
            name.strip_prefix("net.ipv4.").is_some_and(|name| DEFAULTS.contains(&(name, value)))
        };
        self.all("").filter(move |(name, value)| !default(name, value))
    }

    /// Applies commands. `executor` executes unknown commands.
    ///
    /// # Errors
    /// The first line that is unsupported, or the error of `executor`.
    pub fn run(&mut self, text: &str, executor: Option<ShellExecutor>) -> Result<(), String> {
        self.run_at(text, executor, 0)
    }

    fn run_at(&mut self, text: &str, executor: Option<ShellExecutor>, depth: u32) -> Result<(), String> {
        let joined = text.replace("\\\n", " ");
        for line in joined.split(['\n', ';']).flat_map(|l| l.split("&&")) {
            // The command after `||` runs only after a failure.
            let line = line.split(" #").next().unwrap_or("").split("||").next().unwrap_or("").trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let called = line.split_whitespace().next().unwrap_or("");
            if let Some(text) = self.files.get(called).cloned() {
                if depth == MAX_DEPTH {
                    return Err(format!(
                        "{called}: shell scripts call each other more than {MAX_DEPTH} deep"
                    ));
                }
                self.run_at(&text, executor, depth + 1).map_err(|what| format!("{called}: {what}"))?;
                continue;
            }
            match (self.command(line), executor) {
                (Ok(()), _) => {}
                (Err(()), Some(executor)) => executor(line)?,
                (Err(()), None) => return Err(line.to_owned()),
            }
        }
        Ok(())
    }

    fn command(&mut self, line: &str) -> Result<(), ()> {
        let words = words(line);
        let words = redirected(&words);
        let (&command, args) = words.split_first().ok_or(())?;
        let name = command.rsplit('/').next().unwrap_or(command);
        match name {
            "defaults.sh" => {
                for (key, value) in DEFAULTS {
                    self.sysctls.insert(format!("net.ipv4.{key}"), (*value).to_owned());
                }
                Ok(())
            }
            "set_sysctls.py" | "set_sysctls.sh" => args.iter().try_for_each(|a| self.assign(a)),
            "sysctl" => self.sysctl(args),
            "ip" => self.ip(args),
            "sleep" => {
                let seconds = args.first().and_then(|a| a.parse::<f64>().ok());
                let seconds = seconds.filter(|s| (0.0..1e6).contains(s)).ok_or(())?;
                self.sleep_time = self.sleep_time.saturating_add(Dur::from_secs_f64(seconds));
                Ok(())
            }
            "ethtool" => {
                let off = args.windows(2).any(|w| matches!(w, ["tso" | "gso", "off"]));
                let on = args.windows(2).any(|w| matches!(w, ["tso" | "gso", "on"]));
                self.no_tso = off || (self.no_tso && !on);
                Ok(())
            }
            "echo" if args.contains(&">") => {
                let at = args.iter().position(|a| *a == ">").ok_or(())?;
                let (value, file) = args.split_at(at);
                let file = file.get(1).ok_or(())?;
                if *file == DCTCP_RECEIVER_FILE {
                    self.sysctls.insert(DCTCP_RECEIVER.to_owned(), value.join(" "));
                    return Ok(());
                }
                self.assign(&format!("{file}={}", value.join(" ").trim_matches('"')))
            }
            "tc" if args.first() == Some(&"qdisc") && args.get(1) != Some(&"show") => {
                let adds = matches!(args.get(1), Some(&("add" | "replace" | "change")));
                if adds && !args.iter().any(|word| QUEUES.contains(word)) {
                    return Err(());
                }
                self.local_drop = args.windows(2).any(|w| w == ["limit", "0"]);
                Ok(())
            }
            "ifconfig" if args.contains(&"mtu") => {
                self.route
                    .insert("mtu".to_owned(), after(args, "mtu").filter(|&n| n <= MAX_IP_PACKET).ok_or(())?);
                Ok(())
            }
            _ if name.starts_with("sysctl_restore_") => Ok(()),
            _ if NOTHING.contains(&name) => Ok(()),
            _ => Err(()),
        }
    }

    fn sysctl(&mut self, args: &[&str]) -> Result<(), ()> {
        let joined = args.iter().filter(|a| !a.starts_with('-')).copied().collect::<Vec<_>>().join(" ");
        let joined = joined.replace(['"', '\''], "").replace(" = ", "=");
        if !joined.contains('=') {
            // The command only reads.
            return Ok(());
        }
        // A word without `=` belongs to the value before it.
        let mut pairs: Vec<String> = Vec::new();
        for word in joined.split_whitespace() {
            match pairs.last_mut() {
                Some(last) if !word.contains('=') => {
                    last.push(' ');
                    last.push_str(word);
                }
                _ => pairs.push(word.to_owned()),
            }
        }
        pairs.iter().try_for_each(|p| self.assign(p))
    }

    /// Sets a sysctl from `/proc/sys/net/ipv4/tcp_sack=1` or `net.ipv4.tcp_sack=1`.
    fn assign(&mut self, pair: &str) -> Result<(), ()> {
        let (key, value) = pair.split_once('=').ok_or(())?;
        let key = key.trim().trim_start_matches("/proc/sys/").replace('/', ".");
        let key = match key.strip_prefix(".sys.module.") {
            // `/sys/module/tcp_cubic/parameters/hystart_detect`
            Some(name) => format!("module.{}", name.replace(".parameters.", ".")),
            None => key,
        };
        if !key.starts_with("module.tcp_cubic.hystart")
            && !key.starts_with("net.")
            && !key.starts_with("kern.")
        {
            return Err(());
        }
        // No sysctl has more than 32 bits.
        if value.trim().parse::<f64>().is_ok_and(|n| n.abs() > f64::from(u32::MAX)) {
            return Err(());
        }
        if key == "net.inet.tcp.hostcache.purgenow" {
            self.path_mtu = None;
        }
        self.sysctls.insert(key, value.trim().to_owned());
        Ok(())
    }

    fn ip(&mut self, args: &[&str]) -> Result<(), ()> {
        let args: Vec<&str> = args.iter().filter(|a| !a.starts_with('-')).copied().collect();
        match args.as_slice() {
            ["tcp_metrics" | "tcpmetrics" | "metrics", "flush" | "f" | "delete" | "del", ..] => {
                self.metrics_flushed = true;
                Ok(())
            }
            [
                "tcp_metrics" | "tcpmetrics" | "metrics" | "rule" | "addr" | "address" | "neigh" | "netns"
                | "mptcp",
                ..,
            ]
            | ["route" | "ro" | "r", "show" | "get" | "flush", ..] => Ok(()),
            ["link", ..] => {
                if let Some(mtu) = after(&args, "mtu") {
                    if mtu > MAX_IP_PACKET {
                        return Err(());
                    }
                    self.route.insert("mtu".to_owned(), mtu);
                }
                Ok(())
            }
            ["route" | "ro" | "r", ..] => {
                for name in
                    ["advmss", "mtu", "initcwnd", "initrwnd", "rto_min", "quickack", "features", "congctl"]
                {
                    if let Some(n) = after(&args, name) {
                        if n > u64::from(u32::MAX) || (name == "mtu" && n > MAX_IP_PACKET) {
                            return Err(());
                        }
                        self.route.insert(name.to_owned(), n);
                    }
                }
                if args.windows(2).any(|w| w == ["features", "ecn"]) {
                    self.route.insert("ecn".to_owned(), 1);
                }
                Ok(())
            }
            _ => Err(()),
        }
    }
}

/// The words without redirections. The redirection of `echo` stays, because it sets a sysctl.
fn redirected(words: &[String]) -> Vec<&str> {
    let echo = words.first().is_some_and(|word| word == "echo");
    let mut made = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let plain = word.trim_start_matches(['1', '2', '&']);
        match plain.strip_prefix('>') {
            Some(_) if echo && word.starts_with('>') => made.push(word),
            Some("" | ">") => drop(rest.next()),
            None if word != "&" => made.push(word),
            _ => {}
        }
    }
    made
}

/// Splits a line into words as a shell does. Quoted text is one word. The only expansion is `$((...))` of a product.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(q)) if c == q => quote = None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.iter().map(|w| products(w)).collect()
}

/// Replaces `$((15*1024*1024))` by its value.
fn products(word: &str) -> String {
    let Some((before, rest)) = word.split_once("$((") else { return word.to_owned() };
    let Some((inner, after)) = rest.split_once("))") else { return word.to_owned() };
    let factors: Option<Vec<u64>> = inner.split('*').map(|n| n.trim().parse().ok()).collect();
    let product = factors.and_then(|f| f.into_iter().try_fold(1_u64, u64::checked_mul));
    match product {
        Some(n) => format!("{before}{n}{}", products(after)),
        None => word.to_owned(),
    }
}

/// The number after a word. `lock` may precede it, and `s` or `ms` may follow it.
fn after(args: &[&str], word: &str) -> Option<u64> {
    let at = args.iter().position(|a| *a == word)?;
    let value = args[at + 1..].iter().find(|a| **a != "lock")?;
    value.trim_end_matches("ms").trim_end_matches('s').parse().ok()
}
