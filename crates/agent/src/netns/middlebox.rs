//! A middlebox in a relay: it changes options, flags and numbers of segments, and forgets connections that are idle (`link.rewrite`,
//! `link.idle_timeout`), by the rules of the model's element (`crates/sim/src/element/middlebox.rs`).

use crate::netns::impairments::FlowKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tcpassay_case::Case;
use tcpassay_case::draws::sequence_shifts;
use tcpassay_case::params::grammar::RewriteRules;
use tcpassay_units::Seed;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum of TCP is completed later, and contains that of the pseudo header only.
const NEEDS_CSUM: u8 = 1;
const TCP: u8 = 6;
const SYN: u8 = 2;
const ACK: u8 = 16;
const ECE_CWR: u8 = 0xc0;
const NOP: u8 = 1;

/// When the last packet of each connection passed, of both directions.
type Connections = Arc<Mutex<BTreeMap<FlowKey, u64>>>;

/// One direction of a middlebox.
pub struct Middlebox {
    rules: RewriteRules,
    /// What is added to sequence numbers of this direction, and of the other one.
    shifts: [u32; 2],
    /// The time after which a connection is forgotten.
    forgets: Option<(u64, Connections)>,
}

impl Middlebox {
    /// The forward and the backward direction of a link; `None` without a middlebox.
    pub fn of(case: &Case, link: usize, seed: Seed) -> Option<[Middlebox; 2]> {
        let settings = &case.links[link];
        if !settings.has_middlebox() {
            return None;
        }
        let [there, back] = sequence_shifts(&case.net.links[link].name, seed);
        let known = Connections::default();
        Some([[there, back], [back, there]].map(|shifts| Middlebox {
            rules: settings.rewrite,
            shifts,
            forgets: settings.idle_timeout.map(|after| (after.as_nanos(), Arc::clone(&known))),
        }))
    }

    /// Whether a packet passes at `now`, which is changed by the rules. `flags` are those of `struct virtio_net_hdr`.
    pub fn pass(&self, now: u64, flags: u8, packet: &mut [u8]) -> bool {
        self.process(now, flags, packet).unwrap_or(true)
    }

