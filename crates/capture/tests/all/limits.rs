//! Limits on what a file can multiply.

use crate::made::{Timed, analyse, analyse_as, from_to, pcap};
use std::io::Write as _;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader, Summary};
use tcpassay_wire::Flags;

fn limited(packets: &[Timed], most_connections: u32) -> Summary {
    analyse_as(&pcap(101, packets), AnalysisOptions { most_connections, ..AnalysisOptions::default() }).0
}

fn client(port: u16) -> String {
    format!("192.0.2.1:{port}")
}

/// SYN, SYN-ACK, data, their ACK, FIN of both ends, from `at_us` on.
fn connection(port: u16, at_us: u64, ends: bool) -> Vec<Timed> {
    let client = client(port);
    let by = |forth: bool| {
        let (from, to) =
            if forth { (client.as_str(), "192.0.2.2:80") } else { ("192.0.2.2:80", client.as_str()) };
        from_to(from, to)
    };
    let mut made = vec![
        by(true).flags(Flags::SYN).seq(1000, 0).ack(0).at_us(at_us),
        by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).at_us(at_us + 10),
        by(true).seq(1001, 100).ack(5001).at_us(at_us + 20),
        by(false).seq(5001, 0).ack(1101).at_us(at_us + 30),
    ];
    if ends {
        let fin = Flags::FIN | Flags::ACK;
        made.push(by(true).flags(fin).seq(1101, 0).ack(5001).at_us(at_us + 40));
        made.push(by(false).flags(fin).seq(5001, 0).ack(1102).at_us(at_us + 50));
    }
    made
}

#[test]
fn connections_that_ended_give_room_and_keep_their_summaries() {
    let packets: Vec<Timed> =
        (0..4_u16).flat_map(|n| connection(40_000 + n, u64::from(n) * 1000, true)).collect();
    let all = limited(&packets, 100);
    assert_eq!((all.flows.len(), all.packets.ended_connections), (4, 0));
    let some = limited(&packets, 2);
    assert_eq!((some.flows.len(), some.packets.ended_connections), (4, 2));
    assert_eq!(some.flows, all.flows);
    assert_eq!((some.packets.too_many_connections, some.notes.len()), (0, 0));
    // Of ended connections twice as many summaries are kept.
    let few = limited(&packets, 1);
    assert_eq!((few.flows.len(), few.packets.undescribed_flows, few.flows_with_data), (3, 1, 4));
    let note = "1 flow of connections that ended, beyond those that may be in memory, which are counted only: `--max-connections` raises the limit.";
    assert_eq!(few.notes, [note]);
}

#[test]
fn connections_that_go_on_give_no_room_and_the_segments_of_others_are_counted() {
    let mut packets: Vec<Timed> =
        (0..3_u16).flat_map(|n| connection(40_000 + n, u64::from(n) * 1000, false)).collect();
    let summary = limited(&packets, 2);
    assert_eq!(
        (summary.flows.len(), summary.packets.segments, summary.packets.too_many_connections),
        (2, 9, 3)
    );
    let note = "3 segments of connections beyond those that may be in memory, which were not analysed: `--max-connections` raises the limit.";
    assert_eq!(summary.notes, [note]);
    // After ten minutes of silence they give room.
    packets.extend(connection(50_000, 601_000_000, false));
    let summary = limited(&packets, 2);
    assert_eq!((summary.packets.ended_connections, summary.flows.len()), (2, 3));
}

#[test]
fn first_packets_are_kept_of_thirty_times_as_many_connections() {
    let syn = |port: u16| {
        from_to(&client(port), "192.0.2.2:80").flags(Flags::SYN).seq(1000, 0).ack(0).at_us(u64::from(port))
    };
    let packets: Vec<Timed> = (0..70).map(syn).collect();
    let summary = limited(&packets, 2);
    assert_eq!((summary.connections, summary.packets.too_many_connections), (60, 10));
    // A SYN that is sent again, and the rest of its connection, are the same with and without other connections before.
    let mut packets = connection(40_000, 1_000_000, true);
    packets.insert(0, connection(40_000, 0, false).remove(0));
    let (alone, _) = analyse(&pcap(101, &packets));
    packets.extend((1..50).map(syn));
    packets.sort_by_key(|(at, _)| *at);
    let (among, _) = analyse(&pcap(101, &packets));
    assert_eq!((alone.connections, among.connections), (1, 50));
    assert_eq!(alone.flows, among.flows);
    assert_eq!(alone.flows[0].counters.syn_retransmissions, 1);
}

