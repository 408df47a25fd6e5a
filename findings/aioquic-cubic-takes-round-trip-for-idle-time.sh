#!/bin/sh
# aioquic 1.7.2: CUBIC takes the round-trip time for idle time, and at two seconds never leaves its initial window.
#
# Expected by most: a controller that starts again after an idle period (here 2 s) measures it from the last packet or
# ACK, and a sender with packets in flight is not idle (RFC 9002 section 7.8, RFC 5681 section 4.1). Seen: it is
# measured from the time at which the packet that was acknowledged last had been *sent*. Where a round trip takes 2 s,
# each packet that an ACK releases comes "after 2 s of idle time": the window becomes 10 packets again, and the
# slow-start threshold is forgotten. Reno of the same version doubles as it should. A deep buffer or a satellite link
# with a proxy reaches such times, and an emulated path of 1 s each way shows a throughput of ten packets a round trip
# without any loss.
# Needs: python3 with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check aioquic==1.7.2
cat > show.py <<'PY'
from aioquic import tls
from aioquic.quic.congestion import cubic, reno  # noqa: F401 (they register themselves)
from aioquic.quic.congestion.base import create_congestion_control
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket

SIZE = 1200


def windows(name: str, rtt: float) -> list[int]:
    """The window after each round trip, in packets: each ACK releases what it allows."""
    control = create_congestion_control(name, max_datagram_size=SIZE)
    flight, number, seen = [], 0, []
    for turn in range(6):
        now = 1.0 + turn * rtt
        sent = []
        for packet in flight or [None]:
            if packet is not None:
                control.on_packet_acked(now=now, packet=packet)
                control.on_rtt_measurement(now=now, rtt=rtt)
            while control.bytes_in_flight + SIZE <= control.congestion_window:
                sent.append(
                    QuicSentPacket(
                        epoch=tls.Epoch.ONE_RTT, in_flight=True, is_ack_eliciting=True, is_crypto_packet=False,
                        packet_number=number, packet_type=QuicPacketType.ONE_RTT, sent_bytes=SIZE, sent_time=now,
                    )
                )
                control.on_packet_sent(packet=sent[-1])
                number += 1
        flight = sent
        seen.append(control.congestion_window // SIZE)
    return seen


for name in ("reno", "cubic"):
    for rtt in (0.1, 1.9, 2.1):
        print(f"{name}, RTT {rtt} s:", *windows(name, rtt))
PY
seen=$(venv/bin/python show.py)
echo "$seen"
[ "$seen" = "reno, RTT 0.1 s: 10 20 40 80 160 320
reno, RTT 1.9 s: 10 20 40 80 160 320
reno, RTT 2.1 s: 10 20 40 80 160 320
cubic, RTT 0.1 s: 10 20 40 80 160 320
cubic, RTT 1.9 s: 10 20 40 80 160 320
cubic, RTT 2.1 s: 10 10 10 10 10 10" ]
