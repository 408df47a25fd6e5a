//! Network interfaces and their addresses (rtnetlink). A message takes microseconds, and a process of `ip` milliseconds.

use super::{
    ERROR, Netlink, REQUEST, REQUEST_DUMP, acknowledged, attribute, attributes, header, u16_at, u32_at,
};
use crate::sys;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
/// `IFLA_*` (`include/uapi/linux/if_link.h`).
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const LINK: u16 = 5;
const MASTER: u16 = 10;
const LINK_INFO: u16 = 18;
const NETNS_FD: u16 = 28;
const LINK_NETNSID: u16 = 37;
const GRO_MAX_SIZE: u16 = 58;

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// The index.
    pub index: i32,
    /// The name.
    pub name: String,
    /// The interface below it, in the same namespace.
    pub below: Option<i32>,
    /// The bridge or bond of which it is a port.
    pub master: Option<i32>,
    /// The largest segment to which GRO merges packets, in bytes.
    pub gro_max_size: Option<u32>,
}

/// A macvlan device in bridge mode.
pub struct Macvlan<'a> {
    /// The index of the interface below it.
    pub below: i32,
    /// The name.
    pub name: &'a str,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The MAC address.
    pub mac: [u8; 6],
    /// The network namespace in which it is created.
    pub netns: BorrowedFd<'a>,
}

impl Netlink {
    /// All interfaces of the namespace.
    pub fn links(&self) -> io::Result<Vec<Link>> {
        let mut request = header(32, NEW_LINK + 2, REQUEST_DUMP);
        request.extend([0; 16]); // struct ifinfomsg
        let mut all = Vec::new();
        self.request(&request, NEW_LINK, |message| all.push(link(message)))?;
        Ok(all)
    }

    /// All addresses of the namespace, each with the index of its interface.
    pub fn addresses(&self) -> io::Result<Vec<(i32, IpAddr)>> {
        let mut request = header(24, NEW_ADDRESS + 2, REQUEST_DUMP);
        request.extend([0; 8]); // struct ifaddrmsg
        let mut all = Vec::new();
        self.request(&request, NEW_ADDRESS, |message| all.extend(address(message)))?;
        Ok(all)
    }

    /// Creates a macvlan device.
    pub fn add_macvlan(&self, device: &Macvlan) -> io::Result<()> {
        sys::send(self.0.as_fd(), &macvlan_request(device))?;
        let mut answer = [0; 4096];
        let n = sys::receive(self.0.as_fd(), &mut answer)?;
        if n < 20 || u16_at(&answer, 4) != ERROR {
            return Err(io::Error::other("the kernel did not acknowledge the device"));
        }
        acknowledged(&answer)
    }
}

/// The request that creates a macvlan device.
fn macvlan_request(device: &Macvlan) -> Vec<u8> {
    const ACK_CREATE_EXCLUSIVE: u16 = 0x604;
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    const MODE: u16 = 1;
    const BRIDGE: u32 = 4;
    let mode = attribute(MODE, &BRIDGE.to_ne_bytes());
    let info = [attribute(KIND, b"macvlan\0"), attribute(DATA, &mode)].concat();
    let mut body = vec![0; 16]; // struct ifinfomsg
    body.extend(attribute(NAME, &[device.name.as_bytes(), &[0]].concat()));
    body.extend(attribute(MTU, &device.mtu.to_ne_bytes()));
    body.extend(attribute(ADDRESS, &device.mac));
    body.extend(attribute(LINK, &device.below.to_ne_bytes()));
    body.extend(attribute(NETNS_FD, &device.netns.as_raw_fd().to_ne_bytes()));
    body.extend(attribute(LINK_INFO, &info));
    let len = u32::try_from(body.len() + 16).expect("a short message");
    [header(len, NEW_LINK, REQUEST | ACK_CREATE_EXCLUSIVE), body].concat()
}

/// The interface of a message: `struct ifinfomsg` and attributes.
fn link(message: &[u8]) -> Link {
    let mut found = Link { index: u32_at(message, 4).cast_signed(), ..Link::default() };
    let mut elsewhere = false;
    for (kind, payload) in attributes(message.get(16..).unwrap_or_default()) {
        let number = || Some(u32_at(payload, 0).cast_signed());
        match kind {
            NAME => {
                let name = payload.strip_suffix(&[0]).unwrap_or(payload);
                found.name = String::from_utf8_lossy(name).into_owned();
            }
            // A device whose interface is itself has none below it.
            LINK => found.below = number().filter(|below| *below != 0 && *below != found.index),
            MASTER => found.master = number(),
            LINK_NETNSID => elsewhere = true,
            GRO_MAX_SIZE => found.gro_max_size = Some(u32_at(payload, 0)),
            _ => {}
        }
    }
    if elsewhere {
        found.below = None;
    }
    found
}

