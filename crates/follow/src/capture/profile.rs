//! The settings of a profile for an end of a capture: those of cases, with what the handshake shows.

use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::params::{Substrate, Value};
use tcpassay_tcp::{Config, EcnMode, RecvBuffer};
use tcpassay_units::Bytes;
use tcpassay_wire::{Ecn, Flags, Segment};

/// The names of profiles of captures, which are values of `stack.profile` in cases.
pub const PROFILES: [&str; 6] = ["linux-6.1", "linux-7.3", "linux-4.6", "freebsd", "freebsd-rack", "rfc"];

/// Buffers of sockets do not limit a connection that is followed.
const UNLIMITED: Bytes = Bytes::new(1 << 40);
/// The largest MSS without the option (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// A SYN with a smaller MSS is not taken seriously, as by the model's peers.
const LEAST_MSS: u16 = 64;

/// A name that no profile has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a profile; allowed are {names}", names = PROFILES.join(", "))]
pub struct Unknown(pub String);

/// The settings of a profile.
///
/// # Errors
/// A name that is not in [`PROFILES`].
pub fn profile(name: &str) -> Result<Config, Unknown> {
    let unknown = || Unknown(name.to_owned());
    if !PROFILES.contains(&name) {
        return Err(unknown());
    }
    let triples = BTreeMap::from([("stack.profile".to_owned(), Value::Text(name.to_owned()))]);
    let no_files = |name: &str| Err(std::io::Error::other(name.to_owned()));
    let case = Case::on(Substrate::Model, &triples, &no_files).map_err(|_| unknown())?;
    let mut config = case.hosts[0].stack.clone();
    config.recv_memory = None;
    config.skbs = None;
    config.tso = None;
    config.mtu_probing = None;
    config.bsd_window = false;
    config.recv_buffer = RecvBuffer::Fixed(UNLIMITED);
    config.send_buffer = Some(UNLIMITED);
    config.nodelay = true;
    config.keepalive = None;
    config.user_timeout = None;
    Ok(config)
}

/// Changes the settings to what the SYN of the end offers.
pub(super) fn with_syn(config: &mut Config, syn: &Segment, ecn: Ecn) {
    let options = &syn.options;
    config.mss = Bytes::new(u64::from(options.mss.unwrap_or(DEFAULT_MSS).max(LEAST_MSS)));
    config.sack = options.sack_permitted;
    config.timestamps = options.timestamps.is_some();
    config.window_scale = options.window_scale.is_some();
    if syn.window < u16::MAX {
        // The first window, by which Linux counts quick ACKs. The largest one may stand for more (Linux since 6.10).
        config.recv_buffer = RecvBuffer::Fixed(Bytes::new(syn.window.into()));
    }
    // A SYN offers ECN by both flags, a SYN-ACK accepts it by ECE (RFC 3168 section 6.1.1). With DCTCP both are ECN-capable in Linux.
    let offers = if syn.flags.has(Flags::ACK) { Flags::ECE } else { Flags::ECE | Flags::CWR };
    config.ecn = match (syn.flags.has(offers), ecn) {
        (false, _) => EcnMode::Off,
        (true, Ecn::NotEct) => EcnMode::Classic,
        (true, _) => EcnMode::Dctcp,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_has_settings_and_another_name_is_refused_with_the_names() {
        for name in PROFILES {
            assert!(profile(name).is_ok(), "{name}");
        }
        assert_eq!(
            profile("linux-7.4").unwrap_err().to_string(),
            "`linux-7.4` is not a profile; allowed are linux-6.1, linux-7.3, linux-4.6, freebsd, freebsd-rack, rfc"
        );
    }

    #[test]
    fn the_options_of_the_syn_are_those_of_the_connection() {
        let mut config = profile("linux-6.1").expect("a profile");
        let mut syn = Segment { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..Segment::default() };
        syn.options.mss = Some(1400);
        with_syn(&mut config, &syn, Ecn::NotEct);
        assert_eq!((config.mss, config.ecn), (Bytes::new(1400), EcnMode::Classic));
        assert!(!config.sack && !config.timestamps && !config.window_scale);
    }
}
