"""`tcpassay limiter` on a device in a namespace of the test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

SPACE = f"tcpassay-test-{os.getpid()}"


def inside(*command: str, fails: bool = False) -> str:
    """What a command says in the namespace; its errors, when it must fail."""
    done = subprocess.run(
        ["ip", "netns", "exec", SPACE, *command], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == fails, done
    return done.stderr if fails else done.stdout


def limiter(*words: str, fails: bool = False) -> Any:
    said = inside(sys.executable, "-m", "tcpassay", "limiter", *words, fails=fails)
    return json.loads(said) if "--json" in words else said


def qdiscs() -> str:
    return inside("tc", "qdisc") + inside("tc", "filter", "show", "dev", "v0", "ingress")


@pytest.fixture(autouse=True)
def _space(bpf: None) -> Iterator[None]:  # noqa: ARG001 - it skips
    subprocess.run(["ip", "netns", "add", SPACE], check=True)
    try:
        inside("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        inside("ip", "link", "set", "v0", "up")
        inside("ip", "link", "set", "v1", "up")
        yield
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=True)


def apply(*more: str, fails: bool = False) -> Any:
    usual = {"--rate": "2Gbit", "--threshold": "30KB", "--mark": "data"}
    given = [word for name, value in usual.items() if name not in more for word in (name, value)]
    return limiter("apply", "v0", *given, *more, fails=fails)


def test_a_limiter_is_applied_changed_and_removed_and_the_device_is_as_before() -> None:
    before = qdiscs()
    first = apply("--json")
    assert {
        name: first[name] for name in ("device", "rate_bps", "limit_bytes", "threshold_bytes", "mark")
    } == {
        "device": "v0",
        "rate_bps": 2_000_000_000,
        "limit_bytes": 25_000_000,
        "threshold_bytes": 30_000,
        "mark": "data",
    }
    there = qdiscs()
    assert "htb 7ca5:" in there
    apply()
    assert qdiscs() == there
    changed = limiter("apply", "v0", "--rate", "500Mbit", "--threshold", "20KB", "--mark", "ack", "--json")
    assert (changed["rate_bps"], changed["threshold_bytes"], changed["mark"]) == (500_000_000, 20_000, "ack")
    assert inside("tc", "filter", "show", "dev", "v0", "egress") == ""
    # What the system itself sends meanwhile is counted.
    shown = limiter("show", "v0", "--json")
    assert shown | {"sent_bytes": 0} == changed | {"sent_bytes": 0}
    assert "ECE on returning ACKs above 20000 B" in limiter("show", "v0")
    limiter("remove", "v0")
    assert qdiscs() == before
    limiter("remove", "v0")
    assert limiter("show", "v0", "--json") is None


def test_a_queue_discipline_of_another_program_is_refused_and_not_changed() -> None:
    inside("tc", "qdisc", "add", "dev", "v0", "root", "bfifo", "limit", "30000")
    before = qdiscs()
    assert "which is not of `limiter`" in apply(fails=True)
    assert "which is not of `limiter`" in limiter("remove", "v0", fails=True)
    assert qdiscs() == before


def test_hooks_and_filters_of_other_programs_stay() -> None:
    inside("tc", "qdisc", "add", "dev", "v0", "clsact")
    match = ("protocol", "all", "prio", "7", "u32", "match", "u32", "0", "0", "classid", "1:1")
    inside("tc", "filter", "add", "dev", "v0", "egress", *match)
    before = qdiscs() + inside("tc", "filter", "show", "dev", "v0", "egress")
    apply()
    limiter("remove", "v0")
    assert qdiscs() + inside("tc", "filter", "show", "dev", "v0", "egress") == before


def test_wrong_values_say_what_is_allowed_and_change_nothing() -> None:
    before = qdiscs()
    for words, why in (
        (("--rate", "fast"), "--rate fast"),
        (("--threshold", "many"), "--threshold many"),
        (("--threshold", "30MB"), "drops packets before it marks"),
        (("--limit", "x"), "--limit x"),
    ):
        assert why in apply(*words, fails=True)
    said = limiter(
        "apply", "v0; touch /tmp/x", "--rate", "1Gbit", "--threshold", "1KB", "--mark", "data", fails=True
    )
    assert "there is no such device" in said
    assert qdiscs() == before
