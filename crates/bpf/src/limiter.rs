//! The marking of a rate limiter on a device of the network namespace that the process is in: the program of
//! `src/bpf/limiter.bpf.c` on the hooks of `clsact`.
//!
//! Like a qdisc, a program stays on its device when the process ends. It is found again by its handle and priority ([`PLACE`]) and its
//! name. The caller creates the shaper with `tc`.

use crate::Error;
use tcpassay_units::Bytes;

/// The handle and the priority of the filter.
pub const PLACE: u32 = 0x7ca5;

/// The packets that are marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkedPackets {
    /// Outgoing packets get the CE mark.
    Data,
    /// Incoming ACKs get the ECE flag.
    Acks,
}

impl MarkedPackets {
    /// The name of the program in the kernel.
    #[cfg(feature = "bpf")]
    fn program(self) -> &'static str {
        match self {
            MarkedPackets::Data => "mark_data",
            MarkedPackets::Acks => "mark_acks",
        }
    }
}

/// The settings of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The packets that are marked.
    pub mark: MarkedPackets,
    /// Packets are marked while the backlog of the device's root queue discipline is larger.
    pub threshold: Bytes,
    /// Bytes before the IP header: 14 for Ethernet, or 0.
    pub header: u32,
    /// The caller created `clsact` for this limiter, and removes it with the limiter.
    pub made_clsact: bool,
}

/// The state of a limiter in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimiterState {
    /// Its settings.
    pub settings: Settings,
    /// The number of packets that the limiter has inspected.
    pub packets: u64,
    /// The number of packets that it has marked.
    pub marks: u64,
}

/// A handle for the counters of a limiter. The limiter stays on its device when the handle is dropped.
#[derive(Debug)]
pub struct Attached {
    #[cfg(feature = "bpf")]
    object: libbpf_rs::Object,
}

