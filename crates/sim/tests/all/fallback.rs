//! Offloads depend on the negotiated options of a connection and not on the offered ones.

use crate::case;
use tcpassay_measure::PacketRecord;
use tcpassay_sim::{CollectOptions, SimOptions, run};
use tcpassay_tcp::EcnMode;
use tcpassay_units::Seed;
use tcpassay_wire::Flags;

#[test]
fn after_a_fallback_to_classic_ecn_segmentation_puts_cwr_on_the_first_segment_alone() {
    // RFC 3168 section 6.1.2: CWR is on the first new segment after a reduction. With accurate ECN the bit is part of a counter, and on all.
    let mut case = case(&[
        ("stack.ecn", "accurate"),
        ("nic.tso", "on"),
        ("queue.ecn_mark", "data"),
        ("queue.ecn_threshold", "60KB"),
        ("queue.limit", "1MB"),
        ("link.rate", "100Mbit"),
        ("link.delay", "5ms"),
        ("app.duration", "6s"),
    ]);
    case.hosts[1].stack.ecn = EcnMode::Classic;
    let collect = CollectOptions { packets: true, ..CollectOptions::default() };
    let outcome = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() });
    let recording = &outcome.recording;
    let at_receiver =
        |p: &&PacketRecord| recording.interfaces[p.interface as usize].name.starts_with("receiver");
    let segments = recording.packets.iter().filter(at_receiver).filter_map(|p| p.segment);
    let data: Vec<_> =
        segments.filter(|s| s.len > 0 && !s.flags.has(Flags::SYN)).map(|s| s.flags.has(Flags::CWR)).collect();
    let told = data.iter().filter(|&&cwr| cwr).count();
    assert!(told >= 5, "marks were answered: {told}");
    assert!(!data.windows(2).any(|two| two[0] && two[1]), "one segment for each reduction");
}
