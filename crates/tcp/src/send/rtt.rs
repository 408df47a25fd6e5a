//! Round-trip time and retransmission timeout.
//!
//! Sources: RFC 6298 (estimator, bounds, backoff); Linux `tcp_rtt_estimator` for [`RtoBounds::min_on_variance`]; FreeBSD `TCP_REXMTVAL`
//! and `TCPT_RANGESET` for [`RtoBounds::slop`]. In Linux the minimum applies to the variance, so that the RTO is never less than srtt +
//! min. Its variance is the largest deviation in a round trip, and decreases only once in each round trip.
//!
//! The clock's granularity G is taken as zero, its ticks being nanoseconds; those of Linux are microseconds.

use crate::config::RtoBounds;
use crate::tick::TimerTicks;
use tcpassay_units::{Dur, Time};

/// An eighth of a microsecond, in nanoseconds.
const EIGHTH: u64 = 125;

/// Estimator and timeout.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    bounds: RtoBounds,
    ticks: TimerTicks,
    micros: bool,
    srtt: Option<Dur>,
    /// The same in eighths of a microsecond, in which Linux keeps it, if times are in microseconds.
    eighths: u64,
    /// The same, without its fraction of a microsecond if times are in microseconds.
    whole: Dur,
    /// Mean deviation.
    rttvar: Dur,
    /// Linux's filter, if it is in use.
    linux: Option<Deviation>,
    /// Timeout without backoff.
    base: Dur,
    /// Timeout in force.
    rto: Dur,
    /// Doublings in force.
    backoff: u32,
    /// Smallest sample of the connection.
    min: Option<Dur>,
    /// Last sample that entered the estimate, until a collector takes it.
    fresh: Option<Dur>,
    window: MinFilter,
}

impl Rtt {
    /// Nothing measured. `micros`: samples are whole microseconds, and the estimate is kept in eighths of one, as in Linux.
    pub fn new(bounds: RtoBounds, ticks: TimerTicks, micros: bool) -> Rtt {
        Rtt {
            micros,
            bounds,
            ticks,
            srtt: None,
            eighths: 0,
            whole: Dur::ZERO,
            rttvar: Dur::ZERO,
            linux: bounds.min_on_variance.then(|| Deviation { micros, ..Deviation::default() }),
            base: bounds.initial,
            rto: bounds.initial.min(bounds.max),
            backoff: 0,
            min: None,
            fresh: None,
            window: MinFilter::default(),
        }
    }

    /// The handshake was retransmitted and gave no sample: 3 s until data give one (RFC 6298 section 5.7).
    pub fn fall_back(&mut self) {
        self.base = self.base.max(Dur::from_secs(3)).min(self.bounds.max);
        self.settle();
    }

