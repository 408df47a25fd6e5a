"""Reports of the kernel's checkers in literal consoles."""

from pathlib import Path

from tcpassay.finding import Severity
from tcpassay.kernel.splats import splats
from tcpassay.substrate.kernel import Ended, outcome_of

BOOT = "WARNING: CPU: 0 PID: 1 at arch/um/boot.c:7 boot+0x1/0x2\n---[ end trace 0 ]---\nRun /init as init process\n"
WARNING = """------------[ cut here ]------------
WARNING: CPU: 0 PID: 34 at net/ipv4/tcp_input.c:2999 tcp_fastretrans_alert+0x8e1/0x9d0
CPU: 0 PID: 34 Comm: tcpassay-agent Not tainted 6.1.192-tcpassay #1
Stack:
 60a3b8c0 60a3b8e0 00000000
---[ end trace 0000000000000000 ]---
"""
WARNING_7 = """------------[ cut here ]------------
WARNING: net/ipv4/tcp_input.c:3499 at tcp_fastretrans_alert+0x8e1/0x9d0, CPU#0: tcpassay-agent/34
CPU: 0 UID: 0 PID: 34 Comm: tcpassay-agent Not tainted 7.3.4-tcpassay #1
---[ end trace 0000000000000000 ]---
"""
KASAN = """==================================================================
BUG: KASAN: use-after-free in tcp_shifted_skb+0x1f0/0x880
Read of size 4 at addr 0000000061f2a0d8 by task tcpassay-agent/34
==================================================================
"""
UBSAN = """================================================================================
UBSAN: shift-out-of-bounds in net/ipv4/tcp_dctcp.c:151:23
shift exponent 33 is too large for 32-bit type 'unsigned int'
================================================================================
"""
LOCKDEP = """
======================================================
WARNING: possible circular locking dependency detected
6.1.192-tcpassay #1 Not tainted
------------------------------------------------------
tcpassay-agent/34 is trying to acquire lock:
"""


def titles(console: str) -> list[str]:
    return [one.title for one in splats(BOOT + console)]


def test_a_console_without_reports_has_none() -> None:
    assert (
        titles("device eth0 entered promiscuous mode\nTCP: eth0: Driver has suspect GRO implementation\n")
        == []
    )


def test_console_output_before_init_is_no_report_of_the_case() -> None:
    assert splats(BOOT) == []
    assert splats(WARNING) == []


def test_each_kind_of_report_has_its_place_and_neither_addresses_nor_numbers() -> None:
    assert titles(WARNING) == ["net/ipv4/tcp_input.c tcp_fastretrans_alert"]
    assert titles(WARNING_7) == ["net/ipv4/tcp_input.c at tcp_fastretrans_alert"]
    assert titles(KASAN) == ["KASAN: use-after-free in tcp_shifted_skb"]
    copied = UBSAN.replace(" in net/", " in /root/.cache/tcpassay/trees/debian-6.1/source/net/")
    assert titles(copied) == titles(UBSAN)
    assert titles(UBSAN) == ["UBSAN: shift-out-of-bounds in net/ipv4/tcp_dctcp.c"]
    assert titles(LOCKDEP) == ["possible circular locking dependency detected"]


def test_several_reports_are_separate_and_equal_ones_are_one() -> None:
    later = WARNING.replace("PID: 34", "PID: 99").replace("0x8e1", "0x8e2")
    assert len(titles(WARNING + "between\n" + KASAN + later)) == 2
    first, second = splats(BOOT + WARNING + "between\n" + KASAN)
    assert first.text.splitlines()[-1] == " 60a3b8c0 60a3b8e0 00000000"
    assert second.text.splitlines() == KASAN.splitlines()[1:3]


def test_a_report_is_a_finding_of_the_run_that_ended_with_it(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(
        '{"ended": "finished", "trace": "t", "metrics": {"values": {"goodput": 1.0}}}'
    )
    answer = outcome_of(tmp_path, Ended(BOOT + KASAN, late=False, code=0), 60.0, starved=False)
    assert answer.outcome == "done"
    (found,) = answer.findings
    assert (found.oracle, found.severity) == ("kernel-splat", Severity.ERROR)
    assert found.title == "the kernel reports KASAN: use-after-free in tcp_shifted_skb"
    assert "Read of size 4" in found.text
    quiet = outcome_of(tmp_path, Ended(BOOT, late=False, code=0), 60.0, starved=False)
    assert quiet.findings == []


def test_a_panic_is_named_by_its_reason_and_one_of_a_bug_by_its_place(tmp_path: Path) -> None:
    place = "BUG: failure at net/ipv4/tcp_input.c:2881/tcp_enter_recovery()"
    for console, why in {
        f"<0>{place}!\n<0>Kernel panic - not syncing: BUG!\n": place,
        "<0>Kernel panic - not syncing: Kernel mode fault at addr 0x8\n": "Kernel mode fault at addr 0x8",
    }.items():
        answer = outcome_of(tmp_path, Ended(BOOT + console, late=False, code=-6), 60.0, starved=False)
        assert answer.outcome == "crashed"
        assert answer.message.splitlines()[0] == f"the guest's kernel panicked: {why}"
