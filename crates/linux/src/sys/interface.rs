//! Network interfaces: ethtool requests, and packet sockets that send and receive on one interface.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use super::call::{check, len_of, text};
use super::socket::set;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Switches an offload of an interface on or off by the command `set` (`ETHTOOL_S*` of include/uapi/linux/ethtool.h). Returns the state
/// that the command `get` (`ETHTOOL_G*`) reads back.
pub fn offload(fd: BorrowedFd, interface: &str, set: u32, get: u32, on: bool) -> io::Result<bool> {
    ethtool(fd, interface, set, u32::from(on))?;
    ethtool(fd, interface, get, 0).map(|value| value != 0)
}

/// A command of include/uapi/linux/ethtool.h whose argument is a `struct ethtool_value`. Returns the value that the kernel leaves there.
pub fn ethtool(fd: BorrowedFd, interface: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = [command, data];
    ethtool_words(fd, interface, &mut value)?;
    Ok(value[1])
}

/// A command of include/uapi/linux/ethtool.h whose argument is a structure of 32-bit numbers, the first of which is the command. The kernel
/// reads and writes the whole structure, so that `words` must be as long as that of the command.
pub fn ethtool_words<const N: usize>(
    fd: BorrowedFd,
    interface: &str,
    words: &mut [u32; N],
) -> io::Result<()> {
    // SIOCETHTOOL of include/uapi/linux/sockios.h.
    const REQUEST: libc::c_ulong = 0x8946;
    let mut request = named_request(interface);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request points to the words, which outlive the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), REQUEST, &raw mut request) }).map(drop)
}

/// The index of an interface in the network namespace of the process.
pub fn interface_index(name: &str) -> io::Result<i32> {
    let name = text(name);
    // SAFETY: a NUL-terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index.cast_signed()) }
}

/// The index of an interface in the network namespace in which a socket was opened, which takes one system call instead of three.
pub fn interface_index_by(socket: BorrowedFd, name: &str) -> io::Result<i32> {
    let mut request = named_request(name);
    // SAFETY: the kernel reads and writes one ifreq, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) })?;
    // SAFETY: the kernel has set this field of the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// A request about an interface, of whose name the kernel takes the first 15 bytes.
fn named_request(interface: &str) -> libc::ifreq {
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request
}

/// A classic BPF program that drops every packet: `BPF_RET | BPF_K` of 0 (`linux/filter.h`).
pub const DROP_ALL: [(u16, u8, u8, u32); 1] = [(0x06, 0, 0, 0)];

/// Attaches a classic BPF program to a socket. An instruction is `(code, jt, jf, k)` (struct `sock_filter`).
pub fn attach_filter(fd: BorrowedFd, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
    let mut code: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let program = libc::sock_fprog {
        len: u16::try_from(code.len()).expect("a short program"),
        filter: code.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program that `program` points to; both outlive the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            len_of::<libc::sock_fprog>(),
        )
    })
    .map(drop)
}

/// Binds a packet socket to an interface, whose packets it receives.
pub fn bind_packet(fd: BorrowedFd, interface: i32) -> io::Result<()> {
    bind_link(fd, interface, u16::try_from(libc::ETH_P_ALL).expect("3"))
}

/// Binds a packet socket to an interface, to which it sends. The socket receives nothing.
pub fn bind_packet_to_send(fd: BorrowedFd, interface: i32) -> io::Result<()> {
    bind_link(fd, interface, 0)
}

/// Lets a packet socket receive only packets that arrive, not those that leave.
pub fn ignore_outgoing(fd: BorrowedFd) -> io::Result<()> {
    // PACKET_IGNORE_OUTGOING (include/uapi/linux/if_packet.h, Linux 4.20).
    set(fd, libc::SOL_PACKET, 23, 1)
}

fn bind_link(fd: BorrowedFd, interface: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeroes are a valid sockaddr_ll.
    let mut at: libc::sockaddr_ll = unsafe { zeroed() };
    at.sll_family = u16::try_from(libc::AF_PACKET).expect("17");
    at.sll_protocol = protocol.to_be();
    at.sll_ifindex = interface;
    // SAFETY: a sockaddr_ll and its length.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len_of::<libc::sockaddr_ll>()) })
        .map(drop)
}
