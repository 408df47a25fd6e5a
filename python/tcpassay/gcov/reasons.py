"""Why lines of the kernel are not reached: groups of lines by the function and the conditions around them.

The rules are about the sources of Linux. A line belongs to the first rule whose pattern is found in the name of its
function, in its own text, or in the conditions of the blocks that contain it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tcpassay.gcov.catalogue import File

REACHABLE: Final = "reachable"
"""The group of lines for which no rule gives a reason."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A group of lines."""

    name: str
    title: str
    function: re.Pattern[str] | None
    """Found in the name of the function."""
    text: re.Pattern[str] | None
    """Found in the line or in a condition around it."""
    out_of_reach: bool = False
    """Whether no connection without MD5, TCP-AO and repair reaches these lines: the target excludes them."""

    def fits(self, function: str, texts: Iterable[str]) -> bool:
        """Whether a line is in this group."""
        if self.function is not None and self.function.search(function):
            return True
        return self.text is not None and any(self.text.search(one) for one in texts)


def _reason(
    name: str, title: str, *, function: str = "", text: str = "", out_of_reach: bool = False
) -> Reason:
    return Reason(
        name,
        title,
        re.compile(function) if function else None,
        re.compile(text) if text else None,
        out_of_reach,
    )


RULES: Final = (
    _reason(
        "md5",
        "MD5 signatures, TCP-AO",
        function=r"md5|tcp_ao|sigpool",
        text=r"md5|MD5|tcp_ao|TCP_AO|_AO_|tcp_key_",
        out_of_reach=True,
    ),
    _reason(
        "repair",
        "repair of connections (checkpoints)",
        function=r"repair",
        text=r"repair|REPAIR|TCP_QUEUE_SEQ",
        out_of_reach=True,
    ),
    _reason(
        "mptcp",
        "MPTCP, SMC and upper layer protocols, which are not configured",
        function=r"mptcp|_smc|smc_|_ulp",
        text=r"mptcp|have_smc|smc_|SMC|ulp_ops|ULP|psp_",
        out_of_reach=True,
    ),
    _reason(
        "bpf",
        "BPF: programs of sockets and cgroups, iterators, lists of controllers for programs",
        function=r"bpf|sk_msg|psock",
        text=r"bpf_|BPF_|sk_psock|cgroup_",
        out_of_reach=True,
    ),
    _reason(
        "zerocopy",
        "splice, sendfile, zero copy, mapped receive buffers",
        function=r"splice|zerocopy|zc_|mmap|sendpage|read_sock|read_skb|peek_len|recv_skb|devmem",
        text=r"[Ss]plice|SPLICE|zerocopy|ZEROCOPY|zc->|sendpage|uarg|devmem|read_actor",
    ),
    _reason(
        "administration",
        "files of /proc, namespaces, boot, modules, diagnosis",
        function=r"seq_|_proc_|proc_|_init$|_exit$|_net_|register|sysctl|_diag_|_get_info|get_idx|abort$|"
        r"metrics_nl|nlmsg|_dump|_change$|_walk|_stats$|destroy_sock|orphan_count",
        text=r"net_warn|pr_(warn|err|info|debug|crit)|WARN|BUG_ON|panic\(|sysctl_tcp_child",
    ),
    _reason(
        "memory",
        "shortage of memory, failed allocation, corrupt packets",
        function=r"collapse|prune|out_of_memory|memory_pressure|_too_many_orphans|rmem_pressure|checksum|csum",
        text=r"memory_pressure|under_pressure|out_of_memory|ENOMEM|ENOBUFS|alloc|!skb\b|!buff\b|!nskb|!newsk|"
        r"GFP_|csum|checksum|nospace|too_many_orphans|oom|OOM|rmem_schedule|wmem_schedule|drop_mem|kfree",
    ),
    _reason(
        "fastopen",
        "Fast Open and SYN cookies",
        function=r"fastopen|fast_open|cookie|syn_flood",
        text=r"fastopen|FASTOPEN|cookie|COOKIE|syn_data|syn_fastopen|want_cookie",
    ),
    _reason("urgent", "urgent data", function=r"urg", text=r"urg|URG|MSG_OOB|SOCK_URGINLINE"),
    _reason(
        "options",
        "socket options, ioctls, polling and errors of arguments",
        function=r"sockopt|ioctl|poll$|set_congestion|set_keepalive|sock_set_|disconnect|set_rcvlowat|bind_",
        text=r"-E[A-Z]+|MSG_|SOCK_(DEAD|KEEPOPEN|LINGER)|sock_flag|signal_pending|RCV_SHUTDOWN|SEND_SHUTDOWN|"
        r"sk_err\b|copy_(from|to)_|goto (out_err|do_error|err)|has_current|EPOLL",
    ),
    _reason(
        "icmp",
        "ICMP errors, path MTU, IPv6",
        function=r"icmp|_err$|mtu|mtup|v6|ipv6|pmtu|mss_clamp|blackhole",
        text=r"mtup|pmtu|mtu_prob|icmp|ICMP|AF_INET6|ipv6|IPV6|probe_size|black_hole",
    ),
    _reason(
        "segments",
        "segments that a correct peer does not send, resets, simultaneous open and close",
        function=r"reset$|_reset\b|challenge|validate_incoming|simultan|timewait|tw_|oow|paws",
        text=r"->rst|th->fin && th|paws|PAWS|TCP_SYN_RECV|TCP_CLOSING|TCP_LAST_ACK|TCP_TIME_WAIT|discard|"
        r"challenge|SYN_SENT|oow|before\(TCP_SKB_CB|overlap|invalid|bad_packet",
    ),
)
"""The groups in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Group:
    """Lines with a common reason."""

    reason: Reason | None
    """`None` for lines for which no rule gives a reason."""
    lines: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.reason.name if self.reason else REACHABLE

    @property
    def title(self) -> str:
        """The group in words."""
        return self.reason.title if self.reason else "reachable by settings of a case or by a script"


def group(file: File, source: Sequence[str], lines: Iterable[int]) -> list[Group]:
    """The lines of a file by reason; `source` is its text by line."""
    found: dict[str, list[int]] = {}
    for line in lines:
        reason = _reason_of(file.function_of.get(line, ""), source, line)
        found.setdefault(reason.name if reason else REACHABLE, []).append(line)
    by_name = {rule.name: rule for rule in RULES}
    return [
        Group(by_name.get(name), tuple(found[name]))
        for name in (*(rule.name for rule in RULES), REACHABLE)
        if name in found
    ]


def out_of_reach(file: File, source: Sequence[str]) -> list[int]:
    """The lines with code that no connection without MD5, TCP-AO and repair reaches."""
    found = []
    for line in file.lines:
        reason = _reason_of(file.function_of.get(line, ""), source, line)
        if reason is not None and reason.out_of_reach:
            found.append(line)
    return found


def _reason_of(function: str, source: Sequence[str], line: int) -> Reason | None:
    texts = [source[line - 1], *around(source, line)] if 0 < line <= len(source) else []
    return next((rule for rule in RULES if rule.fits(function, texts)), None)


def around(source: Sequence[str], line: int) -> Iterator[str]:
    """The lines that begin the blocks around a line, from the inside; known by indentation, as in Linux's style."""
    depth = _depth(source[line - 1])
    for text in reversed(source[: line - 1]):
        if not text.strip() or text.startswith("#") or (text.rstrip().endswith(":") and "case" not in text):
            continue
        own = _depth(text)
        if own < depth:
            # A line that continues the condition above it is indented deeper than a tab.
            if text.strip() not in {"{", "}"}:
                yield text
            depth = own
        if depth == 0:
            return


def _depth(text: str) -> int:
    """The width of the indentation; a tab has eight columns."""
    expanded = text.expandtabs(8)
    return len(expanded) - len(expanded.lstrip())