    /// RFC 6298 section 2; a sample ends the backoff (section 5). `una` and `nxt` show Linux's filter when a round trip
    /// has passed.
    #[inline]
    pub fn sample(&mut self, r: Dur, una: u64, nxt: u64) {
        if let Some(linux) = &mut self.linux {
            linux.sample(self.srtt.map(|_| self.whole), r, self.bounds.min, una, nxt);
        }
        self.fresh = Some(r);
        let srtt = match self.srtt {
            None => {
                self.rttvar = r / 2;
                (self.eighths, self.whole) = (r.as_nanos() / EIGHTH, whole(r, self.micros));
                r
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(r)) / 4;
                if self.micros {
                    self.smooth(r)
                } else {
                    self.whole = (srtt * 7 + r) / 8;
                    self.whole
                }
            }
        };
        self.srtt = Some(srtt);
        let rto = match &self.linux {
            Some(linux) => self.whole + linux.rttvar,
            None => (srtt + self.rttvar * 4).max(self.bounds.min),
        } + self.bounds.slop;
        self.base = self.ticks.round_up_after(rto.min(self.bounds.max), self.base);
        self.rto = self.base;
        self.backoff = 0;
    }

    /// `srtt_us` of Linux after a further sample.
    #[inline]
    fn smooth(&mut self, r: Dur) -> Dur {
        self.eighths = (self.eighths - self.eighths / 8 + r.as_micros()).max(1);
        self.whole = Dur::from_micros(self.eighths / 8);
        Dur::from_nanos(self.eighths * EIGHTH)
    }

    /// Other bounds from now on.
    pub fn set_bounds(&mut self, bounds: RtoBounds) {
        self.bounds = bounds;
        self.settle();
    }

    /// An unambiguous round trip, for the minimum.
    #[inline]
    pub fn observe_min(&mut self, now: Time, r: Dur) {
        self.min = Some(self.min.map_or(r, |m| m.min(r)));
        self.window.update(now, r);
    }

    /// Smallest sample of the last five minutes (Linux `tcp_min_rtt_wlen`), which RACK measures reordering with.
    pub fn windowed_min(&self) -> Option<Dur> {
        self.window.get()
    }

    /// Smoothed round-trip time, once measured.
    #[inline]
    pub fn srtt(&self) -> Option<Dur> {
        self.srtt
    }

    /// Mean deviation of the round-trip time.
    pub fn rttvar(&self) -> Dur {
        self.rttvar
    }

    /// Smallest sample of the connection.
    #[inline]
    pub fn min(&self) -> Option<Dur> {
        self.min
    }

    /// How often the timeout was doubled since the last sample.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The last sample, if it was not taken before.
    pub fn take_sample(&mut self) -> Option<Dur> {
        self.fresh.take()
    }

    /// The timeout in force.
    #[inline]
    pub fn rto(&self) -> Dur {
        self.rto
    }

    fn settle(&mut self) {
        self.rto = self.base.saturating_mul(1 << self.backoff.min(32)).min(self.bounds.max);
    }

    /// RFC 6298 section 5.5.
    pub fn back_off(&mut self) {
        self.backoff += 1;
        self.settle();
    }
}

/// A time without its fraction of a microsecond, if times are in `micros`.
fn whole(time: Dur, micros: bool) -> Dur {
    if micros { Dur::from_micros(time.as_micros()) } else { time }
}

/// The deviation as Linux filters it (`mdev_us`, `mdev_max_us`, `rttvar_us`; each four times a mean deviation).
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    micros: bool,
    mdev: Dur,
    most: Dur,
    rttvar: Dur,
    edge: u64,
}

impl Deviation {
    #[inline]
    fn sample(&mut self, srtt: Option<Dur>, r: Dur, min: Dur, una: u64, nxt: u64) {
        let Some(srtt) = srtt else {
            self.mdev = r * 2;
            self.rttvar = self.mdev.max(min);
            self.most = self.rttvar;
            self.edge = nxt;
            return;
        };
        let error = srtt.abs_diff(r);
        let quarter = whole(self.mdev / 4, self.micros);
        if error <= quarter {
            self.mdev -= quarter - error;
        } else if r < srtt {
            // A shorter round-trip time increases the deviation with an eighth of the gain.
            self.mdev += whole((error - quarter) / 8, self.micros);
        } else {
            self.mdev += error - quarter;
        }
        self.most = self.most.max(self.mdev);
        self.rttvar = self.rttvar.max(self.most);
        if una > self.edge {
            self.rttvar -= whole(self.rttvar.saturating_sub(self.most) / 4, self.micros);
            self.edge = nxt;
            self.most = min;
        }
    }
}

/// The minimum over a sliding window, by three samples (Kathleen Nichols' filter, Linux `lib/win_minmax.c`); before the
/// first sample all are [`Dur::MAX`].
#[derive(Clone, Copy, Debug)]
struct MinFilter {
    best: [(Time, Dur); 3],
}

const WINDOW: Dur = Dur::from_secs(300);

impl Default for MinFilter {
    fn default() -> MinFilter {
        MinFilter { best: [(Time::ZERO, Dur::MAX); 3] }
    }
}

