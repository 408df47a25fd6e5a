use super::*;
use crate::config::Profile;

fn at(ms: u64) -> Time {
    Time::ZERO + Dur::from_millis(ms)
}

fn fixed(size: u64) -> Config {
    Config { send_buffer: Some(Bytes::new(size)), ..Config::profile(Profile::Rfc) }
}

fn queue(size: u64) -> SendBuffer {
    let skbs = Skbs { overhead: Bytes::new(500), headers: Bytes::new(192), initial: Bytes::new(16_384) };
    SendBuffer::new(&Config { skbs: Some(skbs), ..fixed(size) })
}

fn step(bytes: u64) -> WriteStep {
    WriteStep { now: at(0), bytes, first: true, more: false, goal: 4000, largest_window: 1 << 20 }
}

const NOTHING_SENT: Progress = Progress { una: 1, nxt: 1, records: 0 };

#[test]
fn a_stream_takes_what_fits_beside_the_unacknowledged() {
    let mut buffer = SendBuffer::new(&fixed(10_000));
    assert_eq!(buffer.write(at(0), 8000, 1, 1), 8000);
    assert_eq!(buffer.write(at(0), 8000, 1, 8001), 2000);
    assert_eq!(buffer.writable(4001, 10_001), 4000);
    assert!(!buffer.has_room(&Progress { una: 3001, nxt: 10_001, records: 7 }), "less than a third is free");
    assert!(buffer.has_room(&Progress { una: 4001, nxt: 10_001, records: 6 }));
    buffer.finish();
    assert_eq!(
        (buffer.writable(10_001, 10_001), buffer.has_new(10_001), buffer.has_new(10_002)),
        (0, true, false)
    );
}

#[test]
fn notsent_lowat_bounds_what_is_unsent() {
    let mut buffer = SendBuffer::new(&fixed(10_000));
    buffer.set_notsent_lowat(Some(Bytes::new(3000)));
    assert_eq!(buffer.write(at(0), 8000, 1, 1), 3000);
    assert_eq!(buffer.writable(1, 1001), 1000);
}

#[test]
fn an_autotuned_buffer_follows_twice_the_window_and_never_shrinks() {
    let cfg = Config { send_buffer: None, max_send_buffer: Bytes::new(150_000), ..fixed(1) };
    let mut buffer = SendBuffer::new(&cfg);
    assert_eq!(buffer.size(), 65_536);
    buffer.follow_window(50_000);
    assert_eq!(buffer.size(), 100_000);
    buffer.follow_window(10_000);
    assert_eq!(buffer.size(), 100_000);
    buffer.follow_window(90_000);
    assert_eq!(buffer.size(), 150_000);
}

#[test]
fn a_step_fills_one_buffer_and_lets_the_first_leave_alone() {
    let mut buffer = queue(100_000);
    assert_eq!(buffer.write_step(&step(9000), &NOTHING_SENT), (4000, true));
    assert!(buffer.pushes_one());
    assert!(!buffer.pushes(4001), "the write goes on");
    buffer.after_transmission();
    assert!(buffer.take_halt() && !buffer.take_halt());
    let sent = Progress { una: 1, nxt: 4001, records: 1 };
    let next = WriteStep { first: false, ..step(5000) };
    assert_eq!(buffer.write_step(&next, &sent), (4000, true));
    let sent = Progress { nxt: 8001, records: 2, ..sent };
    assert_eq!(buffer.write_step(&WriteStep { first: false, ..step(1000) }, &sent), (1000, true));
    assert!(buffer.pushes(9001), "the write ends");
}

#[test]
fn a_partial_buffer_waits_while_packets_wait_in_the_own_host() {
    // Linux `tcp_should_autocork`. A buffer costs 500 bytes more than its data.
    let sent = Progress { una: 1, nxt: 4001, records: 1 };
    for (below, outstanding, waits) in
        [(0, true, false), (1499, true, false), (1500, true, true), (1500, false, false)]
    {
        let mut buffer = queue(100_000);
        assert_eq!(buffer.write_step(&step(4000), &NOTHING_SENT), (4000, true));
        buffer.after_transmission();
        buffer.set_below(below);
        let progress = if outstanding { sent } else { Progress { una: 4001, ..sent } };
        assert_eq!(buffer.write_step(&step(1000), &progress), (1000, !waits), "{below}");
        assert_eq!((buffer.take_autocorked(), buffer.take_autocorked()), (waits, false));
    }
    // A write that fills the buffer is pushed.
    let mut buffer = queue(100_000);
    assert_eq!(buffer.write_step(&step(4000), &NOTHING_SENT), (4000, true));
    buffer.set_below(9000);
    assert_eq!(buffer.write_step(&step(1000), &sent), (1000, false));
    assert_eq!(buffer.write_step(&step(3000), &sent), (3000, true));
}

