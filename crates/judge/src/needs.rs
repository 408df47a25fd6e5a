//! What an oracle needs from the log of a connection end, and what the log of a capture lacks.

use std::borrow::Cow;
use tcpassay_measure::EventKind;
use tcpassay_units::Dur;

/// A property of the log of one end of a connection that an oracle needs. The log of a run has all of them except [`Need::Headers`], and
/// [`Need::Event`] where its stack does not log these events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Rows of this kind, which are written when the event happens.
    Event(EventKind),
    /// Segments of both directions.
    BothDirections,
    /// Both SYNs with their options: the positions of the streams, the scales of the windows, and what was negotiated are known.
    Handshake,
    /// Every packet of the connection: none was missed by the capture, or could not be decoded.
    EveryPacket,
    /// Each packet once: without copies, as mirror ports and captures of several interfaces make them.
    NoCopies,
    /// The order and the times in which this end sent and received: the capture was taken there.
    AtEnd,
    /// All fields of the TCP header. An event log has one of the two timestamps of a segment, and of its other options only SACK.
    Headers,
}

impl Need {
    /// The need in a few words, for lists of oracles.
    pub fn text(self) -> String {
        match self {
            Need::Event(kind) => format!("the events `{}`", kind.name()),
            Need::BothDirections => "both directions".to_owned(),
            Need::Handshake => "the handshake".to_owned(),
            Need::EveryPacket => "every packet".to_owned(),
            Need::NoCopies => "no copies of packets".to_owned(),
            Need::AtEnd => "a capture that was taken at the end that is judged".to_owned(),
            Need::Headers => "a capture, or the captured packets of a run with another TCP than the model (an event log does not contain all fields of headers)".to_owned(),
        }
    }
}

/// What the log of one end of a captured connection is and what it lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndLog {
    /// The properties that it lacks, each with the reason.
    pub lacks: Vec<(Need, Cow<'static, str>)>,
    /// The first position of the stream that this end sends: 1, or a large number for a capture that begins after the SYN.
    pub first: u64,
    /// The shortest time in which this end answered, as the capture shows it; `None` if it never did.
    pub answers_in: Option<Dur>,
}

impl EndLog {
    /// Why an oracle with these needs cannot judge this end; `None` if it can.
    pub fn lack(&self, needs: &[Need]) -> Option<Cow<'static, str>> {
        needs.iter().find_map(|need| match need {
            Need::Event(kind) => Some(format!("a capture has no events `{}`", kind.name()).into()),
            need => self.lacks.iter().find(|(lack, _)| lack == need).map(|(_, why)| why.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_need_that_a_log_lacks_is_the_reason() {
        let log = EndLog {
            lacks: vec![(Need::Handshake, "no handshake".into()), (Need::AtEnd, "in between".into())],
            ..EndLog::default()
        };
        assert_eq!(log.lack(&[Need::BothDirections, Need::EveryPacket]), None);
        assert_eq!(log.lack(&[Need::EveryPacket, Need::AtEnd]).as_deref(), Some("in between"));
        assert_eq!(
            log.lack(&[Need::Event(EventKind::Window), Need::AtEnd]).as_deref(),
            Some("a capture has no events `window`")
        );
    }
}