    /// `None` for a packet that is not a whole TCP header over IPv4.
    fn process(&self, now: u64, flags: u8, packet: &mut [u8]) -> Option<bool> {
        let header = usize::from(packet.first()? & 15) * 4;
        if packet.len() < header || header < 20 {
            return None;
        }
        if self.rules.no_ect {
            packet[1] &= !3;
            packet[10..12].fill(0);
            let sum = !checksum(&packet[..header]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        if packet[9] != TCP || packet[6] & 0x1f != 0 || packet[7] != 0 {
            return None;
        }
        let mut key = [0; 12];
        key[..8].copy_from_slice(&packet[12..20]);
        let segment = &mut packet[header..];
        let length = usize::from(*segment.get(12)? >> 4) * 4;
        if length < 20 || segment.len() < length {
            return None;
        }
        key[8..].copy_from_slice(&segment[..4]);
        let opens = segment[13] & SYN != 0;
        if !self.knows(now, key, opens) {
            return Some(false);
        }
        let before = checksum(&segment[..length]);
        self.rewrite(&mut segment[..length], opens);
        let after = checksum(&segment[..length]);
        if flags & NEEDS_CSUM == 0 {
            let old = u16::from_be_bytes([segment[16], segment[17]]);
            // RFC 1624: HC' = ~(~HC + ~m + m').
            let new = !fold(u32::from(!old) + u32::from(!before) + u32::from(after));
            segment[16..18].copy_from_slice(&new.to_be_bytes());
        }
        Some(true)
    }

    fn knows(&self, now: u64, key: FlowKey, opens: bool) -> bool {
        let Some((longest, known)) = &self.forgets else { return true };
        let mut other = [0; 12];
        for (from, to) in [(0..4, 4), (4..8, 0), (8..10, 10), (10..12, 8)] {
            let n = from.len();
            other[to..to + n].copy_from_slice(&key[from]);
        }
        let key = key.min(other);
        let mut known = known.lock().expect("no thread panics while it holds the lock");
        let passes = opens || known.get(&key).is_some_and(|last| now - last <= *longest);
        if passes {
            known.insert(key, now);
        } else {
            known.remove(&key);
        }
        passes
    }

    fn rewrite(&self, segment: &mut [u8], opens: bool) {
        let (rules, [own, other]) = (&self.rules, self.shifts);
        if rules.sequence {
            shift(&mut segment[4..8], own);
            if segment[13] & ACK != 0 {
                shift(&mut segment[8..12], 0_u32.wrapping_sub(other));
            }
        }
        if !opens {
            return;
        }
        if rules.no_ecn_flags {
            segment[12] &= !1;
            segment[13] &= !ECE_CWR;
        }
        let mut at = 20;
        while let Some(kind) = segment.get(at).copied() {
            let length = match kind {
                0 => return,
                NOP => 1,
                _ => usize::from(segment.get(at + 1).copied().unwrap_or_default()),
            };
            let Some(option) = segment.get_mut(at..at + length).filter(|option| !option.is_empty()) else {
                return;
            };
            match (kind, length) {
                (2, 4) => {
                    let mss = u16::from_be_bytes([option[2], option[3]]);
                    let mss = rules.mss.map_or(mss, |most| mss.min(most));
                    option[2..4].copy_from_slice(&mss.to_be_bytes());
                }
                (3, 3) => match rules.window_scale {
                    Some(Some(scale)) => option[2] = scale,
                    Some(None) => option.fill(NOP),
                    None => {}
                },
                (4, 2) if rules.no_sack => option.fill(NOP),
                (8, 10) if rules.no_timestamps => option.fill(NOP),
                _ => {}
            }
            at += length;
        }
    }
}

/// Adds to a number of four bytes.
fn shift(field: &mut [u8], by: u32) {
    let number = u32::from_be_bytes(field.try_into().expect("four bytes"));
    field.copy_from_slice(&number.wrapping_add(by).to_be_bytes());
}

/// The one's complement sum of words of two bytes; the length is even.
fn checksum(bytes: &[u8]) -> u16 {
    fold(bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum())
}

fn fold(mut sum: u32) -> u16 {
    while let (high @ 1.., low) = (sum >> 16, sum & 0xffff) {
        sum = high + low;
    }
    u16::try_from(sum).expect("16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN with the options of Linux, ECT(0), and both checksums.
    fn syn() -> Vec<u8> {
        let mut packet = vec![
            0x45, 2, 0, 60, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
            0x80, 0, 0x13, 0x89, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xa0, 0xc2, 0xff, 0xff, 0, 0, 0,
            0, // TCP
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let sum = !checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let sum = tcp_sum(&packet);
        packet[36..38].copy_from_slice(&(!sum).to_be_bytes());
        packet
    }

    /// The sum over pseudo header and segment: 0xffff if the checksum is right.
    fn tcp_sum(packet: &[u8]) -> u16 {
        let length = u32::try_from(packet.len() - 20).unwrap();
        fold(
            u32::from(checksum(&packet[12..20]))
                + u32::from(TCP)
                + length
                + u32::from(checksum(&packet[20..])),
        )
    }

    fn middlebox(rules: &str, forgets: Option<(u64, Connections)>) -> Middlebox {
        Middlebox { rules: rules.parse().unwrap(), shifts: [1000, 7], forgets }
    }

    #[test]
    fn a_syn_keeps_its_length_and_right_checksums_when_everything_is_changed() {
        let mut packet = syn();
        let all = "no-sack+no-timestamps+window-scale:2+mss:1360B+no-ecn-flags+no-ect+sequence";
        assert!(middlebox(all, None).pass(0, 0, &mut packet));
        assert_eq!((packet[1], packet[32], packet[33]), (0, 0xa0, 2), "no ECN field, no ECE and CWR");
        assert_eq!(
            packet[24..32],
            [0, 0, 3, 0xe7, 0, 0, 0, 0],
            "shifted; without ACK the acknowledgment is not"
        );
        let options = [vec![2, 4, 5, 0x50], vec![NOP; 13], vec![3, 3, 2]].concat();
        assert_eq!(packet[40..], options);
        assert_eq!((checksum(&packet[..20]), tcp_sum(&packet)), (0xffff, 0xffff));
    }

    #[test]
    fn a_checksum_that_is_completed_later_stays_as_it_is() {
        let mut packet = syn();
        packet[36..38].copy_from_slice(&[0x12, 0x34]);
        assert!(middlebox("no-window-scale", None).pass(0, NEEDS_CSUM, &mut packet));
        assert_eq!((&packet[36..38], &packet[57..60]), (&[0x12, 0x34][..], &[NOP; 3][..]));
    }

    #[test]
    fn a_connection_is_forgotten_after_its_idle_time_in_both_directions() {
        let known = Connections::default();
        let middlebox = middlebox("none", Some((10, Arc::clone(&known))));
        let data = |back: bool| {
            let mut packet = syn();
            packet[33] = ACK;
            if back {
                packet[12..20].rotate_left(4);
                packet[20..24].rotate_left(2);
            }
            packet
        };
        assert!(!middlebox.pass(0, 0, &mut data(false)), "it never opened");
        assert!(middlebox.pass(0, 0, &mut syn()));
        assert!(middlebox.pass(10, 0, &mut data(true)));
        assert!(middlebox.pass(20, 0, &mut data(false)));
        assert!(!middlebox.pass(31, 0, &mut data(true)));
        assert!(!middlebox.pass(32, 0, &mut data(false)));
    }

    #[test]
    fn broken_packets_pass_unchanged() {
        let all = middlebox("no-sack+no-timestamps+no-window-scale+mss:500B+sequence", None);
        for cut in 0..syn().len() {
            let mut packet = syn()[..cut].to_vec();
            assert!(all.pass(0, 0, &mut packet), "{cut}");
        }
        let mut lying = syn();
        lying[41] = 0;
        assert!(all.pass(0, 0, &mut lying));
        lying[41] = 255;
        assert!(all.pass(0, 0, &mut lying));
    }
}
