//! Test of the use of the crate from several threads.

use crate::made::{Timed, by, handshake, pcap};
use std::fs::File;
use std::io::Cursor;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader, Round, Steps, Summary};

/// A capture of 6003 packets: segments, an ACK for each, and every tenth one sent again.
fn long() -> Vec<u8> {
    let mut packets: Vec<Timed> = handshake(1_000);
    for n in 0..3_000_u32 {
        let (at, seq) = (10_000 + 2_000 * u64::from(n), 1001 + 100 * (n - n / 10));
        let id = u16::try_from(n + 1).expect("3000");
        packets.push(by(true).seq(seq, 100).ack(5001).id(id).at_us(at));
        packets.push(by(false).seq(5001, 0).ack(seq + 100).at_us(at + 1_000));
    }
    pcap(101, &packets)
}

fn analysed(file: &[u8], options: &AnalysisOptions, threads: bool) -> (Summary, Vec<Round>) {
    let reader = Reader::new(Cursor::new(file.to_vec())).expect("a capture");
    let mut steps = Steps::new(reader, options.clone(), threads);
    let mut rounds = Vec::new();
    while let Some(more) = steps.rounds() {
        rounds.extend(more);
    }
    let (analysis, interfaces) = steps.analysis().expect("it is over");
    (analysis.summary(interfaces), rounds)
}

#[test]
fn several_threads_have_the_results_of_one() {
    let whole = long();
    // A capture that ends inside a packet, and one of which no packet is of the chosen interface.
    let cut = &whole[..whole.len() - 7];
    let other = AnalysisOptions { interface: Some("eth0".to_owned()), ..AnalysisOptions::default() };
    for (file, options) in
        [(&whole[..], AnalysisOptions::default()), (cut, AnalysisOptions::default()), (cut, other)]
    {
        let one = analysed(file, &options, false);
        assert_eq!(analysed(file, &options, true), one);
        assert_eq!(one.0.packets.packets, if file.len() == whole.len() { 6_003 } else { 6_002 });
    }
    let (summary, rounds) = analysed(&whole, &AnalysisOptions::default(), true);
    assert_eq!((summary.flows[0].counters.retransmissions, summary.flows[0].counters.packets), (299, 3_000));
    assert!(rounds.len() > 2_000, "{}", rounds.len());
}

#[test]
fn an_analysis_that_nobody_waits_for_ends() {
    let reader = Reader::new(Cursor::new(long())).expect("a capture");
    let mut steps = Steps::new(reader, AnalysisOptions::default(), true);
    assert!(steps.analysis().is_none(), "it has begun");
    assert!(steps.rounds().is_some());
    drop(steps);
}

#[test]
fn readers_and_analyses_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Reader<File>>();
    shared::<Analysis>();
    shared::<Steps<File>>();
}
