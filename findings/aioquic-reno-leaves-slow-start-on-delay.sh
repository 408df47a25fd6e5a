#!/bin/sh
# aioquic 1.7.2: "reno" leaves slow start for good when the round-trip time is a quarter longer for a few milliseconds.
#
# Expected by most: NewReno, the default of aioquic and the controller of RFC 9002 appendix B, is in slow start until a
# packet is lost or marked (section 7.3.1), so that it can serve as the plain reference. Seen: it contains a delay
# detector that its names do not show. It takes one sample a millisecond, whatever the round is, and when the smallest
# of five samples was five times a quarter above the lowest "largest of five", the window becomes the slow-start
# threshold. There is no lower or upper limit as in HyStart++ (RFC 9406 section 4.2: 4 to 16 ms). Without any loss,
# 12.6 ms more on a path of 50 ms end the exponential growth at 209 packets, and 12 ms more do not; 49 ms more on a
# path of 200 ms do not either. A change of the route or a short queue decides over the throughput of minutes.
# Needs: python3 with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check aioquic==1.7.2
cat > show.py <<'PY'
from aioquic import tls
from aioquic.quic.congestion import reno  # noqa: F401 (it registers itself)
from aioquic.quic.congestion.base import create_congestion_control
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket

SIZE = 1200


def windows(base: float, later: float) -> list[int]:
    """The window after each of ten rounds, in packets; the RTT is `later` seconds longer from the fifth round on."""
    control = create_congestion_control("reno", max_datagram_size=SIZE)
    now, number, seen = 1.0, 0, []
    for turn in range(10):
        rtt = base + (later if turn >= 4 else 0)
        sent = []
        while control.bytes_in_flight + SIZE <= control.congestion_window:
            sent.append(
                QuicSentPacket(
                    epoch=tls.Epoch.ONE_RTT, in_flight=True, is_ack_eliciting=True, is_crypto_packet=False,
                    packet_number=number, packet_type=QuicPacketType.ONE_RTT, sent_bytes=SIZE, sent_time=now,
                )
            )
            control.on_packet_sent(packet=sent[-1])
            number += 1
        # The ACKs of a round come spread over half of an RTT.
        for place, packet in enumerate(sent):
            at = now + rtt + place * rtt / len(sent) / 2
            control.on_packet_acked(now=at, packet=packet)
            control.on_rtt_measurement(now=at, rtt=rtt)
        now += rtt * 1.5
        seen.append(control.congestion_window // SIZE)
    return seen


for base, later in ((0.05, 0), (0.05, 0.012), (0.05, 0.0126), (0.2, 0.049)):
    print(f"RTT {base * 1000:.0f} ms, then {(base + later) * 1000:.1f} ms:", *windows(base, later))
PY
seen=$(venv/bin/python show.py)
echo "$seen"
[ "$seen" = "RTT 50 ms, then 50.0 ms: 20 40 80 160 320 640 1280 2560 5120 10240
RTT 50 ms, then 62.0 ms: 20 40 80 160 320 640 1280 2560 5120 10240
RTT 50 ms, then 62.6 ms: 20 40 80 160 209 210 211 212 213 214
RTT 200 ms, then 249.0 ms: 20 40 80 160 320 640 1280 2560 5120 10240" ]