impl MinFilter {
    #[inline]
    fn update(&mut self, now: Time, r: Dur) {
        let new = (now, r);
        let [a, b, c] = &mut self.best;
        if r <= a.1 || now.since(c.0) > WINDOW {
            self.best = [new; 3];
            return;
        }
        if r <= b.1 {
            (*b, *c) = (new, new);
        } else if r <= c.1 {
            *c = new;
        }
        let age = now.since(a.0);
        if age <= WINDOW / 4 {
            return;
        }
        if age > WINDOW {
            self.best = [*b, *c, new];
        } else if b.0 == a.0 {
            (*b, *c) = (new, new);
        } else if c.0 == b.0 && age > WINDOW / 2 {
            *c = new;
        }
    }

    fn get(&self) -> Option<Dur> {
        let (_, min) = self.best[0];
        (min != Dur::MAX).then_some(min)
    }
}

/// FreeBSD's timing without timestamps (`t_rtttime`, `t_rtseq`): one segment after the other is timed, the first new one
/// since the last sample or retransmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentTimer {
    active: bool,
    /// The segment that begins here is timed.
    position: u64,
}

impl SegmentTimer {
    pub fn new(active: bool, position: u64) -> SegmentTimer {
        SegmentTimer { active, position }
    }

    #[inline]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Something was retransmitted: the next new segment, at `nxt`, is timed.
    #[inline]
    pub fn restart(&mut self, nxt: u64) {
        self.position = nxt;
    }

