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
    memory_word(&bytes[..len], name)
}

/// A word of an answer of `SO_MEMINFO`: the first is `SK_MEMINFO_RMEM_ALLOC`, the second `SK_MEMINFO_RCVBUF`.
fn memory_word(answer: &[u8], name: &str) -> Option<i64> {
    let at = if name == "SK_MEMINFO_RMEM_ALLOC" { 0 } else { 4 };
    let word = answer.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().expect("4 bytes")).into())
}

/// The state of a connection as lines of text, for the report of a failure.
pub fn words(fd: RawFd) -> Vec<String> {
    ask(fd).map_or_else(Vec::new, |info| lines(&info))
}

/// The lines about an answer of `TCP_INFO`. Fields that the kernel does not have are left out.
fn lines(info: &[u8]) -> Vec<String> {
    let line = |names: &[&str]| {
        let one = |name: &&str| Some(format!("{} {}", name.trim_start_matches("tcpi_"), field(info, name)?));
        names.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let first =
        ["tcpi_state", "tcpi_ca_state", "tcpi_snd_cwnd", "tcpi_snd_ssthresh", "tcpi_unacked", "tcpi_sacked"];
    let second =
        ["tcpi_lost", "tcpi_retrans", "tcpi_rtt", "tcpi_rto", "tcpi_reordering", "tcpi_notsent_bytes"];
    vec![format!("TCP_INFO: {}", line(&first)), format!("          {}", line(&second))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_memory_is_the_first_word_of_the_answer_and_the_receive_buffer_the_second() {
        let mut answer = 4352_u32.to_ne_bytes().to_vec();
        answer.extend(131_072_u32.to_ne_bytes());
        assert_eq!(memory_word(&answer, "SK_MEMINFO_RMEM_ALLOC"), Some(4352));
        assert_eq!(memory_word(&answer, "SK_MEMINFO_RCVBUF"), Some(131_072));
    }

    #[test]
    fn a_word_beyond_the_end_of_the_answer_has_no_value() {
        assert_eq!(memory_word(&[1, 0, 0, 0, 2, 0, 0], "SK_MEMINFO_RCVBUF"), None);
        assert_eq!(memory_word(&[], "SK_MEMINFO_RMEM_ALLOC"), None);
    }

    #[test]
    fn the_lines_of_a_failure_contain_only_fields_that_the_kernel_has() {
        // tcpi_state and tcpi_ca_state are the first two bytes; all other fields are beyond the end.
        assert_eq!(lines(&[1, 3]), ["TCP_INFO: state 1, ca_state 3", "          "]);
    }

    #[test]
    fn a_descriptor_that_is_no_socket_has_no_fields() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert_eq!((look(fd, "tcpi_state"), memory(fd, "SK_MEMINFO_RMEM_ALLOC")), (None, None));
        assert_eq!(words(fd), Vec::<String>::new());
    }
}