#[test]
fn a_write_that_reaches_a_known_position_takes_neither_more_nor_less() {
    let mut buffer = queue(4400);
    buffer.set_reaches(Some(10_001));
    let mut sent = Progress { una: 1, nxt: 1, records: 0 };
    let mut left = 20_000;
    for (taken, records) in [(4000, 1), (4000, 2), (2000, 3)] {
        assert_eq!(buffer.write_step(&WriteStep { first: left == 20_000, ..step(left) }, &sent).0, taken);
        left -= taken;
        buffer.after_transmission();
        sent = Progress { nxt: buffer.end(), records, ..sent };
    }
    assert_eq!(buffer.write_step(&WriteStep { first: false, ..step(left) }, &sent).0, 0);
    assert!(buffer.writer_waits(), "the log has a write that was not complete");
    assert!(buffer.set_reaches(None), "there was room for 4000 bytes");
    assert!(!buffer.set_reaches(None));
}

#[test]
fn a_full_queue_takes_nothing_and_wakes_the_writer_when_a_third_is_free() {
    let mut buffer = queue(4400);
    assert_eq!(buffer.write_step(&step(4000), &NOTHING_SENT), (4000, true));
    let sent = Progress { una: 1, nxt: 4001, records: 1 };
    assert_eq!(buffer.write_step(&step(4000), &sent), (0, false));
    assert!(buffer.writer_waits());
    assert!(!buffer.wake_writer(at(0), &sent));
    let acked = Progress { una: 2001, nxt: 4001, records: 1 };
    assert!(buffer.wake_writer(at(0), &acked));
    assert!(!buffer.wake_writer(at(0), &acked), "it does not wait any more");
}

#[test]
fn a_record_shares_no_segment_with_what_follows() {
    let mut buffer = SendBuffer::new(&fixed(10_000));
    buffer.write(at(0), 700, 1, 1);
    buffer.end_record(1);
    buffer.write(at(0), 900, 1, 1);
    assert_eq!(buffer.record_end(1), Some(701));
    assert!(buffer.pushes(701) && buffer.is_closed());
    assert_eq!(buffer.record_end(701), None);
}

#[test]
fn busy_time_ends_when_everything_is_acknowledged() {
    let mut buffer = SendBuffer::new(&fixed(10_000));
    buffer.write(at(10), 1000, 1, 1);
    buffer.on_all_acked(at(15), 1);
    assert_eq!(buffer.times(at(20)).0, Dur::from_millis(10), "unsent data remain");
    buffer.on_all_acked(at(30), 1001);
    assert_eq!(buffer.times(at(99)).0, Dur::from_millis(20));
}

#[test]
fn a_buffer_that_is_divided_keeps_its_push_in_the_second_part_which_a_write_fills() {
    let mut buffer = queue(20_000);
    assert_eq!(buffer.write_step(&step(3000), &NOTHING_SENT), (3000, true));
    buffer.split(1001);
    assert_eq!((buffer.record_end(1), buffer.pushes(1001)), (Some(1001), false));
    // The second part has 2000 bytes and room for 2000 more.
    assert_eq!(buffer.write_step(&step(2000), &NOTHING_SENT), (2000, true));
    assert_eq!((buffer.record_end(1001), buffer.pushes(5001)), (Some(5001), true));
    assert_eq!(buffer.written(), (5001, 5001, 1, true));
}

#[test]
fn the_first_buffer_is_filled_from_the_next_one_whose_push_it_takes_only_with_its_end() {
    // `tcp_grow_skb`.
    let mut buffer = queue(100_000);
    buffer.write_step(&step(4000), &NOTHING_SENT);
    buffer.write_step(&step(4000), &NOTHING_SENT);
    buffer.write_step(&step(4000), &NOTHING_SENT);
    buffer.split(1001);
    buffer.fill_front(1, 2000);
    assert_eq!((buffer.record_end(1), buffer.pushes(2001)), (Some(2001), false));
    buffer.fill_front(1, 9000);
    assert_eq!((buffer.record_end(1), buffer.pushes(4001)), (Some(4001), true), "not from a third one");
    buffer.fill_front(1, 9000);
    assert_eq!(buffer.record_end(1), Some(8001));
    assert_eq!(buffer.record_end(4001), Some(8001), "a part of it was sent");
    buffer.fill_front(4001, 6000);
    assert_eq!((buffer.record_end(4001), buffer.pushes(10_001)), (Some(10_001), true), "its own push stays");
    assert_eq!(buffer.written(), (12_001, 12_001, 2, true));
}

#[test]
fn nothing_follows_the_end_of_a_record_into_a_buffer_that_is_filled() {
    let mut buffer = queue(100_000);
    buffer.write_step(&step(3000), &NOTHING_SENT);
    buffer.end_record(1);
    buffer.write_step(&step(4000), &NOTHING_SENT);
    buffer.fill_front(1, 9000);
    assert_eq!(buffer.record_end(1), Some(3001));
}

#[test]
fn a_writer_without_room_marks_only_what_was_not_sent() {
    // `tcp_push` with an empty queue.
    let mut buffer = queue(4000);
    buffer.write_step(&step(9000), &NOTHING_SENT);
    let next = WriteStep { first: false, ..step(5000) };
    let sent = Progress { una: 1, nxt: 4001, records: 1 };
    assert_eq!(buffer.write_step(&next, &sent).0, 0);
    assert_eq!(buffer.written(), (4001, 1, 0, false));
    let mut waits = queue(4000);
    waits.write_step(&step(9000), &NOTHING_SENT);
    assert_eq!(waits.write_step(&next, &NOTHING_SENT).0, 0);
    assert_eq!(waits.written(), (4001, 4001, 1, true));
}