#[test]
fn a_flow_of_a_single_packet_is_described_as_one_of_a_longer_connection() {
    let one = from_to("192.0.2.1:40000", "192.0.2.2:80").seq(1, 100).ack(7).at_us(5);
    let sack = from_to("192.0.2.1:40001", "192.0.2.2:80").seq(1, 100).ack(7).sack(20, 30).at_us(5);
    let summary = limited(&[one, sack], 10);
    let told: Vec<(u32, u64, &str)> =
        summary.flows.iter().map(|flow| (flow.flow, flow.counters.bytes, flow.sender.as_str())).collect();
    assert_eq!(told, [(1, 100, "192.0.2.1:40000"), (2, 100, "192.0.2.1:40001")]);
    assert_eq!(summary.flows[0].unknown, summary.flows[1].unknown);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 12).expect("small").to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

#[test]
fn interfaces_beyond_65536_are_counted_and_their_packets_are_not_read() {
    let mut file =
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let raw = block(1, &[101, 0, 0, 0, 0, 0, 0, 0]);
    (0..65_540).for_each(|_| file.extend(&raw));
    let (_, packet) = from_to("192.0.2.1:40000", "192.0.2.2:80").seq(1, 100).at_us(0);
    let len = u32::try_from(packet.len()).expect("small");
    for interface in [65_535_u32, 65_536, 65_539] {
        let head: Vec<u8> = [interface, 0, 1, len, len].into_iter().flat_map(u32::to_le_bytes).collect();
        file.extend(block(6, &[head, packet.clone()].concat()));
    }
    let (summary, _) = analyse(&file);
    assert_eq!(summary.interfaces.len(), 65_536);
    assert_eq!((summary.packets.too_many_interfaces, summary.packets.segments), (4, 1));
    assert_eq!(summary.packets.skipped_blocks, 0);
    assert_eq!(summary.notes[0], "4 interfaces beyond the first 65536, whose packets were not read.");
    let list = "interface 0, interface 1, interface 2, interface 3, interface 4, interface 5, interface 6, interface 7, interface 8, interface 9 and 65526 more. ";
    assert!(summary.notes[1].contains(list), "{}", summary.notes[1]);
}

#[test]
fn the_name_of_an_interface_is_kept_up_to_255_bytes() {
    let mut file =
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let mut body = vec![101, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 4];
    body.extend([b'x'; 1024]);
    body.extend([0; 4]);
    file.extend(block(1, &body));
    let (summary, _) = analyse(&file);
    assert_eq!(summary.interfaces, ["x".repeat(255)]);
}

#[test]
fn a_compressed_file_that_expands_too_much_is_read_to_the_limit() {
    let mut file = pcap(101, &connection(40_000, 0, true));
    // Records without bytes: they compress to a hundredth.
    (0..400_000).for_each(|_| file.extend([0; 16]));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&file).expect("memory");
    let compressed = encoder.finish().expect("memory");
    assert!(compressed.len() * 100 < file.len(), "{}", compressed.len());
    let read = |most_expanded| {
        let mut reader = Reader::limited(&compressed[..], most_expanded).expect("a capture");
        let mut analysis = Analysis::new(AnalysisOptions::default());
        while analysis.read(&mut reader, 1000) {}
        let summary = analysis.summary(reader.interfaces());
        (summary.packets.packets, summary.flows.len(), summary.notes)
    };
    let (packets, flows, notes) = read(3_000_000);
    assert!((180_000..400_000).contains(&packets), "{packets}");
    assert_eq!(flows, 1);
    let why =
        "it expands to more than 3000000 bytes and 50 times its size; `--max-expanded` raises the limit";
    assert!(notes[0].contains(why), "{notes:?}");
    assert_eq!(read(10_000_000).0, 400_006);
    assert!(!read(10_000_000).2.iter().any(|note| note.contains("expands")));
    // Plain files have no limit, and neither has one that is a fiftieth.
    let mut reader = Reader::limited(&file[..], 100).expect("a capture");
    let mut analysis = Analysis::new(AnalysisOptions::default());
    while analysis.read(&mut reader, 1000) {}
    assert_eq!(analysis.counts.packets, 400_006);
}
