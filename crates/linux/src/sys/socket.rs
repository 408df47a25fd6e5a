//! System calls on sockets of TCP and UDP over IPv4.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use super::call::{check, count, len_of};
use std::io;
use std::mem::zeroed;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// socket(2) with `SOCK_CLOEXEC`.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// setsockopt(2) with a value of any type, as bytes.
pub fn set_bytes(fd: BorrowedFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).expect("short options");
    // SAFETY: the kernel reads `len` bytes of the slice.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), len) }).map(drop)
}

/// setsockopt(2) with an int.
pub fn set(fd: BorrowedFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, option, &value.to_ne_bytes())
}

/// getsockopt(2) into `buffer`. Returns the length of the value.
pub fn get_bytes(fd: BorrowedFd, level: i32, option: i32, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(buffer.len()).expect("short options");
    // SAFETY: the kernel writes at most `len` bytes into the slice, and says how many.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, buffer.as_mut_ptr().cast(), &raw mut len)
    })?;
    Ok(len as usize)
}

/// getsockopt(2) of an int.
pub fn get(fd: BorrowedFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value = [0; 4];
    get_bytes(fd, level, option, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

fn address(at: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: u16::try_from(libc::AF_INET).expect("2"),
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

fn address_back(at: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(u32::from_be(at.sin_addr.s_addr)), u16::from_be(at.sin_port))
}

/// bind(2).
pub fn bind(fd: BorrowedFd, at: SocketAddrV4) -> io::Result<()> {
    let at = address(at);
    // SAFETY: a sockaddr_in and its length.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len_of::<libc::sockaddr_in>()) })
        .map(drop)
}

/// connect(2). `EINPROGRESS` is success.
pub fn connect(fd: BorrowedFd, to: SocketAddrV4) -> io::Result<()> {
    let to = address(to);
    // SAFETY: a sockaddr_in and its length.
    let code =
        unsafe { libc::connect(fd.as_raw_fd(), (&raw const to).cast(), len_of::<libc::sockaddr_in>()) };
    match check(code) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(drop),
    }
}

/// listen(2).
pub fn listen(fd: BorrowedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// accept4(2). Returns a non-blocking socket and the address of its peer.
pub fn accept(fd: BorrowedFd) -> io::Result<(OwnedFd, SocketAddrV4)> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut peer: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes at most `len` bytes of the address.
    let got = check(unsafe { libc::accept4(fd.as_raw_fd(), (&raw mut peer).cast(), &raw mut len, flags) })?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok((unsafe { OwnedFd::from_raw_fd(got) }, address_back(&peer)))
}

/// getsockname(2).
pub fn local_address(fd: BorrowedFd) -> io::Result<SocketAddrV4> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut here: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    // SAFETY: the kernel writes at most `len` bytes of the address.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut here).cast(), &raw mut len) })?;
    Ok(address_back(&here))
}

/// send(2) with `MSG_DONTWAIT` and `MSG_NOSIGNAL`.
pub fn send(fd: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the slice.
    count(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// shutdown(2) of the outgoing direction.
pub fn shutdown_write(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// sendto(2) with `MSG_DONTWAIT` and `MSG_NOSIGNAL`.
pub fn send_to(fd: BorrowedFd, bytes: &[u8], to: SocketAddrV4) -> io::Result<usize> {
    let to = address(to);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the slice and the address.
    count(unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
            (&raw const to).cast(),
            len_of::<libc::sockaddr_in>(),
        )
    })
}

/// recv(2) with `MSG_DONTWAIT`.
pub fn receive(fd: BorrowedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of the slice.
    count(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

/// recvfrom(2) with `MSG_DONTWAIT`. Returns the length of a datagram and the address of its sender.
pub fn receive_from(fd: BorrowedFd, into: &mut [u8]) -> io::Result<(usize, SocketAddrV4)> {
    // SAFETY: all zeroes are a valid sockaddr_in.
    let mut peer: libc::sockaddr_in = unsafe { zeroed() };
    let mut len = len_of::<libc::sockaddr_in>();
    // SAFETY: the kernel writes at most the length of the slice, and at most `len` bytes of the address.
    let got = count(unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            into.as_mut_ptr().cast(),
            into.len(),
            libc::MSG_DONTWAIT,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok((got, address_back(&peer)))
}

/// Sends the same datagram `times` times, at most 1024, from a connected socket in one call (sendmmsg(2)), with `MSG_DONTWAIT` and
/// `MSG_NOSIGNAL`. Returns how many were sent; an error is that of the first one.
pub fn send_datagrams(fd: BorrowedFd, bytes: &[u8], times: usize) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zeroes are a valid mmsghdr: no address, no control data, nothing to send.
    let mut header: libc::mmsghdr = unsafe { zeroed() };
    header.msg_hdr.msg_iov = &raw mut part;
    header.msg_hdr.msg_iovlen = 1;
    let mut headers = vec![header; times.min(1024)];
    let number = libc::c_uint::try_from(headers.len()).expect("at most 1024");
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: so many headers, each with one part, which is the slice; the kernel only reads it.
    let sent = check(unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), number, flags) })?;
    Ok(sent.cast_unsigned() as usize)
}

/// Receives up to two messages in one call (recvmmsg(2)). Returns their lengths; 0 if there is no message.
pub fn receive_two(fd: BorrowedFd, into: [&mut [u8]; 2]) -> io::Result<[usize; 2]> {
    let mut parts = into.map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
    // SAFETY: all zeroes are a valid mmsghdr: no address, no control data, nothing to write to.
    let mut headers: [libc::mmsghdr; 2] = unsafe { zeroed() };
    for (header, part) in headers.iter_mut().zip(&mut parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: two headers, each with one part that is a slice of the caller's; the kernel writes at most its length.
    let n = check(unsafe {
        libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), 2, libc::MSG_DONTWAIT, std::ptr::null_mut())
    })?;
    let len = |at: usize| if at < n.cast_unsigned() as usize { headers[at].msg_len as usize } else { 0 };
    Ok([len(0), len(1)])
}

/// Discards up to `n` readable bytes of a TCP stream (tcp(7), `MSG_TRUNC`). Returns how many.
pub fn discard(fd: BorrowedFd, n: usize) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so that the pointer is never used.
    count(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), n, flags) })
}

/// Discards `n` bytes of a TCP stream, and waits for them (`MSG_WAITALL`). Returns fewer at the end of the stream.
pub fn discard_all(fd: BorrowedFd, n: usize) -> io::Result<usize> {
    let flags = libc::MSG_WAITALL | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so that the pointer is never used.
    count(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), n, flags) })
}

/// Sends the same bytes `times` times (at most 1024) in one call of sendmsg(2). Returns when they are in the send buffer.
pub fn send_again(fd: BorrowedFd, bytes: &[u8], times: usize) -> io::Result<usize> {
    let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut parts = vec![part; times];
    // SAFETY: all zeroes are a message without address and control data.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: the kernel reads the parts, each the slice; both outlive the call.
    count(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
}

/// Clears `O_NONBLOCK`, for all descriptors of the socket.
pub fn make_blocking(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) }).map(drop)
}

/// The number of bytes that a read would return (`FIONREAD`).
pub fn readable(fd: BorrowedFd) -> io::Result<u64> {
    let mut n: libc::c_int = 0;
    // SAFETY: this request writes one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut n) })?;
    Ok(u64::try_from(n).unwrap_or(0))
}
