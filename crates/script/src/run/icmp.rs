//! ICMP messages about segments that the stack had sent.
//!
//! Sources: `tcp_v4_err` and `icmp_err_convert` of Linux, `tcp_ctlinput` and `tcp_notify` of FreeBSD. In an open connection they are
//! soft errors, which change nothing that a script can see; while a connection is being opened they end it. What is too long for the path goes
//! again in smaller segments (RFC 1191).

use super::config;
use super::model::{Model, Target};
use super::stack::Trouble;
use crate::ast::Icmp;
use tcpassay_tcp::{Profile, State};
use tcpassay_units::Bytes;

/// The error that an application is told, by the message's type and code.
fn error(icmp: &Icmp) -> Option<&'static str> {
    Some(match (icmp.kind.as_str(), icmp.code.as_str()) {
        ("unreachable", "net_unreachable" | "net_unknown" | "net_prohibited" | "net_unreachable_for_tos") => {
            "ENETUNREACH"
        }
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

impl Model {
    /// An ICMP message of the script arrives.
    pub(super) fn inject_icmp(&mut self, icmp: &Icmp) -> Result<(), Trouble> {
        if matches!(icmp.code.as_str(), "frag_needed" | "packet_too_big") || icmp.kind == "packet_too_big" {
            return self.too_long(icmp);
        }
        let Some(error) = error(icmp) else {
            return Err(Trouble::Unsupported(format!("ICMP {} {}", icmp.kind, icmp.code)));
        };
        let Target::Peer(index) = self.target else {
            return Err(Trouble::Nonsense("no connection could receive this message".to_owned()));
        };
        let bsd = matches!(self.profile, Profile::FreeBsd | Profile::FreeBsdRack);
        // FreeBSD gives up at once only where somebody refused (`tcp_drop_syn_sent`).
        let ends = !bsd || matches!(error, "ECONNREFUSED" | "EACCES" | "ENOPROTOOPT");
        let peer = &mut self.world.peers[index];
        // Only about what is outstanding: in SYN-SENT that is the SYN.
        let current = icmp.seq.is_none_or(|seq| seq == 0);
        if peer.conn.state() == State::SynSent && current && ends {
            peer.conn.abort(self.world.now);
            peer.icmp_error = Some(error);
            self.world.flush(index);
        }
        Ok(())
    }

    /// A segment was longer than the path carries (`tcp_v4_mtu_reduced`, `tcp_mtudisc`).
    fn too_long(&mut self, icmp: &Icmp) -> Result<(), Trouble> {
        let Target::Peer(index) = self.target else {
            return Err(Trouble::Nonsense("no connection could receive this message".to_owned()));
        };
        let headers = config::headers(&self.settings);
        // What a router may say at least: `ip_rt_min_pmtu` of Linux, RFC 8200 section 5, `net.inet.tcp.minmss` of FreeBSD.
        let least = match (headers, self.is_bsd()) {
            (60, _) => 1280,
            (_, false) => 552,
            (_, true) => 216 + 40,
        };
        let mtu = u64::from(icmp.mtu.unwrap_or(0)).max(least);
        let peer = &mut self.world.peers[index];
        let info = peer.conn.info();
        let una = info.bytes_acked.get() + 1;
        let current = icmp.seq.is_none_or(|seq| (una..una + info.unacked.get()).contains(&u64::from(seq)));
        if current {
            peer.conn.set_path(self.world.now, Bytes::new(mtu - headers), true);
            self.world.flush(index);
        }
        Ok(())
    }
}
