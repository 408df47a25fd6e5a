use super::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

fn tcp() -> OwnedFd {
    socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).unwrap()
}

#[test]
fn a_connection_over_loopback_is_opened_accepted_used_and_closed() {
    let (listener, client) = (tcp(), tcp());
    bind(listener.as_fd(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(listener.as_fd(), 1).unwrap();
    let address = local_address(listener.as_fd()).unwrap();
    assert_eq!(accept(listener.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    connect(client.as_fd(), address).unwrap();
    let epoll = epoll().unwrap();
    watch(epoll.as_fd(), listener.as_fd(), libc::EPOLLIN, 7).unwrap();
    let mut events = Vec::new();
    wait(epoll.as_fd(), &mut events).unwrap();
    assert_eq!(events, [(7, libc::EPOLLIN)]);
    let (server, peer) = accept(listener.as_fd()).unwrap();
    assert_eq!(peer, local_address(client.as_fd()).unwrap());
    assert_eq!(send(client.as_fd(), &[0; 100]).unwrap(), 100);
    while readable(server.as_fd()).unwrap() < 100 {
        std::thread::yield_now();
    }
    assert_eq!(discard(server.as_fd(), 30).unwrap(), 30);
    assert_eq!((receive(server.as_fd(), &mut [0; 100]).unwrap(), readable(server.as_fd()).unwrap()), (70, 0));
    shutdown_write(client.as_fd()).unwrap();
    assert_eq!(
        discard_all(
            {
                make_blocking(server.as_fd()).unwrap();
                server.as_fd()
            },
            10
        )
        .unwrap(),
        0
    );
}

#[test]
fn options_are_set_and_read_back() {
    let socket = tcp();
    set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).unwrap();
    assert_eq!(get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap(), 1);
    // ENOPROTOOPT is 92 (asm-generic/errno.h).
    assert_eq!(get(socket.as_fd(), libc::IPPROTO_TCP, 9999).unwrap_err().raw_os_error(), Some(92));
}

#[test]
fn an_eventfd_is_readable_until_it_is_reset() {
    let eventfd = eventfd().unwrap();
    assert_eq!(eventfd_reset(eventfd.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    eventfd_add(eventfd.as_fd()).unwrap();
    eventfd_add(eventfd.as_fd()).unwrap();
    eventfd_reset(eventfd.as_fd()).unwrap();
    assert_eq!(eventfd_reset(eventfd.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_timer_for_an_instant_in_the_past_is_readable() {
    let (timer, epoll) = (timer().unwrap(), epoll().unwrap());
    watch(epoll.as_fd(), timer.as_fd(), libc::EPOLLIN, 1).unwrap();
    set_timer(timer.as_fd(), now() - 1).unwrap();
    let mut events = Vec::new();
    wait(epoll.as_fd(), &mut events).unwrap();
    assert_eq!(events, [(1, libc::EPOLLIN)]);
}

#[test]
fn two_datagrams_are_received_in_one_call() {
    let udp = || socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
    let (from, to) = (udp(), udp());
    bind(to.as_fd(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = local_address(to.as_fd()).unwrap();
    for len in [3, 5] {
        assert_eq!(send_to(from.as_fd(), &vec![0; len], address).unwrap(), len);
    }
    let (mut one, mut two) = ([0; 10], [0; 10]);
    assert_eq!(receive_two(to.as_fd(), [&mut one, &mut two]).unwrap(), [3, 5]);
}

#[test]
fn datagrams_with_the_same_bytes_are_sent_in_one_call() {
    let udp = || socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
    let (from, to) = (udp(), udp());
    bind(to.as_fd(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    connect(from.as_fd(), local_address(to.as_fd()).unwrap()).unwrap();
    assert_eq!(send_datagrams(from.as_fd(), &[7; 3], 2).unwrap(), 2);
    let (mut one, mut two) = ([0; 10], [0; 10]);
    assert_eq!(receive_two(to.as_fd(), [&mut one, &mut two]).unwrap(), [3, 3]);
    assert_eq!([&one[..3], &two[..3]], [[7; 3]; 2]);
    let error = send_datagrams(from.as_fd(), &vec![0; 70_000], 2).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
}

#[test]
fn a_filter_that_returns_zero_drops_every_datagram() {
    let udp = || socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
    let (from, to) = (udp(), udp());
    bind(to.as_fd(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = local_address(to.as_fd()).unwrap();
    // BPF_RET | BPF_K is 0x06 (linux/bpf_common.h).
    attach_filter(to.as_fd(), &DROP_ALL).unwrap();
    send_to(from.as_fd(), &[0; 3], address).unwrap();
    assert_eq!(receive(to.as_fd(), &mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn the_loopback_device_has_an_index_and_other_names_have_none() {
    assert!(interface_index("lo").unwrap() > 0);
    // ENODEV is 19.
    assert_eq!(interface_index("no-such-device").unwrap_err().raw_os_error(), Some(19));
}
