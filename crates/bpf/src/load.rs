//! What the shim and object files share: registering the `struct_ops` of an object, and libbpf's words when that fails.

use crate::Error;
use libbpf_rs::btf::{Btf, ReferencesType as _, types};
use libbpf_rs::{Link, MapCore, MapType, Object, OpenObject, PrintLevel};
use std::sync::Mutex;

/// A loaded object and what keeps its controllers registered.
#[derive(Debug)]
pub struct Kept {
    /// The names under which the kernel has them (those of the `struct`, not of the variables).
    pub names: Vec<String>,
    pub links: Vec<Link>,
    pub object: Object,
}

/// `BPF_F_LINK` of `linux/bpf.h`: registered as long as a descriptor is open, so that a killed process leaves nothing behind.
const F_LINK: u32 = 1 << 13;

/// What libbpf had to say, which it would print; one process loads one object at a time.
static SAID: Mutex<String> = Mutex::new(String::new());
static LOADING: Mutex<()> = Mutex::new(());

/// Lines of the verifier that an error carries, the last ones: the reason is at the end.
const LINES: usize = 12;

/// Opens with `open`, lets `change` make of it what is wanted, loads it and registers each `struct tcp_congestion_ops`; `from` is
/// for messages.
pub fn register(
    from: &str,
    open: impl FnOnce() -> libbpf_rs::Result<OpenObject>,
    change: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Kept, Error> {
    let _one = LOADING.lock().expect("nobody panics with it");
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        SAID.lock().expect("nobody panics with it").push_str(&line);
    })));
    SAID.lock().expect("nobody panics with it").clear();
    let before = registered()?;
    let refused = |what: String| move |e: libbpf_rs::Error| Error::Refused { what, why: words(&e) };
    let mut open = open().map_err(refused(format!("open {from}")))?;
    change(&mut open).map_err(refused(format!("prepare {from}")))?;
    for mut map in open.maps_mut() {
        if map.map_type() == MapType::StructOps {
            let flags = map.map_flags() | F_LINK;
            map.set_map_flags(flags).map_err(refused(format!("prepare {from}")))?;
        }
    }
    let mut object = open.load().map_err(refused(format!("load the programs of {from}")))?;
    let mut links = Vec::new();
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        let what = format!("register the controller {} of {from}", map.name().display());
        links.push(map.attach_struct_ops().map_err(refused(what))?);
    }
    let mut names = registered()?;
    names.retain(|name| !before.contains(name));
    // What it warned of did not matter, and is no part of a later error.
    SAID.lock().expect("nobody panics with it").clear();
    Ok(Kept { names, links, object })
}

/// How many arguments a function of the kernel's `struct tcp_congestion_ops` has, by what it says of its own types.
pub fn arguments_of(function: &str) -> Option<usize> {
    let btf = Btf::from_vmlinux().ok()?;
    let ops: types::Struct = btf.type_by_name("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == function))?;
    let pointer: types::Ptr = btf.type_by_id(member.ty)?;
    let prototype: types::FuncProto = btf.type_by_id(pointer.referenced_type_id())?;
    Some(prototype.len())
}

/// The controllers that the kernel has.
fn registered() -> Result<Vec<String>, Error> {
    const LIST: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(LIST).map_err(|e| Error::Refused {
        what: format!("say which controllers it has ({LIST})"),
        why: e.to_string(),
    })?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The chain of causes, and the end of what libbpf said.
pub fn words(error: &libbpf_rs::Error) -> String {
    let said = SAID.lock().expect("nobody panics with it");
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    if last.is_empty() { format!("{error:#}") } else { format!("{error:#}\n{last}") }
}
