//! Frames between a run and the process of a stack. docs/stacks.md describes them for authors of adapters.
//!
//! A frame is its length in 4 bytes and its content. All numbers are little-endian. Each request has one answer.

use crate::{Drained, Shown, ShownTimer, SocketId, SocketStatus};
use std::net::{Ipv4Addr, SocketAddrV4};
use tcpassay_units::{Dur, Time};

/// The version of this protocol.
pub const VERSION: u32 = 1;
/// The largest frame in bytes: a burst of packets through a window of many megabytes fits.
pub const LARGEST: usize = 16 << 20;
/// The deadline of a stack that waits for nothing.
pub const NEVER: u64 = u64::MAX;

/// What a request asks for: its first byte. The time in nanoseconds follows (8 bytes), then the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Request {
    /// The settings, as lines `name=value`. The answer consists of such lines, too.
    Begin = 0,
    /// An IPv4 packet.
    Input = 1,
    /// Nothing: time has passed.
    Advance = 2,
    /// A port (2 bytes).
    Listen = 3,
    /// The local port (2), the remote address (4, as in the IP header) and port (2).
    Connect = 4,
    /// A socket (4) and the data.
    Write = 5,
    /// A socket (4) and the largest number of bytes (4).
    Read = 6,
    /// A socket (4).
    Shutdown = 7,
    /// A socket (4).
    Close = 8,
    /// A socket (4).
    Abort = 9,
}

/// Items of an answer.
const PACKET: u8 = 1;
const ACCEPTED: u8 = 2;
const STATUS: u8 = 3;
const DATA: u8 = 4;
const ERROR: u8 = 5;
const STATE: u8 = 6;

/// The fields of a state, in the order of their bits in its mask.
pub const FIELDS: [&str; 10] =
    ["snd_una", "snd_nxt", "snd_wnd", "rcv_nxt", "rcv_wnd", "cwnd", "ssthresh", "srtt", "rto", "timer"];
/// Values of the timer that are no times: see [`ShownTimer`].
const STOPPED: u64 = u64::MAX;
const RUNS: u64 = u64::MAX - 1;
const REPLACED: u64 = u64::MAX - 2;

/// Flags of a status.
const ESTABLISHED: u8 = 1;
const END_OF_STREAM: u8 = 2;
const CLOSED: u8 = 4;
const FAILED: u8 = 8;

/// The answer to every request but the first.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The time at which the stack wants to be called again; [`NEVER`] if it waits for nothing.
    pub deadline: u64,
    /// The result of the call: a socket for `Connect`, a number of bytes for `Write`.
    pub result: u32,
    /// What was read.
    pub data: Vec<u8>,
    /// Why the call cannot be done.
    pub error: Option<String>,
}

/// Begins a request in `frame`, whose length is set by [`finish`].
pub fn begin(frame: &mut Vec<u8>, request: Request, now: u64) {
    frame.clear();
    frame.extend_from_slice(&[0; 4]);
    frame.push(request as u8);
    frame.extend_from_slice(&now.to_le_bytes());
}

/// Sets the length of a frame. Panics if the content is longer than [`LARGEST`], which no request is.
pub fn finish(frame: &mut [u8]) {
    let len = frame.len() - 4;
    assert!(len <= LARGEST, "a frame of {len} bytes");
    frame[..4].copy_from_slice(&u32::try_from(len).expect("below the largest").to_le_bytes());
}

