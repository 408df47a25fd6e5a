//! ICMP messages about segments that the stack has sent.
//!
//! Sources: `tcp_v4_err` and `icmp_err_convert` of Linux, `tcp_ctlinput` and `tcp_notify` of FreeBSD. On an established
//! connection the errors are soft and without visible effect. An error ends a connection that is being opened. A segment that
//! exceeds the path MTU is sent again in smaller segments (RFC 1191).

use super::config;
use super::state::{Model, SocketUnderTest};
use crate::ast::IcmpMessage;
use crate::run::target::ScriptError;
use crate::settings::IpVersion;
use tcpassay_tcp::State;
use tcpassay_units::Bytes;

/// The `errno` of an ICMP type and code.
fn error(icmp: &IcmpMessage) -> Option<&'static str> {
    Some(match (icmp.kind.as_str(), icmp.code.as_str()) {
        (
            "unreachable",
            "" | "net_unreachable" | "net_unknown" | "net_prohibited" | "net_unreachable_for_tos",
        ) => "ENETUNREACH",
        ("unreachable", "protocol_unreachable") => "ENOPROTOOPT",
        ("unreachable", "port_unreachable") => "ECONNREFUSED",
        ("unreachable", "source_route_failed") => "EOPNOTSUPP",
        ("unreachable", "host_unknown") => "EHOSTDOWN",
        ("unreachable", "source_host_isolated") => "ENONET",
        (
            "unreachable",
            "host_unreachable"
            | "host_prohibited"
            | "host_unreachable_for_tos"
            | "packet_filtered"
            | "precedence_violation"
            | "precedence_cutoff"
            | "no_route"
            | "addr_unreachable"
            | "address_unreachable",
        )
        | ("time_exceeded", _) => "EHOSTUNREACH",
        ("unreachable", "admin_prohibited" | "policy_fail" | "reject_route") => "EACCES",
        ("parameter_problem", _) => "EPROTO",
        _ => return None,
    })
}

/// The hard errors of FreeBSD. The other messages have no effect (`tcp_ctlinput`, `icmp6_input`, `inetctlerrmap`).
fn hard_error(icmp: &IcmpMessage) -> Option<&'static str> {
    match (icmp.kind.as_str(), icmp.code.as_str()) {
        (
            "unreachable",
            "protocol_unreachable"
            | "port_unreachable"
            | "net_prohibited"
            | "host_prohibited"
            | "packet_filtered"
            | "admin_prohibited",
        )
        | ("parameter_problem", "unknown_next_header") => Some("ECONNREFUSED"),
        ("time_exceeded", "ttl_exceeded_in_transit" | "exceeded_hop_limit") => Some("EHOSTUNREACH"),
        _ => None,
    }
}

/// Returns true if the message removes a request socket on Linux (`tcp_v4_err`, `icmpv6_err_convert`).
fn ends_request(icmp: &IcmpMessage, v6: bool) -> bool {
    match (icmp.kind.as_str(), icmp.code.as_str()) {
        ("parameter_problem", _) => true,
        ("time_exceeded", _) | ("unreachable", "" | "net_unreachable" | "host_unreachable") => !v6,
        ("unreachable", "admin_prohibited" | "port_unreachable" | "policy_fail" | "reject_route") => v6,
        _ => false,
    }
}

impl Model {
    /// An ICMP message of the script arrives.
    pub(super) fn inject_icmp(&mut self, icmp: &IcmpMessage) -> Result<(), ScriptError> {
        if matches!(icmp.code.as_str(), "frag_needed" | "packet_too_big") || icmp.kind == "packet_too_big" {
            return self.too_long(icmp);
        }
        let SocketUnderTest::Connection(index) = self.socket_under_test else {
            return Err(ScriptError::Invalid("no connection can receive this ICMP message".to_owned()));
        };
        let bsd = self.is_bsd();
        if bsd && (hard_error(icmp).is_none() || self.host.number("net.inet.tcp.icmp_may_rst") == Some(0))
            || matches!(icmp.kind.as_str(), "redirect" | "source_quench")
        {
            return Ok(());
        }
        let Some(error) = hard_error(icmp).filter(|_| bsd).or_else(|| error(icmp)) else {
            return Err(ScriptError::Unsupported(format!("ICMP {} {}", icmp.kind, icmp.code)));
        };
        let v6 = self.settings.ip_version == IpVersion::V6;
        let entry = &mut self.table.connections[index];
        // The message must refer to outstanding data. While the connection opens, that is the SYN.
        let current = icmp.seq.is_none_or(|seq| seq == 0);
        let opening = match entry.conn.state() {
            State::SynSent => true,
            // A Fast Open child whose SYN-ACK is not acknowledged.
            State::SynReceived => !bsd && entry.conn.is_fast_open_child(),
            _ => false,
        };
        if !bsd && current && ends_request(icmp, v6) {
            entry.conn.forget_request(self.table.now);
        }
        if opening && current {
            entry.conn.abort(self.table.now);
            entry.icmp_error = Some(error);
            // No RST is sent (`tcp_done`).
            while entry.conn.poll_transmit(self.table.now).is_some() {}
        }
        Ok(())
    }

    /// A segment exceeded the path MTU (`tcp_v4_mtu_reduced`, `tcp_mtudisc`).
    pub(super) fn too_long(&mut self, icmp: &IcmpMessage) -> Result<(), ScriptError> {
        let SocketUnderTest::Connection(index) = self.socket_under_test else {
            return Err(ScriptError::Invalid("no connection can receive this ICMP message".to_owned()));
        };
        let headers = config::headers(&self.settings);
        // The minimum of the path MTU: RFC 8200 section 5, `ip_rt_min_pmtu` of Linux, `net.inet.tcp.minmss` of FreeBSD.
        let least = match (headers, self.is_bsd()) {
            (60, _) => 1280,
            (_, false) => 552,
            (_, true) => 216 + 40,
        };
        let mtu = u64::from(icmp.mtu.unwrap_or(0)).max(least);
        let v6 = headers == 60;
        let (bsd, now) = (self.is_bsd(), self.table.now);
        // FreeBSD with IPv4 compares with the segment size, which is the default before the handshake completes.
        let opening = self.table.connections[index].conn.state() == State::SynSent
            && icmp.seq.is_none_or(|seq| seq == 0);
        if !(bsd && opening && !v6) {
            self.host.path_mtu = Some(self.host.path_mtu.map_or(mtu, |known| known.min(mtu)));
        }
        let entry = &mut self.table.connections[index];
        if opening {
            if !bsd || v6 {
                entry.conn.set_syn_path(now, Bytes::new(mtu - headers));
                self.table.flush(index);
            }
            return Ok(());
        }
        let info = entry.conn.info();
        let una = info.bytes_acked.get() + 1;
        let current = icmp.seq.is_none_or(|seq| (una..una + info.unacked.get()).contains(&u64::from(seq)));
        if current {
            entry.conn.set_path(self.table.now, Bytes::new(mtu - headers), true);
            self.table.flush(index);
        }
        Ok(())
    }
}