    /// An ACK of everything below `upto` arrived. `sent_at` finds out when a position was sent. Returns the sample, and times
    /// the next new segment, at `nxt`.
    pub fn on_ack(
        &mut self,
        now: Time,
        upto: u64,
        nxt: u64,
        sent_at: impl Fn(u64) -> Option<Time>,
    ) -> Option<Dur> {
        if !self.active || upto <= self.position {
            return None;
        }
        let sent = sent_at(self.position);
        self.position = nxt;
        sent.map(|at| now.since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Dur {
        Dur::from_millis(n)
    }

    fn bounds() -> RtoBounds {
        RtoBounds {
            initial: Dur::from_secs(1),
            min: ms(1),
            slop: Dur::ZERO,
            max: Dur::from_secs(60),
            min_on_variance: false,
        }
    }

    #[test]
    fn the_first_sample_sets_srtt_and_half_of_it_as_variance() {
        let mut rtt = Rtt::new(bounds(), TimerTicks::Off, false);
        assert_eq!(rtt.rto(), Dur::from_secs(1));
        rtt.sample(ms(400), 1, 1);
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(400)), ms(200), ms(1200)));
        rtt.sample(ms(800), 1, 1);
        // rttvar = 3/4 200 + 1/4 400, srtt = 7/8 400 + 1/8 800.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(450)), ms(250), ms(1450)));
    }

    #[test]
    fn the_timeout_doubles_up_to_its_maximum_and_a_sample_ends_the_backoff() {
        let mut rtt = Rtt::new(RtoBounds { max: Dur::from_secs(3), ..bounds() }, TimerTicks::Off, false);
        rtt.back_off();
        assert_eq!((rtt.rto(), rtt.backoff()), (Dur::from_secs(2), 1));
        rtt.back_off();
        assert_eq!((rtt.rto(), rtt.backoff()), (Dur::from_secs(3), 2));
        rtt.sample(ms(100), 1, 1);
        assert_eq!((rtt.rto(), rtt.backoff()), (ms(300), 0));
    }

    #[test]
    fn linux_puts_the_minimum_under_the_variance_and_rfc_6298_under_the_sum() {
        let bounds = RtoBounds { min: ms(200), ..bounds() };
        let mut rfc = Rtt::new(bounds, TimerTicks::Off, false);
        rfc.sample(ms(10), 1, 1);
        assert_eq!(rfc.rto(), ms(200));
        let mut linux = Rtt::new(RtoBounds { min_on_variance: true, ..bounds }, TimerTicks::Off, false);
        linux.sample(ms(10), 1, 1);
        assert_eq!(linux.rto(), ms(210));
    }

    #[test]
    fn linuxs_variance_is_the_worst_of_a_round_trip_and_falls_once_a_round_trip() {
        let mut rtt =
            Rtt::new(RtoBounds { min: ms(200), min_on_variance: true, ..bounds() }, TimerTicks::Off, false);
        rtt.sample(ms(100), 1, 1);
        assert_eq!(rtt.rto(), ms(300));
        // mdev 200 + (400 - 50) = 550, srtt 150.
        rtt.sample(ms(500), 1001, 1001);
        assert_eq!(rtt.rto(), ms(700));
        // mdev falls to 412.5; the variance comes a quarter of the way towards it.
        rtt.sample(ms(150), 2001, 2001);
        assert_eq!(rtt.rto(), ms(150) + Dur::from_micros(515_625));
    }

    #[test]
    fn linux_smooths_in_eighths_of_a_microsecond_and_drops_fractions() {
        let us = Dur::from_micros;
        let mut rtt = Rtt::new(RtoBounds { min_on_variance: true, ..bounds() }, TimerTicks::Off, true);
        rtt.sample(us(1001), 1, 1);
        rtt.sample(us(1002), 1, 1);
        // `srtt_us` is 8008 - 8008 / 8 + 1002 = 8009, `mdev_us` is 2002 + 1 - 2002 / 4 = 1503.
        assert_eq!(rtt.srtt(), Some(Dur::from_nanos(1_001_125)));
        rtt.sample(us(900), 1, 1);
        // 8009 - 8009 / 8 + 900 = 7908.
        assert_eq!(rtt.srtt(), Some(Dur::from_nanos(988_500)));
    }

    #[test]
    fn with_ticks_the_timeout_is_a_whole_number_of_ticks() {
        // `icsk_rto` counts ticks.
        let bounds = RtoBounds { min: ms(200), min_on_variance: true, ..bounds() };
        let mut rtt = Rtt::new(bounds, TimerTicks::Linux, false);
        rtt.sample(Dur::from_micros(10_200), 1, 1);
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(Dur::from_micros(10_200)), ms(211)));
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(422));
    }

    #[test]
    fn freebsd_adds_its_slop_to_the_bounded_timeout() {
        let bounds = RtoBounds { min: ms(30), slop: ms(200), ..bounds() };
        let rto = |sample| {
            let mut rtt = Rtt::new(bounds, TimerTicks::Off, false);
            rtt.sample(sample, 1, 1);
            rtt.rto()
        };
        // srtt + 4 rttvar is three times the first sample.
        assert_eq!(rto(ms(100)), ms(500));
        assert_eq!(rto(ms(1)), ms(230));
    }

    #[test]
    fn the_windowed_minimum_forgets_after_five_minutes_and_the_minimum_does_not() {
        let mut rtt = Rtt::new(bounds(), TimerTicks::Off, false);
        let at = |s| Time::ZERO + Dur::from_secs(s);
        rtt.observe_min(at(1), ms(10));
        rtt.observe_min(at(200), ms(30));
        assert_eq!(rtt.windowed_min(), Some(ms(10)));
        rtt.observe_min(at(400), ms(20));
        assert_eq!((rtt.windowed_min(), rtt.min()), (Some(ms(20)), Some(ms(10))));
    }

    #[test]
    fn freebsd_times_one_segment_at_a_time() {
        let at = |n| Time::ZERO + ms(n);
        let mut timer = SegmentTimer::new(true, 1);
        let sent_at = |_| Some(at(5));
        assert_eq!(timer.on_ack(at(100), 1, 5001, sent_at), None, "the timed byte is not acknowledged");
        assert_eq!(timer.on_ack(at(105), 1001, 5001, sent_at), Some(ms(100)));
        assert_eq!(
            timer.on_ack(at(110), 5001, 9001, sent_at),
            None,
            "the next sample is of a segment sent later"
        );
        assert_eq!(timer.on_ack(at(115), 5002, 9001, sent_at), Some(ms(110)));
        timer.restart(20_001);
        assert_eq!(timer.on_ack(at(120), 9002, 21_001, sent_at), None, "a retransmission restarts it");
    }

    #[test]
    fn a_sample_is_taken_once() {
        let mut rtt = Rtt::new(bounds(), TimerTicks::Off, false);
        rtt.sample(ms(7), 1, 1);
        assert_eq!(rtt.take_sample(), Some(ms(7)));
        assert_eq!(rtt.take_sample(), None);
    }
}
