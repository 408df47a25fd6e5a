//! The host that a script's commands describe: sysctls, the route, the interface.
//!
//! Commands are never executed here. Those whose effect is known change the host; those that only look, or that concern what the
//! model does not have, do nothing; any other is reported as unsupported,
//! unless the caller gives a [`ShellExecutor`].

use std::collections::BTreeMap;
use tcpassay_units::Dur;

/// What executes a command for a script whose commands the user allows (`--allow-shell`); an error says why it failed.
pub type ShellExecutor = fn(&str) -> Result<(), String>;

/// Sysctls by their dotted names, and the interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostSettings {
    sysctls: BTreeMap<String, String>,
    /// How long commands slept since somebody asked.
    pub sleep_time: Dur,
    /// TSO and GSO are off.
    pub no_tso: bool,
    /// The interface refuses everything (`pfifo limit 0`).
    pub local_drop: bool,
    /// What was known of peers was flushed (`ip tcp_metrics flush`) since somebody asked.
    pub metrics_flushed: bool,
    /// What routers said of the path's MTU.
    pub path_mtu: Option<u64>,
    /// Scripts of a shell that commands may call, by the name that they call them by.
    pub files: BTreeMap<String, String>,
    /// `advmss`, `mtu`, `initcwnd`, `initrwnd`, `rto_min` (ms) of the route.
    pub route: BTreeMap<String, u64>,
}

/// What google/packetdrill's `defaults.sh` sets.
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

/// The DCTCP receiver of this project's patched kernels, as a file and as a key of [`Host::get`]: 0 immediate, 1 clear-timer,
/// 2 rearm.
const DCTCP_RECEIVER_FILE: &str = "/sys/module/tcp_dctcp/parameters/dctcp_receiver";
/// See above.
pub const DCTCP_RECEIVER: &str = "module.tcp_dctcp.dctcp_receiver";

/// Scripts that call scripts.
const MAX_DEPTH: u32 = 4;
/// Bytes of the longest packet of IP.
const MAX_IP_PACKET: u64 = 65_535;
/// Queues of an interface that neither delay nor drop what a script sends.
const QUEUES: &[&str] =
    &["pfifo", "pfifo_fast", "bfifo", "fq", "fq_codel", "noqueue", "mq", "clsact", "ingress"];

/// Commands that change nothing that a script can see here.
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

impl HostSettings {
    /// The value of a sysctl that a script has set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.sysctls.get(name).map(String::as_str)
    }

    /// Sets a sysctl.
    pub fn set(&mut self, name: &str, value: &str) {
        self.sysctls.insert(name.to_owned(), value.to_owned());
    }

    /// A sysctl that is one number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.get(name)?.trim();
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// Every sysctl below a prefix: the rest of its name, and its value.
    pub fn all<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sysctls.iter().filter_map(move |(k, v)| Some((k.strip_prefix(prefix)?, v.as_str())))
    }

    /// Takes in commands; what is not known goes through `executor`, if there is one.
    ///
    /// # Errors
    /// The first line that is unsupported, or failed behind the door.
    pub fn run(&mut self, text: &str, executor: Option<ShellExecutor>) -> Result<(), String> {
        self.run_at(text, executor, 0)
    }

    fn run_at(&mut self, text: &str, executor: Option<ShellExecutor>, depth: u32) -> Result<(), String> {
        let joined = text.replace("\\\n", " ");
        for line in joined.split(['\n', ';']).flat_map(|l| l.split("&&")) {
            // What follows `||` is for a failure.
            let line = line.split(" #").next().unwrap_or("").split("||").next().unwrap_or("").trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let called = line.split_whitespace().next().unwrap_or("");
            if let Some(text) = self.files.get(called).cloned() {
                if depth == MAX_DEPTH {
                    return Err(format!("{called}: scripts that call scripts, more than {MAX_DEPTH} deep"));
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
            // Only looks.
            return Ok(());
        }
        // A value may consist of several numbers; a name never does.
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

    /// `/proc/sys/net/ipv4/tcp_sack=1` or `net.ipv4.tcp_sack=1`
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
        // No switch has more than 32 bits.
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

/// The words without where the output goes, unless the command is `echo`, whose output sets switches.
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

/// The words of a line as a shell has them, with what stands in quotes as one; without expansions but `$((...))`, a product of numbers.
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

/// `$((15*1024*1024))` is its value.
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

/// The number after a word, which `lock` may precede and `ms` may follow.
fn after(args: &[&str], word: &str) -> Option<u64> {
    let at = args.iter().position(|a| *a == word)?;
    let value = args[at + 1..].iter().find(|a| **a != "lock")?;
    value.trim_end_matches("ms").trim_end_matches('s').parse().ok()
}