#[cfg(feature = "bpf")]
mod built {
    use super::{Attached, LimiterState, MarkedPackets, PLACE, Settings};
    use crate::Error;
    use crate::load::words;
    use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
    use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, TC_EGRESS, TC_INGRESS, TcHook};
    use std::os::fd::AsFd;
    use tcpassay_units::Bytes;

    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/limiter.bpf.o"));
    const MADE_CLSACT: u32 = 1;

    fn refused(what: &str) -> impl FnOnce(libbpf_rs::Error) -> Error + use<> {
        let what = what.to_owned();
        move |e| Error::Refused { what, why: words(&e) }
    }

    /// `struct limiter` of the C source.
    fn bytes(settings: &Settings) -> Result<Vec<u8>, Error> {
        let threshold = u32::try_from(settings.threshold.get()).map_err(|_| Error::Refused {
            what: format!("mark above {}", settings.threshold),
            why: "a queue discipline counts its backlog in 32 bits".to_owned(),
        })?;
        let flags = if settings.made_clsact { MADE_CLSACT } else { 0 };
        let mut all = vec![0; 16];
        all.extend([threshold, settings.header, flags, 0].iter().flat_map(|word| word.to_ne_bytes()));
        Ok(all)
    }

    fn state(mark: MarkedPackets, value: &[u8]) -> LimiterState {
        let long = |at: usize| u64::from_ne_bytes(value[at..at + 8].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_ne_bytes(value[at..at + 4].try_into().expect("4 bytes"));
        LimiterState {
            settings: Settings {
                mark,
                threshold: Bytes::new(word(16).into()),
                header: word(20),
                made_clsact: word(24) & MADE_CLSACT != 0,
            },
            packets: long(0),
            marks: long(8),
        }
    }

    /// Suppresses the messages of libbpf that a hook exists already or does not exist: both are expected.
    fn suppress_expected_messages() {
        #[expect(clippy::needless_pass_by_value, reason = "libbpf-rs hands over a String")]
        fn print(_: libbpf_rs::PrintLevel, text: String) {
            if !text.starts_with("libbpf: Kernel error message") {
                eprint!("{text}");
            }
        }
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, print)));
    }

    /// The hook of the filter. `program` is used only when the filter is attached.
    fn hook(program: std::os::fd::BorrowedFd, interface: i32, mark: MarkedPackets) -> TcHook {
        let mut hook = TcHook::new(program);
        hook.ifindex(interface).handle(PLACE).priority(PLACE).replace(true);
        hook.attach_point(if mark == MarkedPackets::Data { TC_EGRESS } else { TC_INGRESS });
        hook
    }

    pub fn attach(interface: i32, settings: &Settings) -> Result<Attached, Error> {
        crate::available()?;
        suppress_expected_messages();
        let open = ObjectBuilder::default().open_memory(OBJECT).map_err(refused("read its own programs"))?;
        let object = open.load().map_err(refused("load the programs of the limiter"))?;
        let value = bytes(settings)?;
        let map = object.maps().find(|map| map.name() == "limiter_state").expect("the object has the map");
        map.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(refused("set the threshold of the limiter"))?;
        let program =
            object.progs().find(|p| p.name() == settings.mark.program()).expect("the object has both");
        let mut hook = hook(program.as_fd(), interface, settings.mark);
        hook.create().and_then(|mut hook| hook.attach()).map_err(refused("attach the limiter"))?;
        Ok(Attached { object })
    }

    pub fn state_of(attached: &Attached, mark: MarkedPackets) -> Result<LimiterState, Error> {
        let map =
            attached.object.maps().find(|map| map.name() == "limiter_state").expect("the object has the map");
        read(&map, mark)
    }

    fn read(map: &impl MapCore, mark: MarkedPackets) -> Result<LimiterState, Error> {
        let value = map
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused("read the limiter's counters"))?;
        Ok(state(mark, &value.expect("an array has its elements")))
    }

    pub fn find(interface: i32) -> Result<Option<LimiterState>, Error> {
        suppress_expected_messages();
        for mark in [MarkedPackets::Data, MarkedPackets::Acks] {
            let Ok(id) = hook(std::io::stdin().as_fd(), interface, mark).query() else { continue };
            let options = ProgInfoQueryOptions::default().include_map_ids(true);
            let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == id);
            let Some(info) = info.filter(|info| info.name == mark.program()) else { continue };
            for map in info.map_ids {
                let map = MapHandle::from_map_id(map).map_err(refused("open the limiter's counters"))?;
                if map.name() == "limiter_state" {
                    return read(&map, mark).map(Some);
                }
            }
        }
        Ok(None)
    }

    pub fn detach(interface: i32, mark: MarkedPackets) -> Result<(), Error> {
        hook(std::io::stdin().as_fd(), interface, mark).detach().map_err(refused("detach the limiter"))
    }
}

impl Attached {
    /// The counters of the limiter.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn state(&self, mark: MarkedPackets) -> Result<LimiterState, Error> {
        #[cfg(feature = "bpf")]
        return built::state_of(self, mark);
        #[cfg(not(feature = "bpf"))]
        return Err(without(mark));
    }
}

/// Attaches a limiter to the hooks of an interface, instead of a previous limiter. Creates `clsact` if the interface has none.
///
/// # Errors
///
/// BPF is not available, the threshold is above 4 GB, or the kernel refuses.
pub fn attach(interface: i32, settings: &Settings) -> Result<Attached, Error> {
    #[cfg(feature = "bpf")]
    return built::attach(interface, settings);
    #[cfg(not(feature = "bpf"))]
    return Err(without((interface, settings)));
}

/// The limiter on the hooks of an interface, also if another process attached it.
///
/// # Errors
///
/// BPF is not available, or the kernel refuses.
pub fn find(interface: i32) -> Result<Option<LimiterState>, Error> {
    #[cfg(feature = "bpf")]
    return built::find(interface);
    #[cfg(not(feature = "bpf"))]
    return Err(without(interface));
}

/// Removes a limiter from its hook. `clsact` stays.
///
/// # Errors
///
/// BPF is not available, or the kernel refuses.
pub fn detach(interface: i32, mark: MarkedPackets) -> Result<(), Error> {
    #[cfg(feature = "bpf")]
    return built::detach(interface, mark);
    #[cfg(not(feature = "bpf"))]
    return Err(without((interface, mark)));
}

/// The error of all functions in a build without BPF.
#[cfg(not(feature = "bpf"))]
fn without<T>(_asked: T) -> Error {
    Error::NotBuilt
}
