"""What a transfer or a request waits for: the host's limits, delays that every request has, silences with lost data."""

from pathlib import Path
from typing import Any

import pytest

from tcpassay import _native
from tcpassay.judge import Finding, judge
from tcpassay.recording import Recording

COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}
LINUX = {"stack.profile": "linux", "link.rate": "100Mbit", "link.delay": "20ms", "app.duration": "2s"}
REQUESTS = {
    "stack.profile": "linux", "app.workload": "rpc", "app.request": "1500B", "app.think": "20ms", "link.delay": "500us",
    "app.duration": "3s",
}  # fmt: skip


def found(folder: Path, triples: dict[str, Any], oracle: str) -> tuple[Recording, list[Finding]]:
    _native.run_case(triples, 1, str(folder), COLLECT, str(folder / "recording"))
    recording = Recording.open(folder / "recording")
    return recording, [one for one in judge(recording.folder) if one.oracle == oracle]


@pytest.mark.parametrize(
    ("setting", "host", "limit", "text"),
    [
        (
            {"app.sndbuf": "32KB"},
            "sender",
            "send_buffer",
            "writes waited for room in it (it is set to 32KB)",
        ),
        (
            {"app.rcvbuf": "32KB"},
            "receiver",
            "receive_window",
            "the receive window was used up (it is set to 32KB)",
        ),
    ],
)
def test_a_buffer_below_the_bandwidth_delay_product_is_named(
    tmp_path: Path, setting: dict[str, str], host: str, limit: str, text: str
) -> None:
    recording, findings = found(tmp_path, LINUX | setting, "host-limit")
    times = recording.flows[0]["tcp"]["limits"]
    assert (times[limit] or 0) > 0.9 * sum(time or 0 for time in times.values())
    assert [(one.host, one.severity) for one in findings] == [(host, "note")]
    assert text in findings[0].text
    assert "of 100000 kbit/s, the flow's share of the path" in findings[0].text


@pytest.mark.parametrize(
    "setting", [{}, {"link.loss": "2%"}, {"app.duration": "500ms", "app.sndbuf": "32KB"}]
)
def test_a_path_a_loss_and_a_short_transfer_are_not_a_limit_of_the_host(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    assert found(tmp_path, LINUX | setting, "host-limit")[1] == []


def test_the_times_of_a_sender_are_the_whole_time_since_its_handshake(tmp_path: Path) -> None:
    recording, _ = found(tmp_path, LINUX | {"link.loss": "1%"}, "host-limit")
    times = recording.flows[0]["tcp"]["limits"]
    assert (times["recovery"] or 0) > 0
    # The handshake takes one round trip of 40 ms and two transmissions of short packets.
    assert 1.959e9 < sum(time or 0 for time in times.values()) < 1.96e9


def test_nagle_with_delayed_acks_is_found_when_every_request_waits(tmp_path: Path) -> None:
    _, findings = found(tmp_path, REQUESTS | {"app.write_size": "300B"}, "latency-tail")
    assert [one.title.rpartition(": ")[2] for one in findings] == ["most requests wait for a delayed ACK"]
    assert "longer than the time of the path" in findings[0].text
    _, findings = found(
        tmp_path / "nodelay", REQUESTS | {"app.write_size": "300B", "app.nodelay": True}, "latency-tail"
    )
    assert findings == []


def test_a_silence_with_lost_data_names_the_timer_that_ended_it(tmp_path: Path) -> None:
    hole = {"link.mtu": "1400B", "link.icmp": "off", "app.duration": "20s"}
    recording, findings = found(tmp_path, LINUX | hole, "silence-with-losses")
    assert sum(flow["tcp"]["timeouts"] or 0 for flow in recording.flows) >= 5
    assert [(one.host, one.severity) for one in findings] == [("sender", "note")]
    assert "the timer Rto ended the silence; the retransmission timer had been set to" in findings[0].text
    assert found(tmp_path / "lossy", LINUX | {"link.loss": "1%"}, "silence-with-losses")[1] == []
