//! smoltcp as a process: a complete adapter for `stack.implementation = "exec:COMMAND"`.

use std::io::{Read, Write, stdin, stdout};
use std::{collections::BTreeMap, error::Error, fs::File, net::SocketAddrV4, os::fd::AsFd};
use tcpassay_stack::smoltcp::{SmolStack, description};
use tcpassay_stack::{Drained, Settings, SocketId, Stack, protocol::batch};
use tcpassay_units::{Dur, Time};

/// The content of the next request; `None` at the end of the run.
fn request() -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stdin().read_exact(&mut length).ok()?;
    let mut content = vec![0; u32::from_le_bytes(length) as usize];
    stdin().read_exact(&mut content).ok().map(|()| content)
}

fn send(output: &mut File, content: &[u8]) -> Result<(), Box<dyn Error>> {
    Ok(output.write_all(&[&u32::try_from(content.len())?.to_le_bytes()[..], content].concat())?)
}

fn counted(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], &u32::try_from(bytes.len()).expect("a short item").to_le_bytes()[..], bytes].concat()
}

/// The stack with the settings of the first request. Absent settings have the defaults of the stack.
fn begin(text: &str) -> SmolStack {
    let lines: BTreeMap<_, _> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let number = |name| lines.get(name).map(|value| value.parse::<u64>().expect("a number"));
    let size = |name| number(name).map(|bytes| usize::try_from(bytes).expect("it fits memory"));
    let time = |name| number(name).map(Dur::from_nanos);
    let settings = Settings {
        address: lines["address"].parse().expect("an IPv4 address"),
        mtu: lines["mtu"].parse().expect("a number"),
        seed: number("seed").expect("a number"),
        cc: lines.get("cc").copied().unwrap_or("none").to_owned(),
        send_buffer: size("send_buffer"),
        receive_buffer: size("receive_buffer"),
        nagle: number("nagle") != Some(0),
        timestamps: number("timestamps").map(|on| on == 1),
        ack_delay: time("ack_delay_ns"),
        keepalive: time("keepalive_ns"),
        user_timeout: time("user_timeout_ns"),
        isn: number("isn").map(|isn| u32::try_from(isn).expect("32 bits")),
    };
    SmolStack::new(settings).expect("a congestion controller of smoltcp").0
}

fn perform(stack: &mut SmolStack, content: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let now = Time::from_nanos(u64::from_le_bytes(content[1..9].try_into()?));
    let (rest, mut result, mut items) = (&content[9..], 0, Vec::new());
    let half = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
    let word = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    let to = || SocketAddrV4::new([rest[2], rest[3], rest[4], rest[5]].into(), half(6));
    let socket = || SocketId(word(0));
    match content[0] {
        1 => stack.input(now, rest)?,
        2 => stack.advance(now)?,
        3 => stack.listen(now, half(0))?,
        4 => result = stack.connect(now, half(0), to())?.0,
        5 => result = u32::try_from(stack.write(now, socket(), &rest[4..])?)?,
        6 => {
            let mut data = vec![0; word(4) as usize];
            let length = stack.read(now, socket(), &mut data)?;
            items = counted(4, &data[..length]);
        }
        7 => stack.shutdown(now, socket())?,
        8 => stack.close(now, socket())?,
        9 => stack.abort(now, socket())?,
        _ => return batch(content, |request| perform(stack, request)),
    }
    let mut done = Drained::default();
    stack.drain(&mut done);
    done.packets.iter().for_each(|packet| items.extend(counted(1, packet)));
    for (id, port, from) in done.accepted {
        items.extend([&[2], &id.0.to_le_bytes()[..], &port.to_le_bytes(), &from.ip().octets()].concat());
        items.extend(from.port().to_le_bytes());
    }
    for (id, s) in done.changed {
        let flags = [s.established, s.end_of_stream, s.closed, s.failed].map(u8::from);
        let flags = flags[0] | flags[1] << 1 | flags[2] << 2 | flags[3] << 3;
        let (r, w) = (u32::try_from(s.readable)?.to_le_bytes(), u32::try_from(s.writable)?.to_le_bytes());
        items.extend([&[3], &id.0.to_le_bytes()[..], &[flags], &r, &w].concat());
    }
    let due = stack.deadline(now).map_or(u64::MAX, Time::as_nanos);
    Ok([&due.to_le_bytes()[..], &result.to_le_bytes(), &items].concat())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(first) = request() else { return Ok(()) };
    let mut stack = begin(str::from_utf8(&first[9..])?);
    let mut output = File::from(stdout().as_fd().try_clone_to_owned()?); // `stdout` sends line by line
    let (version, ns) = (description().version, description().granularity.as_nanos());
    let options = "cc,send_buffer,receive_buffer,nagle,timestamps,ack_delay_ns,keepalive_ns,user_timeout_ns";
    let head = format!("name=smoltcp-process\nversion={version}\ngranularity_ns={ns}\nbatch=1");
    send(&mut output, format!("{head}\noptions={options},isn").as_bytes())?;
    while let Some(content) = request() {
        send(&mut output, &perform(&mut stack, &content)?)?;
    }
    Ok(())
}
