//! Tests of the receiver without a connection.

use super::*;
use crate::Profile;
use crate::log::Log;

fn receiver(profile: Profile) -> Receiver {
    let mut receiver = Receiver::new(&Config::profile(profile));
    receiver.agreed(7, 1000, true, Echo::Off);
    receiver
}

fn arrival(span: Span, rtt: Dur) -> Arrival {
    Arrival {
        span,
        fin: false,
        push: false,
        cwr: false,
        ecn: Ecn::NotEct,
        rtt: Some(rtt),
        rto: Dur::from_secs(1),
        header: 32,
        closing: false,
    }
}

#[test]
fn linux_measures_round_trips_by_segments_out_of_order_and_by_duplicates() {
    let ms = Dur::from_millis;
    for (profile, measured) in
        [(Profile::Linux, [ms(80), ms(60), ms(40)]), (Profile::FreeBsd, [Dur::ZERO, ms(60), ms(60)])]
    {
        let mut r = receiver(profile);
        let log = &mut Log::default();
        let got = [(2001..3001, ms(80)), (1..1001, ms(60)), (1..1001, ms(40))].map(|(span, rtt)| {
            r.data(Time::ZERO, &arrival(span, rtt), log);
            r.window.rtt()
        });
        assert_eq!(got, measured, "{profile:?}");
    }
}
