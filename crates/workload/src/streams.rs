//! Several streams on one connection: their messages are cut into frames, and each frame is answered.
//!
//! Only the sender knows to which message a frame belongs, as messages have no content. Frames have one size, so that the receiver can
//! answer each without knowing more: a message is complete when its last frame is answered.

use crate::error::ValueError;
use std::collections::VecDeque;
use tcpassay_units::{Bytes, Time};

/// Bytes of a frame: the initial maximum of HTTP/2 (RFC 9113 section 4.2). Messages are rounded up to whole frames.
pub(crate) const FRAME: u64 = 16_384;

/// Which message has the next frame (`app.order`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FrameOrder {
    /// The oldest one: messages follow each other.
    #[default]
    Fifo,
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest frames left; the oldest of several.
    Shortest,
}

impl FrameOrder {
    pub(crate) fn parse(text: &str) -> Result<FrameOrder, ValueError> {
        match text {
            "fifo" => Ok(FrameOrder::Fifo),
            "round-robin" => Ok(FrameOrder::RoundRobin),
            "shortest" => Ok(FrameOrder::Shortest),
            _ => Err(ValueError::new("there is no such order", "fifo, round-robin, shortest")),
        }
    }
}

/// A message of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    id: u64,
    pub start: Time,
    pub asks: u64,
    /// Bytes of the answers to all its frames.
    pub answers: u64,
    unwritten: u64,
    unanswered: u64,
}

/// The messages in progress on a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    messages: Vec<Message>,
    /// For each frame that was written and is not answered: its message, and the bytes of the answer that are missing.
    frames: VecDeque<(u64, u64)>,
    /// Messages so far.
    count: u64,
    /// The message of the last frame.
    last: Option<u64>,
}

impl Streams {
    /// A message begins; `response`: the answer to a frame.
    pub fn begin(&mut self, start: Time, request: Bytes, response: Bytes) {
        let frames = request.get().div_ceil(FRAME).max(1);
        self.messages.push(Message {
            id: self.count,
            start,
            asks: frames * FRAME,
            answers: frames * response.get(),
            unwritten: frames,
            unanswered: frames,
        });
        self.count += 1;
    }

    /// Messages that are not completely answered.
    pub fn outstanding(&self) -> usize {
        self.messages.len()
    }

    /// Whether a frame can be written.
    pub fn has_frame(&self) -> bool {
        self.messages.iter().any(|message| message.unwritten > 0)
    }

    /// The next frame is to be written. Returns its bytes; `None` if every message is written.
    pub fn next_frame(&mut self, order: FrameOrder, response: u64) -> Option<u64> {
        let last = self.last;
        let left = self.messages.iter_mut().filter(|message| message.unwritten > 0);
        let next = match order {
            FrameOrder::Fifo => left.min_by_key(|message| message.id),
            FrameOrder::RoundRobin => {
                left.min_by_key(|message| (last.is_some_and(|last| message.id <= last), message.id))
            }
            FrameOrder::Shortest => left.min_by_key(|message| (message.unwritten, message.id)),
        }?;
        next.unwritten -= 1;
        self.last = Some(next.id);
        self.frames.push_back((next.id, response));
        Some(FRAME)
    }

    /// Bytes of answers arrived. Returns the messages that are complete.
    pub fn answered(&mut self, mut bytes: u64) -> Vec<Message> {
        let mut complete = Vec::new();
        while let (true, Some((id, left))) = (bytes > 0, self.frames.front_mut()) {
            let taken = bytes.min(*left);
            (*left, bytes) = (*left - taken, bytes - taken);
            if *left > 0 {
                break;
            }
            let place =
                self.messages.iter().position(|message| message.id == *id).expect("it is in progress");
            self.frames.pop_front();
            let message = &mut self.messages[place];
            message.unanswered -= 1;
            if message.unanswered == 0 {
                complete.push(self.messages.remove(place));
            }
        }
        complete
    }

    /// The connection failed. Returns the messages in progress.
    pub fn fail(&mut self) -> Vec<Message> {
        self.frames.clear();
        std::mem::take(&mut self.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of three frames, one frame and two frames; the last one begins when three frames were written. Returns the messages in the
    /// order of their frames, and in that in which they are complete.
    fn order(order: FrameOrder) -> (Vec<u64>, Vec<u64>) {
        let mut streams = Streams::default();
        let begin = |streams: &mut Streams, frames: u64| {
            streams.begin(Time::ZERO, Bytes::new(frames * FRAME), Bytes::new(10));
        };
        begin(&mut streams, 3);
        begin(&mut streams, 1);
        let mut written = 0;
        while streams.next_frame(order, 10).is_some() {
            written += 1;
            if written == 3 {
                begin(&mut streams, 2);
            }
        }
        let frames = streams.frames.iter().map(|frame| frame.0).collect();
        let complete = (0..12).flat_map(|_| streams.answered(5)).map(|message| message.id).collect();
        assert_eq!(streams.outstanding(), 0);
        (frames, complete)
    }

    #[test]
    fn frames_follow_the_order_and_a_message_is_complete_with_the_answer_to_its_last_frame() {
        assert_eq!(order(FrameOrder::Fifo), (vec![0, 0, 0, 1, 2, 2], vec![0, 1, 2]));
        assert_eq!(order(FrameOrder::RoundRobin), (vec![0, 1, 0, 2, 0, 2], vec![1, 0, 2]));
        assert_eq!(order(FrameOrder::Shortest), (vec![1, 0, 0, 0, 2, 2], vec![1, 0, 2]));
    }
}
