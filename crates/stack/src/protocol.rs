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

/// Bytes of a request in front of its fields: its kind and its time.
const HEAD: usize = 9;

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
    /// Requests, each with its length (4): see [`batch`].
    Batch = 10,
    /// Nothing: it forks a process for each run from now on (docs/stacks.md).
    Fork = 11,
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

/// Adds a request to the batch in `frame`; `fill` writes its fields.
pub fn entry(frame: &mut Vec<u8>, request: Request, now: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = frame.len();
    frame.extend_from_slice(&[0; 4]);
    frame.push(request as u8);
    frame.extend_from_slice(&now.to_le_bytes());
    fill(frame);
    finish(&mut frame[begin..]);
}

/// The answers to the requests of a batch.
///
/// # Errors
/// They are not `most` or fewer, or one ends early.
pub fn read_batch(content: &[u8], most: usize) -> Result<Vec<&[u8]>, String> {
    let (mut rest, mut answers) = (Reader(content), Vec::new());
    while !rest.0.is_empty() {
        answers.push(rest.counted()?);
    }
    if answers.is_empty() || answers.len() > most {
        return Err(format!("{} answers to a batch of {most} requests", answers.len()));
    }
    Ok(answers)
}

/// The side of the process: performs the requests of a batch with `perform`, whose result is an answer, as far as they apply.
///
/// A call (`Write`, `Read`) is what the application does if the request before it changed the status of its socket alone; it is left out if
/// nothing changed. Everything else, or a deadline before the next request, ends the batch, so that the run decides how to go on.
///
/// # Errors
/// Those of `perform`, and a batch or an answer that cannot be read.
pub fn batch<E: From<String>>(
    content: &[u8],
    mut perform: impl FnMut(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let (mut rest, mut all) = (Reader(content.get(HEAD..).unwrap_or_default()), Vec::new());
    let (mut news, mut due) = (Drained::default(), NEVER);
    while !rest.0.is_empty() {
        let request = rest.counted()?;
        let mut head = Reader(request);
        let (kind, now) = (head.u8()?, head.u64()?);
        let is_call = kind == Request::Write as u8 || kind == Request::Read as u8;
        let changed = !news.accepted.is_empty() || !news.changed.is_empty();
        if due < now || changed && !is_call {
            break;
        }
        let mut answer = Vec::new();
        if changed || !is_call {
            let Some(len) = (if is_call { applies(request, &news) } else { Some(request.len()) }) else {
                break;
            };
            answer = perform(&request[..len])?;
            news = Drained::default();
            due = read_answer(&answer, &mut news)?.deadline.max(now);
        }
        all.extend_from_slice(&u32::try_from(answer.len()).expect("below the largest").to_le_bytes());
        all.extend_from_slice(&answer);
    }
    Ok(all)
}

/// The length of the call in `request` that an application does at `news`; `None` if it may do something else.
fn applies(request: &[u8], news: &Drained) -> Option<usize> {
    let [(socket, status)] = news.changed[..] else { return None };
    let (named, fields) = request.get(HEAD..)?.split_first_chunk()?;
    if !news.accepted.is_empty() || u32::from_le_bytes(*named) != socket.0 || status.failed {
        return None;
    }
    if request[0] == Request::Read as u8 {
        return (status.readable > 0).then_some(request.len());
    }
    let fits = status.readable == 0 && (1..=fields.len()).contains(&status.writable);
    fits.then_some(request.len() - fields.len() + status.writable)
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

    /// A batch of an input at time 0 and a call at `now`, which the process performs with these items as news of the input.
    /// Returns the requests that it performs, and how many answers there are.
    fn performed(call: Request, fields: &[u8], now: u64, news: &[u8]) -> (Vec<Vec<u8>>, usize) {
        let mut frame = Vec::new();
        begin(&mut frame, Request::Batch, 0);
        entry(&mut frame, Request::Input, 0, |_| {});
        entry(&mut frame, call, now, |frame| frame.extend_from_slice(fields));
        let mut done = Vec::new();
        let answers: Result<Vec<u8>, String> = batch(&frame[4..], |request| {
            done.push(request.to_vec());
            Ok(answer(if done.len() == 1 { news } else { &[] }))
        });
        let answers = answers.expect("a right batch");
        (done, read_batch(&answers, 2).expect("right answers").len())
    }

    #[test]
    fn a_call_of_a_batch_is_done_if_the_status_of_its_socket_alone_says_so() {
        let status = |readable: u8, writable: u8, flags: u8| {
            [STATUS, 9, 0, 0, 0, flags, readable, 0, 0, 0, writable, 0, 0, 0]
        };
        let (socket, other) = (*b"\x09\0\0\0abc", *b"\x08\0\0\0abc");
        let write = |news: &[u8]| performed(Request::Write, &socket, 0, news);
        let read = |news: &[u8]| performed(Request::Read, b"\x09\0\0\0\xff\0\0\0", 0, news);
        let number = |(done, answers): (Vec<Vec<u8>>, usize)| (done.len(), answers);
        // It writes as many bytes as the status says.
        let (done, answers) = write(&status(0, 2, ESTABLISHED));
        assert_eq!((&done[1][9..], answers), (&b"\x09\0\0\0ab"[..], 2));
        assert_eq!(number(read(&status(5, 7, ESTABLISHED))), (2, 2));
        // Without news it is left out.
        assert_eq!(number(write(&[])), (1, 2));
        assert_eq!(number(read(&[])), (1, 2));
        // More room than bytes, no room, something to read or nothing, a failure, another socket, two sockets.
        assert_eq!(number(write(&status(0, 4, ESTABLISHED))), (1, 1));
        assert_eq!(number(write(&status(0, 0, ESTABLISHED))), (1, 1));
        assert_eq!(number(write(&status(5, 2, ESTABLISHED))), (1, 1));
        assert_eq!(number(read(&status(0, 2, ESTABLISHED))), (1, 1));
        assert_eq!(number(read(&status(5, 0, CLOSED | FAILED))), (1, 1));
        assert_eq!(number(performed(Request::Write, &other, 0, &status(0, 2, ESTABLISHED))), (1, 1));
        let both = [status(5, 2, ESTABLISHED), [STATUS, 8, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(number(read(&both)), (1, 1));
        let accepted = [ACCEPTED, 9, 0, 0, 0, 0x89, 0x13, 10, 0, 0, 1, 0, 0x80];
        assert_eq!(number(read(&[&status(5, 2, ESTABLISHED)[..], &accepted].concat())), (1, 1));
    }

    #[test]
    fn a_batch_ends_before_a_time_behind_the_deadline_and_before_another_request_after_news() {
        // The deadline of these answers is 7.
        let number = |(done, answers): (Vec<Vec<u8>>, usize)| (done.len(), answers);
        assert_eq!(number(performed(Request::Input, &[], 7, &[])), (2, 2));
        assert_eq!(number(performed(Request::Input, &[], 8, &[])), (1, 1));
        let status = [STATUS, 9, 0, 0, 0, ESTABLISHED, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(number(performed(Request::Input, &[], 7, &status)), (1, 1));
        assert_eq!(read_batch(&[], 2).expect_err("no answer"), "0 answers to a batch of 2 requests");
        assert_eq!(read_batch(&[0; 12], 2).expect_err("too many"), "3 answers to a batch of 2 requests");
    }
}
