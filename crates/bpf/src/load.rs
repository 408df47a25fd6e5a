//! What the shim and object files share: registering the `struct_ops` of an object.

use crate::Error;
use libbpf_rs::{Link, MapCore, MapType, Object, OpenObject};

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

/// Loads `open` and registers each `struct tcp_congestion_ops`; `from` is for messages.
pub fn register(mut open: OpenObject, from: &str) -> Result<Kept, Error> {
    let before = registered()?;
    let refused = |what: String| move |e: libbpf_rs::Error| Error::Refused { what, why: words(&e) };
    for mut map in open.maps_mut() {
        if map.map_type() == MapType::StructOps {
            let flags = map.map_flags() | F_LINK;
            map.set_map_flags(flags).map_err(refused(format!("register {}", map.name().display())))?;
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
    Ok(Kept { names, links, object })
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

/// The whole chain of causes on one line.
pub fn words(error: &libbpf_rs::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