/// The address of a message: `struct ifaddrmsg` and attributes. The own address of a link between two addresses is `IFA_LOCAL`.
fn address(message: &[u8]) -> Option<(i32, IpAddr)> {
    const LOCAL: u16 = 2;
    let all: Vec<_> = attributes(message.get(8..)?).collect();
    let of = |wanted: u16| all.iter().find(|(kind, _)| *kind == wanted).map(|(_, payload)| *payload);
    let bytes = of(LOCAL).or_else(|| of(ADDRESS))?;
    let address = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        16 => <[u8; 16]>::try_from(bytes).ok()?.into(),
        _ => return None,
    };
    Some((u32_at(message, 4).cast_signed(), address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_loopback_interface_has_its_name_and_its_address() {
        let netlink = Netlink::open().unwrap();
        let links = netlink.links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!(Ok(lo.index), sys::interface_index("lo").map_err(|e| e.to_string()));
        assert_eq!((lo.below, lo.master, lo.gro_max_size), (None, None, Some(65_536)));
        let local = (lo.index, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(netlink.addresses().unwrap().contains(&local));
    }

    fn link_of(parts: &[(u16, &[u8])]) -> Link {
        let mut message = vec![0; 16];
        message[4] = 7;
        message.extend(parts.iter().flat_map(|(kind, payload)| attribute(*kind, payload)));
        link(&message)
    }

    #[test]
    fn a_device_has_one_below_it_only_in_its_own_namespace() {
        let number = |n: u32| n.to_ne_bytes();
        let vlan = link_of(&[(NAME, b"vlan3\0"), (LINK, &number(2)), (MASTER, &number(9))]);
        let expected =
            Link { index: 7, name: "vlan3".to_owned(), below: Some(2), master: Some(9), ..Link::default() };
        assert_eq!(vlan, expected);
        let veth = link_of(&[(LINK, &number(2)), (LINK_NETNSID, &number(0))]);
        assert_eq!(veth.below, None);
        assert_eq!(link_of(&[(LINK, &number(7))]).below, None, "a tunnel without a device");
    }

    #[test]
    fn the_own_address_of_a_link_between_two_addresses_is_the_local_one() {
        let of = |parts: &[(u16, &[u8])]| {
            let mut message = vec![0; 8];
            message[4] = 3;
            message.extend(parts.iter().flat_map(|(kind, payload)| attribute(*kind, payload)));
            address(&message)
        };
        let peer: (u16, &[u8]) = (1, &[10, 0, 0, 2]);
        assert_eq!(of(&[peer, (2, &[10, 0, 0, 1])]), Some((3, IpAddr::V4([10, 0, 0, 1].into()))));
        let v6 = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(of(&[(1, &v6)]), Some((3, IpAddr::V6(v6.into()))));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_macvlan_is_created_in_bridge_mode_in_another_namespace() {
        let netns = std::fs::File::open("/dev/null").unwrap();
        let request = macvlan_request(&Macvlan {
            below: 2,
            name: "c0a",
            mtu: 1500,
            mac: [2, 0, 0, 0, 0, 1],
            netns: netns.as_fd(),
        });
        assert_eq!(u32_at(&request, 0) as usize, request.len());
        // RTM_NEWLINK; NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE.
        assert_eq!((u16_at(&request, 4), u16_at(&request, 6)), (16, 0x605));
        let parts: Vec<_> = attributes(&request[32..]).collect();
        let of = |wanted: u16| parts.iter().find(|(kind, _)| *kind == wanted).unwrap().1;
        assert_eq!((of(NAME), of(ADDRESS)), (&b"c0a\0"[..], &[2, 0, 0, 0, 0, 1][..]));
        assert_eq!((u32_at(of(MTU), 0), u32_at(of(LINK), 0)), (1500, 2));
        assert_eq!(u32_at(of(NETNS_FD), 0).cast_signed(), netns.as_raw_fd());
        let info: Vec<_> = attributes(of(LINK_INFO)).collect();
        assert_eq!(info[0], (1, &b"macvlan\0"[..]));
        assert_eq!(attributes(info[1].1).collect::<Vec<_>>(), [(1, &4_u32.to_ne_bytes()[..])]);
    }
}
