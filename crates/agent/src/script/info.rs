//! The fields of `TCP_INFO` of a socket, by the names in code blocks.

use std::os::fd::RawFd;
use tcpassay_linux::syscall;
use tcpassay_linux::tcp_info::field;

fn ask(fd: RawFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 512];
    let len = syscall::get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

/// The value of a field; `None` if the kernel does not have it.
pub fn look(fd: RawFd, name: &str) -> Option<i64> {
    field(&ask(fd)?, name)
}

/// A word of `SO_MEMINFO` (`include/uapi/linux/sock_diag.h`).
pub fn memory(fd: RawFd, name: &str) -> Option<i64> {
    const SO_MEMINFO: i32 = 55;
    let mut bytes = vec![0; 64];
    let len = syscall::get(fd, libc::SOL_SOCKET, SO_MEMINFO, &mut bytes).ok()?;
    let at = if name == "SK_MEMINFO_RMEM_ALLOC" { 0 } else { 4 };
    let word = bytes[..len].get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().expect("4 bytes")).into())
}

/// The state of a connection as lines of text, for the report of a failure.
pub fn words(fd: RawFd) -> Vec<String> {
    let Some(info) = ask(fd) else { return Vec::new() };
    let line = |names: &[&str]| {
        let one = |name: &&str| Some(format!("{} {}", name.trim_start_matches("tcpi_"), field(&info, name)?));
        names.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let first =
        ["tcpi_state", "tcpi_ca_state", "tcpi_snd_cwnd", "tcpi_snd_ssthresh", "tcpi_unacked", "tcpi_sacked"];
    let second =
        ["tcpi_lost", "tcpi_retrans", "tcpi_rtt", "tcpi_rto", "tcpi_reordering", "tcpi_notsent_bytes"];
    vec![format!("TCP_INFO: {}", line(&first)), format!("          {}", line(&second))]
}
