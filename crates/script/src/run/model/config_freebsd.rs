//! The sysctls of FreeBSD as settings of the model.

use super::socket::OpenMode;
use crate::host::ScriptHost;
use tcpassay_tcp::{Config, ControlEcn, EcnMode, Persist, Recovery, RecvBuffer};
use tcpassay_units::{Bytes, Dur};

/// Sysctls without effect on the model.
const INERT_BSD: &[&str] = &[
    "hostcache.purgenow",
    "hostcache.enable",
    "hostcache.expire",
    "hostcache.prune",
    "rfc6675_pipe",
    "syncookies",
    "icmp_may_rst",
    "path_mtu_discovery",
    "pmtud_blackhole_detection",
    "functions_default",
    "minmss",
    "mssdflt",
    "log_debug",
    "bb.disable_all",
    "reass.maxqueuelen",
    "sendbuf_auto",
    "sendbuf_inc",
    "recvbuf_auto",
    "udp_tunneling_port",
    "udp_tunneling_overhead",
    "tso",
    "v6mssdflt",
    "always_keepalive",
    "nolocaltimewait",
    "rfc3390",
    "insecure_ack",
    "ack_war_cnt",
    "ack_war_timewindow",
    "cc.available",
    "sack.maxholes",
    "sack.globalmaxholes",
    "ts_offset_per_conn",
    "hostcache.bucketlimit",
    "sack.tso",
    "sack.lrd",
    "newsack",
    "sack.revised",
];

/// The settings of the persist timer.
fn persist(cfg: &mut Config) -> &mut Persist {
    cfg.persist.as_mut().expect("FreeBSD has one")
}

pub(super) fn freebsd(cfg: &mut Config, host: &ScriptHost, open: OpenMode) -> Result<(), String> {
    // FreeBSD counts marks in the ACE field only and sends no AccECN option (`tcp_ecn.c`).
    cfg.ecn_option = false;
    cfg.ecn = if open == OpenMode::Passive { EcnMode::Classic } else { EcnMode::Off };
    let mut space = 65_536;
    for (key, text) in host.all("net.inet.tcp.") {
        let wrong = || format!("sysctl net.inet.tcp.{key}={text}");
        let number = || host.number(&format!("net.inet.tcp.{key}")).ok_or_else(wrong);
        match key {
            "ecn.enable" => {
                cfg.ecn = match (number()?, open) {
                    (0, _) | (2 | 4, OpenMode::Active) => EcnMode::Off,
                    (1 | 2, _) => EcnMode::Classic,
                    (3 | 4, _) => EcnMode::Accurate,
                    _ => return Err(wrong()),
                }
            }
            // The sysctl of a patch that is not part of FreeBSD.
            "ecn.plusplus" => {
                cfg.control_ecn = match number()? {
                    0 => ControlEcn::Off,
                    1 => ControlEcn::SynAck,
                    2 => ControlEcn::All,
                    _ => return Err(wrong()),
                }
            }
            "sack.enable" => cfg.sack = number()? != 0,
            "rfc1323" => {
                let n = number()?;
                cfg.window_scale = n == 1 || n == 2;
                cfg.timestamps = n == 1 || n == 3;
            }
            "initcwnd_segments" => cfg.initial_window = u32::try_from(number()?).map_err(|_| wrong())?,
            "delayed_ack" => cfg.delayed_ack.every = if number()? == 0 { 1 } else { 2 },
            "delacktime" => cfg.delayed_ack.timeout = Dur::from_millis(number()?),
            "rfc3042" => cfg.limited_transmit = number()? != 0,
            "persmin" => persist(cfg).min = Dur::from_millis(number()?),
            "persmax" => persist(cfg).max = Dur::from_millis(number()?),
            "rexmit_min" => cfg.rto.min = Dur::from_millis(number()?),
            "rexmit_slop" => cfg.rto.slop = Dur::from_millis(number()?),
            "keepinit" => cfg.connect_timeout = Some(Dur::from_millis(number()?)),
            "insecure_rst" => cfg.weak_resets = number()? != 0,
            "insecure_syn" => cfg.weak_syns = number()? != 0,
            "ecn.maxretries" => {
                cfg.ecn_syns = u32::try_from(number()?).map_err(|_| wrong())?.saturating_add(1);
            }
            "msl" => cfg.time_wait = Dur::from_millis(number()?) * 2,
            "finwait2_timeout" => cfg.fin_wait2 = Dur::from_millis(number()?),
            "rexmit_initial" => cfg.rto.initial = Dur::from_millis(number()?),
            "recvspace" => space = number()?,
            "tolerate_missing_ts" => cfg.tolerate_missing_timestamps = number()? != 0,
            "rexmit_drop_options" => cfg.plain_syns = number()? != 0,
            "drop_synfin" => cfg.drop_synfin = number()? != 0,
            "do_prr" if number()? == 0 => {
                // Three names of one setting. The default is 1 since FreeBSD 14.
                let pipe = ["sack.revised", "newsack", "rfc6675_pipe"]
                    .iter()
                    .find_map(|key| host.number(&format!("net.inet.tcp.{key}")));
                cfg.recovery = Recovery::FreeBsd { pipe: pipe != Some(0) };
            }
            "syncookies_only" | "blackhole" if number()? == 0 => {}
            "do_prr"
            | "sendspace"
            | "fastopen.client_enable"
            | "fastopen.server_enable"
            | "fastopen.path_disable_time"
            | "fastopen.setkey"
            | "fastopen.ccache_list"
            | "fastopen.acceptany"
            | "fastopen.psk_enable"
            | "abc_l_var"
            | "keepidle"
            | "keepintvl"
            | "keepcnt"
            | "sendbuf_max"
            | "recvbuf_max"
            | "fast_finwait2_recycle"
            | "rfc3465"
            | "cc.algorithm" => {}
            _ if INERT_BSD.contains(&key) => {}
            _ => return Err(wrong()),
        }
    }
    // The window scale is chosen for the largest buffer, `sb_max`.
    let most = host.number("kern.ipc.maxsockbuf").unwrap_or(2 << 20);
    cfg.recv_buffer =
        RecvBuffer::Auto { initial: Bytes::new(space.min(most)), max: Bytes::new(most.max(space)) };
    Ok(())
}
