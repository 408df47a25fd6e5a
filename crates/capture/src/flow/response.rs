//! Response time of one end of a connection, measured at the capture point: path to the end, processing, and
//! path back.

use tcpassay_units::{Dur, Time};

/// The smallest time from a packet that passes towards an end to the packet that answers it.
///
/// It is measured in the handshake, by ACKs of data, and by echoed timestamps (RFC 7323). The time from the capture
/// point to the end and back is at most this time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Response {
    least: Option<Dur>,
    /// The last plausible measurement by an echoed timestamp, which contains the queues of this moment.
    recent: Option<Dur>,
    /// A timestamp value that passed towards the end for the first time, and when.
    watched: Option<Watched>,
    /// The largest value that passed towards the end.
    newest: Option<u32>,
}

/// A packet towards the end whose timestamp the end will echo.
#[derive(Clone, Copy, Debug)]
struct Watched {
    value: u32,
    at: Time,
    /// It has data, a SYN or a FIN, which must be acknowledged: the answer does not wait for the application.
    due: bool,
}

impl Response {
    /// The smallest response time.
    pub fn least(&self) -> Option<Dur> {
        self.least
    }

    /// The response time of the last measurement, or the smallest one.
    pub fn now(&self) -> Option<Dur> {
        self.recent.or(self.least)
    }

    /// Timestamps passed towards the end.
    pub fn has_stamps(&self) -> bool {
        self.newest.is_some()
    }

    /// The largest timestamp that passed towards the end.
    pub fn newest(&self) -> Option<u32> {
        self.newest
    }

    /// A measurement.
    pub fn sample(&mut self, time: Dur) {
        self.least = Some(self.least.map_or(time, |least| if time < least { time } else { least }));
    }

    /// A timestamp value passes towards the end, in a segment that must be acknowledged (`due`) or not.
    pub fn towards(&mut self, value: u32, at: Time, due: bool) {
        let newer = self.newest.is_none_or(|newest| value.wrapping_sub(newest).cast_signed() > 0);
        if newer {
            self.newest = Some(value);
            if self.watched.is_none() {
                self.watched = Some(Watched { value, at, due });
            }
        }
    }

    /// A timer of the end sent the echo: it is no measurement.
    pub fn give_up(&mut self) {
        self.watched = None;
    }

    /// The end echoes a value; `silence` is the time since its last packet before. A sender that had nothing to send echoes late, which
    /// the silence shows: then only the smallest time is updated, and it does not begin with such a time.
    pub fn echoed(&mut self, value: u32, at: Time, silence: Dur) {
        let Some(watched) = self.watched else { return };
        let ahead = value.wrapping_sub(watched.value).cast_signed();
        if ahead < 0 {
            return;
        }
        self.watched = None;
        if ahead > 0 {
            return;
        }
        let time = at.since(watched.at);
        if self.least.is_none() && !watched.due && silence >= time {
            return;
        }
        self.sample(time);
        let least = self.least.unwrap_or(time);
        let patience = least.saturating_add(least / 2).saturating_add(Dur::from_millis(1));
        self.recent = (silence <= patience).then_some(time).or(self.recent);
    }
}
