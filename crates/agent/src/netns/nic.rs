//! NICs of hosts in guests whose receive interrupts no queue discipline can time, or whose driver passes packets up in a wrong order
//! (`nic.rx_frames`, `nic.adaptive`, `nic.lro_order`), by the rules of the model ([`tcpassay_case::interrupts`]).
//!
//! In front of such a host is a namespace. A thread takes the packets for the host, as a [`relay`](crate::netns::relay) does, and keeps them
//! until the interrupt. It then sends them by a device whose netem delays them by a nanosecond, so that the host receives all packets of an
//! interrupt in one poll, in which GRO can merge them; a device without it would pass each packet up before the next one is sent.
//!
//! The probes of the path pass at once. The rules apply to the run.

use crate::netns::build::NetnsSet;
use crate::netns::relay::{self, LINK, LONGEST, SendRing, VNET};
use crate::netns::topology::{DelayingNic, NetnsTopology};
use crate::system::Failure;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use tcpassay_case::interrupts::{Coalesce, POLL_BUDGET, ReceiveInterrupts, STALE_HASH_GROUPS, group_size};
use tcpassay_case::{Case, NicSettings};
use tcpassay_linux::sys;
use tcpassay_units::{Seed, Stream, Time};

/// The packets that are sent at one instant at most: the ring has room for twice as many.
const PORTION: usize = 128;
/// The time in nanoseconds until the device has passed a portion on.
const PASSING: u64 = 2;

/// The receive side of a NIC.
struct ReceiveSide<T> {
    interrupts: ReceiveInterrupts,
    waiting: VecDeque<T>,
    /// The random numbers of a driver that sorts by a stale hash.
    stale_hash: Option<Stream>,
    /// The packets that interrupts have passed up, and that are not sent yet.
    passed: VecDeque<T>,
}

impl<T> ReceiveSide<T> {
    /// `name`: of the host.
    fn new(nic: &NicSettings, name: &str, seed: Seed) -> ReceiveSide<T> {
        ReceiveSide {
            interrupts: ReceiveInterrupts::new(Coalesce::of(nic)),
            waiting: VecDeque::new(),
            // The stream of the model's element.
            stale_hash: nic.stale_hash.then(|| seed.stream(&format!("rx.{name}.order"))),
            passed: VecDeque::new(),
        }
    }

    fn arrive(&mut self, now: Time, bytes: u64, packet: T) {
        self.waiting.push_back(packet);
        let waiting = u32::try_from(self.waiting.len()).expect("fewer than 2^32 packets");
        if self.interrupts.arrive(now, bytes, waiting, false) {
            self.interrupt(now);
        }
    }

    /// Raises the interrupt if it is due.
    fn wake(&mut self, now: Time) {
        if self.interrupts.due().is_some_and(|at| at <= now) {
            self.interrupt(now);
        }
    }

    fn interrupt(&mut self, now: Time) {
        self.interrupts.raise(now);
        let Some(rng) = &mut self.stale_hash else {
            self.passed.append(&mut self.waiting);
            return;
        };
        while !self.waiting.is_empty() {
            let polled = self.waiting.len().min(POLL_BUDGET as usize);
            let mut batch: VecDeque<T> = self.waiting.drain(..polled).collect();
            while !batch.is_empty() {
                let size = batch.len().min(group_size(rng, &STALE_HASH_GROUPS) as usize);
                self.passed.extend(batch.drain(..size).rev());
            }
        }
    }
}

type Shared = Arc<Mutex<Option<ReceiveSide<Vec<u8>>>>>;

/// The NICs of a topology that have a thread, by host.
#[derive(Default)]
pub struct NicSet(Vec<(usize, Shared)>);

