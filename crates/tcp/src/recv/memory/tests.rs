use super::*;

#[test]
fn a_packet_costs_its_pages_and_structures() {
    // One byte: the small head; 1000 bytes: 2 KiB; 4000, 10000 and 20000: a page and the rest in pages.
    assert_eq!(cost(41), (640 + 256, 320 - 64 - 41));
    assert_eq!(cost(1040).0, 2048 + 256);
    assert_eq!(cost(4040).0, 4096 + 256 + 4096);
    assert_eq!(cost(10_040).0, 4096 + 256 + 8192);
    assert_eq!(cost(20_040).0, 4096 + 256 + 16_384);
    assert_eq!(cost(60_040).0, 4096 + 256 + 32_768 + 16_384 + 8192);
}

fn memory(size: u64) -> Memory {
    let (size, max) = (Bytes::new(size), Bytes::new(15 << 20));
    let ip = Bytes::new(20);
    let gso = Some(Bytes::new(1000));
    Memory::new(
        Time::ZERO,
        RecvMemory {
            size,
            max,
            ip,
            gso,
            locked: true,
            shrink: false,
            passive: false,
            rules: MemoryRules::Measured,
            buffer: None,
            pages: PacketPages::Sender,
        },
        18_980,
        1460,
        true,
        true,
    )
}

#[test]
fn a_segment_is_reserved_and_a_packet_of_20000_bytes_leaves_18_of_1000() {
    let mut m = memory(40_000);
    assert_eq!((m.clamp, m.threshold), (18_540, 18_540));
    m.weigh(20_000, 20_736, 536);
    m.append(QueuedBuffer { start: 1, end: 20_001, cost: 20_736, room: 0 });
    assert_eq!(m.ratio, 246);
    assert_eq!(m.select(0, 1000, 18_980), (18_000, true));
    m.append(QueuedBuffer { start: 20_001, end: 40_001, cost: 20_736, room: 0 });
    assert_eq!(m.select(0, 1000, 18_000), (0, true));
    assert!(!m.has_place());
}

#[test]
fn the_window_is_zero_below_a_sixteenth_of_the_buffer_and_below_a_segment() {
    // 20,000 B of window, of which a sixteenth is 1250.
    let mut m = memory(40_000);
    for (used, mss, window) in
        [(37_500, 536, 1072), (37_502, 536, 0), (37_000, 1460, 1460), (37_100, 1460, 0)]
    {
        m.used = used;
        assert_eq!(m.select(0, mss, 0), (window, true), "{used} B are used");
    }
}

#[test]
fn small_packets_are_copied_into_the_room_of_the_last() {
    let mut m = memory(40_000);
    let (cost, room) = cost(140);
    m.append(QueuedBuffer { start: 1, end: 101, cost, room });
    m.append(QueuedBuffer { start: 101, end: 201, cost, room });
    assert_eq!(m.used, 896);
    m.append(QueuedBuffer { start: 201, end: 301, cost, room });
    assert_eq!(m.used, 1792);
    m.read(Time::ZERO, 201, 301, Dur::ZERO);
    assert_eq!(m.used, 896);
}

#[test]
fn of_one_call_only_the_first_buffer_counts_as_read_in_a_round_trip() {
    let cfg = RecvMemory {
        size: Bytes::new(131_072),
        max: Bytes::new(6 << 20),
        locked: false,
        rules: MemoryRules::Half,
        buffer: Some(Bytes::new(768)),
        pages: PacketPages::Sender,
        ..memory(131_072).cfg
    };
    let mut m = Memory::new(Time::ZERO, cfg, 65_000, 1000, true, true);
    for start in [1, 16_001, 32_001] {
        m.append(QueuedBuffer { start, end: start + 16_000, cost: 16_768, room: 0 });
    }
    let ms = |n| Time::ZERO + Dur::from_millis(n);
    m.read(ms(10), 40_001, 48_001, Dur::from_millis(1));
    // 2 * 16,000 and 16 segments; 2 * 48,000 * (16,000 - 10,000) / 10,000 more: 105 segments of 2024.
    assert_eq!((m.size, m.from, m.used), (212_520, 16_001, 16_768));
    // What is left of the third buffer, and all that was read since the measurement.
    m.read(ms(20), 48_001, 48_001, Dur::from_millis(1));
    assert_eq!((m.space, m.from, m.used), (32_000, 48_001, 0));
}

#[test]
fn a_packet_from_a_ring_has_a_fragment_for_each_page_of_its_frame() {
    // 108 bytes before the payload; pages of 4096 bytes.
    assert_eq!([1448, 3988, 3989, 8948].map(ring_pages), [1, 1, 2, 3]);
    let mut cfg = memory(40_000).cfg;
    cfg.buffer = Some(Bytes::new(768));
    let fragments = |pages, start, len| {
        Memory::new(Time::ZERO, RecvMemory { pages, ..cfg }, 65_000, 1448, true, true).fragments(start, len)
    };
    // A segment across the end of an area of the sender is in two, from a ring in one.
    assert_eq!(fragments(PacketPages::Sender, 32_001, 1448), 2);
    assert_eq!(fragments(PacketPages::Ring, 32_001, 1448), 1);
    assert_eq!(fragments(PacketPages::Ring, 1, 2896), 2);
}

#[test]
fn a_round_trip_of_less_than_a_millisecond_adds_its_share_to_the_buffer() {
    let sized = |rtt: Dur| {
        let cfg = RecvMemory {
            size: Bytes::new(20_000),
            max: Bytes::new(32 << 20),
            locked: false,
            buffer: Some(Bytes::new(832)),
            ..memory(20_000).cfg
        };
        let mut m = Memory::new(Time::ZERO, cfg, 65_000, 1000, true, true);
        m.rtt = rtt;
        m.tune(16_000, 0);
        (m.space, m.size)
    };
    // Half of a buffer is window at first: 32,000 and a fifth of it; from 1 ms on 2 * 32,000 * (16,000 - 9,000) / 9,000.
    assert_eq!(sized(Dur::from_micros(200)), (16_000, 76_800));
    assert_eq!(sized(Dur::from_millis(1)), (16_000, 163_554));
}
