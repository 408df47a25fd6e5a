//! The step of a rate limiter on a device of the network namespace that the process is in: the program of
//! `src/bpf/limiter.bpf.c` on the hooks of `clsact`.
//!
//! A program stays with its device when the process ends, as a qdisc does; it is found again by its place (handle and priority
//! [`PLACE`]) and its name. The shaper itself is made with `tc`, by who calls this.

use crate::Error;
use tcpassay_units::Bytes;

/// Handle and priority of the filter.
pub const PLACE: u32 = 0x7ca5;

/// What is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// CE on packets on their way out.
    Data,
    /// ECE on ACKs on their way in.
    Acks,
}

impl Mark {
    /// The programs' names in the kernel.
    #[cfg(feature = "bpf")]
    fn program(self) -> &'static str {
        match self {
            Mark::Data => "mark_data",
            Mark::Acks => "mark_acks",
        }
    }
}

/// How to mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// What.
    pub mark: Mark,
    /// Backlog of the device's root queue discipline above which it marks.
    pub threshold: Bytes,
    /// Bytes before the IP header: 14 of Ethernet, or none.
    pub header: u32,
    /// The caller made `clsact` for it.
    pub made_clsact: bool,
}

/// A limiter as it is in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// How it marks.
    pub settings: Settings,
    /// Packets that it could have marked.
    pub packets: u64,
    /// Packets that it marked.
    pub marks: u64,
}

/// A limiter that this process attached, for its counters. Dropping it leaves the limiter where it is.
#[derive(Debug)]
pub struct Attached {
    #[cfg(feature = "bpf")]
    object: libbpf_rs::Object,
}

#[cfg(feature = "bpf")]
mod built {
    use super::{Attached, Mark, PLACE, Settings, State};
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

    fn state(mark: Mark, value: &[u8]) -> State {
        let long = |at: usize| u64::from_ne_bytes(value[at..at + 8].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_ne_bytes(value[at..at + 4].try_into().expect("4 bytes"));
        State {
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

    /// Of what libbpf says by itself, that a hook is there or is not is no news.
    fn quieter() {
        #[expect(clippy::needless_pass_by_value, reason = "libbpf-rs hands over a String")]
        fn say(_: libbpf_rs::PrintLevel, text: String) {
            if !text.starts_with("libbpf: Kernel error message") {
                eprint!("{text}");
            }
        }
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, say)));
    }

    /// The place of the filter; the descriptor is of no account but when it is attached.
    fn hook(program: std::os::fd::BorrowedFd, interface: i32, mark: Mark) -> TcHook {
        let mut hook = TcHook::new(program);
        hook.ifindex(interface).handle(PLACE).priority(PLACE).replace(true);
        hook.attach_point(if mark == Mark::Data { TC_EGRESS } else { TC_INGRESS });
        hook
    }

    pub fn attach(interface: i32, settings: &Settings) -> Result<Attached, Error> {
        crate::available()?;
        quieter();
        let open = ObjectBuilder::default().open_memory(OBJECT).map_err(refused("read its own programs"))?;
        let object = open.load().map_err(refused("load the programs of the limiter"))?;
        let value = bytes(settings)?;
        let map = object.maps().find(|map| map.name() == "limiter_state").expect("the object has the map");
        map.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(refused("tell the limiter its threshold"))?;
        let program =
            object.progs().find(|p| p.name() == settings.mark.program()).expect("the object has both");
        let mut hook = hook(program.as_fd(), interface, settings.mark);
        hook.create().and_then(|mut hook| hook.attach()).map_err(refused("attach the limiter"))?;
        Ok(Attached { object })
    }

    pub fn state_of(attached: &Attached, mark: Mark) -> Result<State, Error> {
        let map =
            attached.object.maps().find(|map| map.name() == "limiter_state").expect("the object has the map");
        read(&map, mark)
    }

    fn read(map: &impl MapCore, mark: Mark) -> Result<State, Error> {
        let value = map
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused("read the limiter's counters"))?;
        Ok(state(mark, &value.expect("an array has its elements")))
    }

    pub fn find(interface: i32) -> Result<Option<State>, Error> {
        quieter();
        for mark in [Mark::Data, Mark::Acks] {
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

    pub fn detach(interface: i32, mark: Mark) -> Result<(), Error> {
        hook(std::io::stdin().as_fd(), interface, mark).detach().map_err(refused("detach the limiter"))
    }
}

impl Attached {
    /// Its counters.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn state(&self, mark: Mark) -> Result<State, Error> {
        #[cfg(feature = "bpf")]
        return built::state_of(self, mark);
        #[cfg(not(feature = "bpf"))]
        return Err(without(mark));
    }
}

/// Puts a limiter on the hooks of an interface, in place of one that may be there; makes `clsact` where there is none.
///
/// # Errors
///
/// BPF is not available, a threshold beyond 4 GB, or the kernel's refusal.
pub fn attach(interface: i32, settings: &Settings) -> Result<Attached, Error> {
    #[cfg(feature = "bpf")]
    return built::attach(interface, settings);
    #[cfg(not(feature = "bpf"))]
    return Err(without((interface, settings)));
}

/// The limiter on the hooks of an interface, whoever put it there.
///
/// # Errors
///
/// BPF is not available, or the kernel's refusal.
pub fn find(interface: i32) -> Result<Option<State>, Error> {
    #[cfg(feature = "bpf")]
    return built::find(interface);
    #[cfg(not(feature = "bpf"))]
    return Err(without(interface));
}

/// Takes a limiter off its hook; `clsact` stays.
///
/// # Errors
///
/// BPF is not available, or the kernel's refusal.
pub fn detach(interface: i32, mark: Mark) -> Result<(), Error> {
    #[cfg(feature = "bpf")]
    return built::detach(interface, mark);
    #[cfg(not(feature = "bpf"))]
    return Err(without((interface, mark)));
}

/// What a build without BPF answers, whatever it is asked.
#[cfg(not(feature = "bpf"))]
fn without<T>(_asked: T) -> Error {
    Error::NotBuilt
}
