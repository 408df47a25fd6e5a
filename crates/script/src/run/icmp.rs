//! ICMP messages about segments that the stack had sent.
//!
//! Sources: `tcp_v4_err` and `icmp_err_convert` of Linux, `tcp_ctlinput` and `tcp_notify` of FreeBSD. In an open connection they are
//! soft errors, which change nothing that a script can see; while a connection is being opened they end it. The path
//! MTU is not discovered: `frag_needed` is unsupported.

use super::model::{Model, Target};
use super::stack::Trouble;
use crate::ast::Icmp;
use tcpassay_tcp::{Profile, State};

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
}
