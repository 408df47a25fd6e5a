//! New data, cumulative ACKs, the retransmission timer.

use super::*;

#[test]
fn the_initial_window_is_ten_segments_and_one_when_the_handshake_was_lost() {
    let mut r = Rig::new(&rfc());
    assert_eq!(r.write(20).len(), 10);
    let mut r = Rig::with(&rfc(), &Agreed { handshake_lost: true, rtt: None, ..agreed() });
    assert_eq!(r.write(20), [0]);
    // RFC 6298 section 5.7: 3 s until data give a sample.
    assert_eq!(r.wait(), Dur::from_secs(3));
}

#[test]
fn an_in_order_ack_releases_new_data_and_restarts_the_timer() {
    let mut r = Rig::new(&rfc());
    r.write(30);
    r.advance(ms(100));
    assert_eq!(r.ack(2), [10, 11, 12, 13]);
    assert_eq!(r.wait(), Dur::from_secs(1));
    assert_eq!(r.info().srtt, Some(ms(100)));
}

#[test]
fn the_timeout_doubles_each_time_and_an_ambiguous_ack_gives_no_sample() {
    let mut r = Rig::new(&rfc());
    assert_eq!(r.write(1), [0]);
    assert_eq!(r.wait(), Dur::from_secs(1));
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.wait(), Dur::from_secs(2));
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.wait(), Dur::from_secs(4));
    r.advance(ms(500));
    r.ack(1);
    assert_eq!(r.info().srtt, Some(ms(100)), "Karn: no sample of a retransmitted segment");
    assert_eq!(r.s.rto(), Dur::from_secs(4), "and the backoff stays until there is one");
    r.write(1);
    r.advance(ms(100));
    r.ack(2);
    assert_eq!(r.s.rto(), Dur::from_secs(1));
}