/// Reads the content of an answer. What the stack did is appended to `drained`.
///
/// # Errors
/// What is wrong with it.
pub fn read_answer(content: &[u8], drained: &mut Drained) -> Result<Answer, String> {
    let mut rest = Reader(content);
    let mut answer = Answer { deadline: rest.u64()?, result: rest.u32()?, ..Answer::default() };
    while !rest.0.is_empty() {
        match rest.u8()? {
            PACKET => drained.packets.push(rest.counted()?.to_vec()),
            ACCEPTED => {
                let (socket, port) = (SocketId(rest.u32()?), rest.u16()?);
                let address = Ipv4Addr::from(rest.array::<4>()?);
                drained.accepted.push((socket, port, SocketAddrV4::new(address, rest.u16()?)));
            }
            STATUS => {
                let (socket, flags) = (SocketId(rest.u32()?), rest.u8()?);
                let has = |flag| flags & flag != 0;
                let (readable, writable) = (rest.u32()? as usize, rest.u32()? as usize);
                drained.changed.push((
                    socket,
                    SocketStatus {
                        established: has(ESTABLISHED),
                        readable,
                        writable,
                        end_of_stream: has(END_OF_STREAM),
                        closed: has(CLOSED),
                        failed: has(FAILED),
                    },
                ));
            }
            DATA => answer.data.extend_from_slice(rest.counted()?),
            STATE => {
                let socket = SocketId(rest.u32()?);
                drained.shown.push((socket, rest.shown()?));
            }
            ERROR => answer.error = Some(String::from_utf8_lossy(rest.counted()?).into_owned()),
            other => return Err(format!("an item of kind {other}, which does not exist")),
        }
    }
    Ok(answer)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends inside an item")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("the length that was asked for"))
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A mask and the fields whose bits are set.
    fn shown(&mut self) -> Result<Shown, String> {
        let mask = self.u16()?;
        if mask >> FIELDS.len() != 0 {
            return Err(format!("a state with fields that do not exist: its mask is {mask:#x}"));
        }
        let mut bit = 0;
        let mut has = || {
            bit += 1;
            mask >> (bit - 1) & 1 != 0
        };
        let mut word = || if has() { self.u32().map(Some) } else { Ok(None) };
        let (snd_una, snd_nxt, snd_wnd) = (word()?, word()?, word()?);
        let (rcv_nxt, rcv_wnd, cwnd, ssthresh) = (word()?, word()?, word()?, word()?);
        let mut long = || if has() { self.u64().map(Some) } else { Ok(None) };
        let (srtt, rto) = (long()?.map(Dur::from_nanos), long()?.map(Dur::from_nanos));
        let timer = long()?.map(|at| match at {
            STOPPED => ShownTimer::Stopped,
            RUNS => ShownTimer::Runs,
            REPLACED => ShownTimer::Replaced,
            at => ShownTimer::Until(Time::from_nanos(at)),
        });
        Ok(Shown { snd_una, snd_nxt, snd_wnd, rcv_nxt, rcv_wnd, cwnd, ssthresh, srtt, rto, timer })
    }

    fn counted(&mut self) -> Result<&'a [u8], String> {
        let len = self.u32()? as usize;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline, a result, and items.
    fn answer(items: &[u8]) -> Vec<u8> {
        [&7_u64.to_le_bytes()[..], &3_u32.to_le_bytes(), items].concat()
    }

    #[test]
    fn an_answer_has_packets_accepted_connections_states_and_data_in_any_order() {
        let items = [
            &[PACKET, 2, 0, 0, 0, 0x45, 0][..],
            &[ACCEPTED, 9, 0, 0, 0, 0x89, 0x13, 10, 0, 0, 1, 0, 0x80],
            &[STATUS, 9, 0, 0, 0, ESTABLISHED | END_OF_STREAM, 5, 0, 0, 0, 0, 1, 0, 0],
            &[DATA, 1, 0, 0, 0, 0x61],
        ];
        let mut drained = Drained::default();
        let read = read_answer(&answer(&items.concat()), &mut drained).expect("an answer");
        assert_eq!((read.deadline, read.result, read.data, read.error), (7, 3, b"a".to_vec(), None));
        assert_eq!(drained.packets, [[0x45, 0]]);
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 32_768);
        assert_eq!(drained.accepted, [(SocketId(9), 5001, from)]);
        let (socket, status) = drained.changed[0];
        assert_eq!((socket, status.readable, status.writable), (SocketId(9), 5, 256));
        assert!(status.established && status.end_of_stream && !status.closed && !status.failed);
    }

    #[test]
    fn a_state_has_the_fields_of_its_mask_and_no_others() {
        // SND.UNA, cwnd and the timer.
        let fields = [7_u32.to_le_bytes(), 14_600_u32.to_le_bytes()].concat();
        let state =
            [&[STATE, 9, 0, 0, 0, 0b10_0001, 0b10][..], &fields, &2_000_000_u64.to_le_bytes()].concat();
        let mut drained = Drained::default();
        read_answer(&answer(&state), &mut drained).expect("an answer");
        let timer = Some(ShownTimer::Until(Time::from_nanos(2_000_000)));
        let shown = Shown { snd_una: Some(7), cwnd: Some(14_600), timer, ..Shown::default() };
        assert_eq!(drained.shown, [(SocketId(9), shown)]);
        let unknown = read_answer(&answer(&[STATE, 9, 0, 0, 0, 0, 0b100]), &mut Drained::default());
        assert_eq!(
            unknown.expect_err("a bit without a field"),
            "a state with fields that do not exist: its mask is 0x400"
        );
    }

    #[test]
    fn an_answer_that_ends_inside_an_item_or_has_an_unknown_one_is_refused() {
        let whole = answer(&[PACKET, 2, 0, 0, 0, 0x45, 0]);
        for len in 0..whole.len() {
            // After the head an answer may end.
            let refused = read_answer(&whole[..len], &mut Drained::default()).is_err();
            assert_eq!(refused, len != 12, "{len}");
        }
        let wrong = read_answer(&answer(&[99]), &mut Drained::default());
        assert_eq!(wrong.expect_err("an unknown item"), "an item of kind 99, which does not exist");
        let huge = answer(&[PACKET, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(
            read_answer(&huge, &mut Drained::default()).expect_err("too long"),
            "it ends inside an item"
        );
    }
}
