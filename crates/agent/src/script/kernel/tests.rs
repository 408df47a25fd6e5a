use super::*;
use tcpassay_script::ast::{Action, ExpectedResult};
use tcpassay_script::parse;

/// A kernel in real time, without a device.
fn kernel() -> Kernel {
    let mut kernel = Kernel::new(false).expect("a thread");
    kernel.environment.local = "192.168.0.1:8080".parse().unwrap();
    kernel.environment.remote = "192.0.2.1:8080".parse().unwrap();
    kernel.gateway = "192.168.0.2".parse().unwrap();
    kernel
}

fn call(name: &str, args: Vec<Expr>) -> Syscall {
    Syscall { name: name.to_owned(), args, result: ExpectedResult { value: None, errno: None }, end: None }
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The packet of a script of one line.
fn packet(line: &str) -> ScriptPacket {
    let script = parse(line).expect("a packet");
    match script.events.into_iter().next().expect("one event").action {
        Action::Packet(packet) => packet,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_route_leads_to_the_network_of_the_peer_with_the_attributes_that_a_script_sets() {
    let mut kernel = kernel();
    assert_eq!(kernel.route_line("add"), "route add 192.0.2.0/24 via 192.168.0.2 dev tun0 ");
    kernel.host.run("ip route change default initcwnd 4", None).expect("a known command");
    kernel.host.run("ip route change default rto_min 30ms", None).expect("a known command");
    kernel.host.run("ip route change default features ecn", None).expect("a known command");
    assert_eq!(
        kernel.route_line("replace"),
        "route replace 192.0.2.0/24 via 192.168.0.2 dev tun0 features ecn initcwnd 4 rto_min 30ms"
    );
    // The packets of a mapped socket are IPv4.
    kernel.host = ScriptHost::default();
    kernel.environment.remote = at("[::ffff:192.0.2.1]:8080");
    assert_eq!(kernel.route_line("add"), "route add 192.0.2.0/24 via 192.168.0.2 dev tun0 ");
    kernel.environment.remote = at("[2001:db8::1]:8080");
    kernel.gateway = "fd3d:fa7b:d17d::2".parse().unwrap();
    assert_eq!(kernel.route_line("add"), "route add 2001:db8::1/128 via fd3d:fa7b:d17d::2 dev tun0 ");
}

#[test]
fn the_allowed_error_is_that_of_the_clock_and_of_the_timer_wheel() {
    let ms = Dur::from_millis;
    let plain = ScriptSettings::default();
    let tolerant = ScriptSettings { tolerance: ms(20), ..ScriptSettings::default() };
    let mut kernel = kernel();
    for (settings, wait, error) in [
        (&plain, Dur::ZERO, ms(4)),
        (&plain, ms(16), ms(4)),
        (&plain, ms(80), ms(10)),
        (&tolerant, Dur::ZERO, ms(20)),
        (&tolerant, ms(800), ms(100)),
    ] {
        assert_eq!(kernel.allowed_time_error(wait, settings), error, "{wait:?}");
    }
    assert_eq!(kernel.packet_timeout(), Dur::from_secs(5));
    // In virtual time: 100 us without a wait, otherwise a tick of 1 ms and an eighth of the wait.
    kernel.virtual_time = true;
    assert_eq!(kernel.allowed_time_error(Dur::ZERO, &tolerant), Dur::from_micros(100));
    assert_eq!(kernel.allowed_time_error(ms(80), &tolerant), ms(11));
}

#[test]
fn a_connection_learns_its_local_port_from_its_first_packet() {
    let mut kernel = kernel();
    let (local, remote) = (at("192.168.0.1:40000"), at("192.0.2.1:8080"));
    assert_eq!(kernel.conn_of(local, remote), None);
    let first = kernel.connect_to(Some(at("192.168.0.1:8080")), remote);
    let second = kernel.connect_to(None, remote);
    assert_eq!(kernel.conn_of(local, remote), Some(second));
    assert_eq!(kernel.conns[second].local, Some(local));
    assert_eq!(kernel.conn_of(at("192.168.0.1:8080"), remote), Some(first));
    assert_eq!(kernel.conn_of(at("192.168.0.1:40001"), remote), None, "every connection has a port");
    assert_eq!(kernel.conn_of(local, at("192.0.2.1:9999")), None);
    // The newest of equal connections counts: an address is used again after a close.
    let again = kernel.connect_to(Some(local), remote);
    assert_eq!(kernel.conn_of(local, remote), Some(again));
}

#[test]
fn an_unknown_connection_to_the_peer_is_that_of_the_calling_socket() {
    let mut kernel = kernel();
    kernel.calling = Some(4);
    assert_eq!(kernel.adopt(at("192.168.0.1:40000"), at("192.0.2.7:8080")), None);
    assert_eq!(kernel.connection_under_test(), None);
    assert_eq!(kernel.adopt(at("192.168.0.1:40000"), at("192.0.2.1:8080")), Some(0));
    assert_eq!((kernel.connection_under_test(), kernel.subject), (Some(0), Some(4)));
    // Addresses of a mapped socket are compared with those of its packets.
    kernel.environment.remote = at("[::ffff:192.0.2.1]:8080");
    assert_eq!(kernel.adopt(at("192.168.0.1:40001"), at("192.0.2.1:8080")), Some(1));
}

#[test]
fn descriptors_have_the_numbers_of_the_script_and_a_closed_one_is_ebadf() {
    let mut kernel = kernel();
    let write = || call("write", vec![Expr::Int(6), Expr::Any, Expr::Int(5)]);
    assert_eq!(kernel.call(&write()), Ok(SyscallResult::errno("EBADF")));
    let ends = Expr::List(vec![Expr::Int(5), Expr::Int(6)]);
    assert_eq!(kernel.call(&call("pipe", vec![ends])), Ok(SyscallResult::Done(0)));
    assert_eq!(kernel.files.keys().copied().collect::<Vec<_>>(), [5, 6]);
    assert_eq!(kernel.call(&write()), Ok(SyscallResult::Done(5)));
    assert_eq!(kernel.call(&call("close", vec![Expr::Int(6)])), Ok(SyscallResult::Done(0)));
    assert_eq!(kernel.call(&write()), Ok(SyscallResult::errno("EBADF")));
    let why = "the descriptors of a pipe must have the form `[5, 6]`".to_owned();
    assert_eq!(kernel.call(&call("pipe", vec![Expr::Int(5)])), Err(ScriptError::Unsupported(why)));
    // A new descriptor without a number follows the largest one.
    assert_eq!(kernel.name_descriptor(None), 6);
    assert_eq!(kernel.name_descriptor(Some(9)), 9);
}

#[test]
fn an_accepted_socket_is_what_code_refers_to() {
    let mut kernel = kernel();
    kernel.subject = Some(3);
    kernel.note(&call("accept", vec![Expr::Int(3)])).expect("no descriptor is needed");
    kernel.name_descriptor(Some(4));
    assert_eq!((kernel.accepting, kernel.subject, kernel.calling), (true, Some(4), Some(3)));
    kernel.note(&call("socket", vec![])).expect("a call");
    assert_eq!((kernel.accepting, kernel.subject), (false, None));
    assert_eq!(kernel.value("tcpi_snd_cwnd"), None, "there is no socket");
    assert!(kernel.diagnostics().is_empty());
}

#[test]
fn a_packet_needs_a_socket_whose_port_is_known() {
    let mut kernel = kernel();
    let syn = packet("0 < S 0:0(0) win 1000\n");
    kernel.socket_under_test = SocketUnderTest::Connection(kernel.connect_to(None, at("192.0.2.1:8080")));
    let why = "the connection has sent no packet yet".to_owned();
    assert_eq!(kernel.inject(&syn), Err(ScriptError::Invalid(why)));
    // Each connection of a listener has a port of its own, as long as there are ports.
    kernel.socket_under_test = SocketUnderTest::Listener(at("192.168.0.1:8080"));
    while kernel.conns.len() <= usize::from(u16::MAX - 8080) {
        kernel.connect_to(None, at("192.0.2.1:8080"));
    }
    let why = "more connections than there are ports".to_owned();
    assert_eq!(kernel.inject(&syn), Err(ScriptError::Unsupported(why)));
}

#[test]
fn a_setting_that_is_not_of_the_namespace_or_that_the_kernel_lacks_is_an_error() {
    let mut kernel = kernel();
    let changed = |kernel: &mut Kernel, key: &str, value: &str| {
        let before = kernel.host.clone();
        kernel.host.set(key, value);
        kernel.apply(&before)
    };
    assert_eq!(
        changed(&mut kernel, "module.tcp_cubic.hystart", "0"),
        Err("module.tcp_cubic.hystart=0: it would change this host".to_owned())
    );
    let why = changed(&mut kernel, "net.ipv4.no_such_sysctl", "1").unwrap_err();
    assert!(why.starts_with("sysctl net.ipv4.no_such_sysctl=1: "), "{why}");
    assert_eq!(
        changed(&mut kernel, "net.ipv4.tcp_congestion_control", "no-such-rule"),
        Err("the congestion controller `no-such-rule`: ENOENT from this kernel".to_owned())
    );
    assert_eq!(kernel.environment.controller, "cubic");
    assert_eq!(changed(&mut kernel, "net.ipv4.tcp_congestion_control", "reno"), Ok(()));
    assert_eq!(kernel.environment.controller, "reno");
    // What has not changed is not written again.
    let before = kernel.host.clone();
    assert_eq!(kernel.apply(&before), Ok(()));
}

#[test]
fn without_a_device_nothing_happens_before_a_time() {
    let mut kernel = kernel();
    assert_eq!(kernel.step(Time::MAX), StepResult::Quiet);
    assert_eq!(kernel.next_packet(), None);
    let blocked = call("accept", vec![Expr::Int(3)]);
    assert_eq!(kernel.retry(&blocked), Ok(SyscallResult::Blocks), "no call has returned");
}

#[test]
fn a_packet_longer_than_mss_says_how_long_its_segments_are() {
    // struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size.
    let header = |first: u8, payload: usize, gso| {
        let mut bytes = vec![0; 40 + payload];
        bytes[0] = first;
        let made = merged(gso, &bytes, payload);
        let number = |at: usize| u16::from_ne_bytes([made[at], made[at + 1]]);
        (made[0], made[1], number(2), number(4))
    };
    assert_eq!(header(0x45, 4000, Some(1000)), (0, 1, 40, 1000));
    assert_eq!(header(0x60, 4000, Some(1000)), (0, 4, 40, 1000));
    assert_eq!(header(0x45, 1000, Some(1000)), (0, 0, 0, 0));
    assert_eq!(header(0x45, 4000, None), (0, 0, 0, 0));
}