impl NicSet {
    /// Starts the threads, which pass packets up at once.
    pub fn start(
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<NicSet, Failure> {
        let mut all = NicSet::default();
        let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
        for DelayingNic { host, from, to } in &topology.delaying_nics {
            let [from, to] = [&topology.devices[*from], &topology.devices[*to]];
            namespaces.enter(from.netns)?;
            let wrong = |e: io::Error| format!("a NIC from {} to {}: {e}", from.name, to.name);
            let (input, output) = relay::ends(&from.name, &to.name, mtu).map_err(wrong)?;
            let nic = Shared::default();
            all.0.push((*host, Arc::clone(&nic)));
            let carrying = move || {
                if let Err(e) = carry(&input, output, &nic) {
                    eprintln!("a NIC ended: {e}");
                }
            };
            Builder::new().stack_size(relay::STACK).spawn(carrying).map_err(wrong)?;
        }
        Ok(all)
    }

    /// Begins with the rules of the case. No packet may be on its way.
    pub fn start_run(&self, case: &Case, seed: Seed) {
        for (host, nic) in &self.0 {
            let new = ReceiveSide::new(&case.hosts[*host].nic, &case.net.hosts[*host].name, seed);
            *nic.lock().expect("no thread panics while it holds the lock") = Some(new);
        }
    }
}

/// Carries packets until a socket fails.
fn carry(input: &OwnedFd, mut output: SendRing, nic: &Mutex<Option<ReceiveSide<Vec<u8>>>>) -> io::Result<()> {
    let (poll, timer) = (sys::epoll()?, sys::timer()?);
    sys::watch(poll.as_fd(), input.as_fd(), libc::EPOLLIN, 0)?;
    sys::watch(poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 1)?;
    let (mut events, mut buffer, mut armed) = (Vec::new(), vec![0; LONGEST], None);
    // Before this time the ring has no room.
    let mut free_at = 0;
    loop {
        sys::wait(poll.as_fd(), &mut events)?;
        let arrived = events.iter().any(|(token, _)| *token == 0);
        let frame = if arrived { sys::receive(input.as_fd(), &mut buffer)? } else { 0 };
        let mut nic = nic.lock().expect("no thread panics while it holds the lock");
        let Some(nic) = nic.as_mut() else {
            if frame > 0 {
                output.send(&mut buffer[..frame])?;
            }
            continue;
        };
        let now = sys::now();
        // An interrupt that is due comes before the packet that has just arrived, as in the model, where its event is older.
        nic.wake(Time::from_nanos(now));
        if frame > 0 {
            let bytes = (frame as u64).saturating_sub((VNET + LINK) as u64);
            nic.arrive(Time::from_nanos(now), bytes, buffer[..frame].to_vec());
        }
        if now >= free_at && !nic.passed.is_empty() {
            let portion = nic.passed.len().min(PORTION);
            for mut frame in nic.passed.drain(..portion) {
                output.send(&mut frame)?;
            }
            free_at = now + PASSING;
        }
        let next = (!nic.passed.is_empty()).then_some(free_at);
        let due = [next, nic.interrupts.due().map(Time::as_nanos)].into_iter().flatten().min();
        if due != armed {
            armed = due;
            // 0 disarms the timer.
            sys::set_timer(timer.as_fd(), armed.unwrap_or(0))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    fn receive_side(rows: &[(&str, &str)]) -> ReceiveSide<u32> {
        let case = case(Substrate::Kernel, rows);
        ReceiveSide::new(&case.hosts[1].nic, "receiver", Seed(1))
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    #[test]
    fn a_number_of_frames_raises_the_interrupt_before_its_delay() {
        let mut nic = receive_side(&[("receiver/nic.rx_usecs", "50us"), ("receiver/nic.rx_frames", "3")]);
        for n in 0..4 {
            nic.arrive(at(10), 1500, n);
        }
        assert_eq!((nic.passed.drain(..).collect::<Vec<_>>(), nic.waiting.len()), (vec![0, 1, 2], 1));
        nic.wake(at(59));
        assert_eq!((nic.passed.len(), nic.interrupts.due()), (0, Some(at(60))));
        nic.wake(at(60));
        assert_eq!((nic.passed.len(), nic.interrupts.due()), (1, None));
    }

    #[test]
    fn a_hidden_firmware_delays_a_packet_after_a_pause() {
        let rows = [
            ("receiver/nic.adaptive", "hidden"),
            ("receiver/nic.hidden_short", "20us"),
            ("receiver/nic.hidden_long", "1160us"),
            ("receiver/nic.hidden_idle", "10us"),
            ("receiver/nic.hidden_frames", "0"),
        ];
        let mut nic = receive_side(&rows);
        nic.arrive(at(1000), 1500, 0);
        assert_eq!(nic.interrupts.due(), Some(at(2160)));
        nic.wake(at(2160));
        // The packet before arrived at 2159 us: within the 10 us of a steady stream.
        let mut nic = receive_side(&rows);
        nic.arrive(at(999), 1500, 0);
        nic.arrive(at(2159), 1500, 1);
        assert_eq!(nic.passed, [0, 1]);
        nic.arrive(at(2169), 1500, 2);
        assert_eq!(nic.interrupts.due(), Some(at(2189)));
        nic.wake(at(2189));
        nic.arrive(at(2200), 1500, 3);
        assert_eq!(nic.interrupts.due(), Some(at(3360)));
    }

    #[test]
    fn a_stale_hash_reverses_groups_of_four_or_five_packets_of_a_poll() {
        let rows = [
            ("receiver/nic.gro", "on"),
            ("receiver/nic.lro_order", "stale-hash"),
            ("receiver/nic.rx_usecs", "60us"),
        ];
        let mut nic = receive_side(&rows);
        for n in 0..100 {
            nic.arrive(at(10), 1500, n);
        }
        nic.wake(at(70));
        let passed: Vec<u32> = nic.passed.into();
        let mut groups = Vec::new();
        for pair in passed.windows(2) {
            if pair[1] > pair[0] {
                groups.push(pair[0]);
            }
        }
        groups.push(*passed.last().unwrap());
        // The last packet of a reversed group is its first one.
        let sizes: Vec<u32> = groups.windows(2).map(|two| two[1] - two[0]).collect();
        let odd: Vec<_> = sizes.iter().filter(|size| !(4..=5).contains(*size)).collect();
        assert!(odd.len() <= 1 && sizes.contains(&4) && sizes.contains(&5), "{sizes:?}");
        assert!(groups.contains(&64), "a poll takes 64 packets: {groups:?}");
        assert_eq!(passed.len(), 100);
    }
}
