//! Carries the packets of one direction through a namespace in which [`faults`](crate::faults) happen to them.
//!
//! What arrives at one device is dropped by the kernel (`matchall` on `clsact`) after a packet socket has taken a copy, and what the
//! faults let go on is sent by another packet socket from the other device. A thread does this, for which no virtual time
//! passes; nothing else of the path is touched. Frames travel with the header of `PACKET_VNET_HDR`, which keeps checksums that are
//! yet to be computed as they are.
//!
//! A relay begins when the path has been probed: probes pass without faults.

use crate::faults::{Done, Faults, Sort};
use crate::lab::{Lab, Relayed};
use crate::setup::{self, Failure, Spaces};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use tcpassay_case::Case;
use tcpassay_units::Seed;

/// `PACKET_VNET_HDR` (`include/uapi/linux/if_packet.h`), and the length of `struct virtio_net_hdr`.
const VNET_HDR: i32 = 15;
const VNET: usize = 10;
/// An Ethernet header.
const LINK: usize = 14;
/// A frame of the largest MTU with its headers.
const LONGEST: usize = 66_000;
const STACK: usize = 64 << 10;
const BUFFER: i32 = 256 << 20;

/// Directions that are relayed.
#[derive(Default)]
pub struct Relays(Vec<Arc<Mutex<Done>>>);

impl Relays {
    /// Starts those of a lab.
    pub fn start(case: &Case, lab: &Lab, spaces: &mut Spaces, seed: Seed) -> Result<Relays, Failure> {
        let mut all = Relays::default();
        for Relayed { link, from, to, forward } in &lab.relayed {
            let settings = &case.links[*link];
            let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
            let faults = if *forward {
                let name = &case.net.links[*link].name;
                Faults::forward(settings, name, case.link_rate(*link), mtu, seed)
            } else {
                Faults::backward(settings)
            };
            let Some(faults) = faults else { continue };
            let [from, to] = [&lab.devs[*from], &lab.devs[*to]];
            spaces.enter(from.space)?;
            let wrong = |e: io::Error| format!("a relay from {} to {}: {e}", from.name, to.name);
            let input = socket().and_then(|s| listen(&s, &from.name).map(|()| s)).map_err(wrong)?;
            let output = socket().and_then(|s| speak(&s, &to.name).map(|()| s)).map_err(wrong)?;
            let lines = [
                format!("qdisc add dev {} clsact", from.name),
                format!("filter add dev {} ingress matchall action drop", from.name),
            ];
            setup::batch("tc", &lines)?;
            let done = Arc::new(Mutex::new(Done::default()));
            all.0.push(Arc::clone(&done));
            let carrying = move || {
                if let Err(e) = carry(&input, &output, faults, &done) {
                    eprintln!("a relay ended: {e}");
                }
            };
            Builder::new().stack_size(STACK).spawn(carrying).map_err(wrong)?;
        }
        Ok(all)
    }

    /// What all of them did; `None` when there are none.
    pub fn done(&self) -> Option<Done> {
        let all = self.0.iter().map(|done| *done.lock().expect("nobody panics with it"));
        all.reduce(|a, b| Done {
            lost: a.lost + b.lost,
            thinned: a.thinned + b.thinned,
            held: a.held + b.held,
        })
    }
}

fn socket() -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    sys::set(socket.as_fd(), libc::SOL_PACKET, VNET_HDR, 1)?;
    Ok(socket)
}

fn listen(socket: &OwnedFd, device: &str) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
    sys::ignore_outgoing(socket.as_fd())?;
    sys::bind_packet(socket.as_fd(), sys::interface_index(device)?)
}

fn speak(socket: &OwnedFd, device: &str) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
    sys::bind_packet_to_send(socket.as_fd(), sys::interface_index(device)?)
}

/// Carries packets until a socket fails.
fn carry(
    input: &OwnedFd,
    output: &OwnedFd,
    mut faults: Faults<Vec<u8>>,
    done: &Mutex<Done>,
) -> io::Result<()> {
    let (poll, timer) = (sys::poll()?, sys::timer()?);
    sys::watch(poll.as_fd(), input.as_fd(), libc::EPOLLIN, 0)?;
    sys::watch(poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 1)?;
    let (mut events, mut out, mut armed) = (Vec::new(), Vec::new(), None);
    let mut buffer = vec![0; LONGEST];
    loop {
        sys::wait(poll.as_fd(), &mut events)?;
        let now = if faults.holds() { sys::now() } else { 0 };
        // What is due goes before what has just come, as in the model, where its event is the older one.
        faults.release(now, &mut out);
        if events.iter().any(|(token, _)| *token == 0) {
            let n = sys::receive(input.as_fd(), &mut buffer)?;
            let frame = &buffer[..n];
            let sort = Sort::of(frame.get(VNET + LINK..).unwrap_or_default());
            faults.take(now, sort, frame.to_vec(), &mut out);
            *done.lock().expect("nobody panics with it") = faults.done();
        }
        for frame in out.drain(..) {
            sys::send(output.as_fd(), &frame)?;
        }
        if faults.due() != armed {
            armed = faults.due();
            // A timer at 0 is none.
            sys::set_timer(timer.as_fd(), armed.unwrap_or(0))?;
        }
    }
}
