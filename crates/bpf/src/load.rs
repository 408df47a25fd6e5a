//! Registration of the `struct_ops` of an object, for the shim and for object files, with the messages of libbpf if it fails.

use crate::Error;
use libbpf_rs::btf::{Btf, ReferencesType as _, types};
use libbpf_rs::{Link, MapCore, MapType, Object, OpenObject, PrintLevel};
use std::sync::Mutex;

/// A loaded object and its registered controllers, which stay registered until this is dropped.
#[derive(Debug)]
pub struct Registered {
    /// The names under which the kernel has them (those of the `struct`, not of the variables).
    pub names: Vec<String>,
    pub links: Vec<Link>,
    pub object: Object,
}

/// `BPF_F_LINK` of `linux/bpf.h`: the kernel unregisters the controller when the last descriptor is closed, also if the process is killed.
const F_LINK: u32 = 1 << 13;

/// The messages that libbpf would print. A process loads one object at a time.
static MESSAGES: Mutex<String> = Mutex::new(String::new());
static LOADING: Mutex<()> = Mutex::new(());

/// An error contains this many of the last lines of the verifier, which end with the reason.
const LINES: usize = 12;

/// Opens an object with `open`, changes it with `change`, loads it and registers each `struct tcp_congestion_ops` in it. Messages name the
/// object `from`.
pub fn register(
    from: &str,
    open: impl FnOnce() -> libbpf_rs::Result<OpenObject>,
    change: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Registered, Error> {
    let _one = LOADING.lock().expect("no thread panics while it holds the lock");
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        MESSAGES.lock().expect("no thread panics while it holds the lock").push_str(&line);
    })));
    MESSAGES.lock().expect("no thread panics while it holds the lock").clear();
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
    // Warnings about a successful registration are not part of a later error.
    MESSAGES.lock().expect("no thread panics while it holds the lock").clear();
    Ok(Registered { names, links, object })
}

/// The number of arguments of a function of `struct tcp_congestion_ops`, from the type information of the kernel.
pub fn arguments_of(function: &str) -> Option<usize> {
    let btf = Btf::from_vmlinux().ok()?;
    let ops: types::Struct = btf.type_by_name("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == function))?;
    let pointer: types::Ptr = btf.type_by_id(member.ty)?;
    let prototype: types::FuncProto = btf.type_by_id(pointer.referenced_type_id())?;
    Some(prototype.len())
}

/// The names of the controllers that the kernel has.
fn registered() -> Result<Vec<String>, Error> {
    const LIST: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(LIST)
        .map_err(|e| Error::Refused { what: format!("list its controllers ({LIST})"), why: e.to_string() })?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The chain of causes of an error, and the last messages of libbpf.
pub fn words(error: &libbpf_rs::Error) -> String {
    let messages = MESSAGES.lock().expect("no thread panics while it holds the lock");
    let lines: Vec<&str> = messages.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    if last.is_empty() { format!("{error:#}") } else { format!("{error:#}\n{last}") }
}
