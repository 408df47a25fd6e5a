#!/bin/sh
# aioquic 1.7.2: the RTT variation of a standing queue does not vanish, and the probe timeout is four times longer.
#
# Expected by most: rttvar is the mean deviation of samples from smoothed_rtt (RFC 9002 section 5.3, as RFC 6298
# section 2.3 has it), and vanishes while the round-trip time is constant. Seen: the deviation is taken from min_rtt.
# A path of 20 ms whose queue adds a constant 180 ms gives a variation of 180 ms, and a PTO of 945 ms where RFC 9002
# section 6.2.1 gives 226 ms. A tail loss behind a full buffer is therefore repaired 0.7 s later than with other
# implementations, which looks as if the loss detection differed.
# Needs: python3 with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check aioquic==1.7.2
cat > show.py <<'PY'
from aioquic import tls
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import QuicPacketRecovery, QuicPacketSpace

recovery = QuicPacketRecovery(
    congestion_control_algorithm="reno", initial_rtt=0.1, max_datagram_size=1200,
    peer_completed_address_validation=True, send_probe=lambda: None,
)
recovery.handshake_confirmed = True
space = QuicPacketSpace(is_application_data=True)
recovery.spaces = [space]
# smoothed_rtt and rttvar of RFC 9002 section 5.3.
smoothed, variation = 0.020, 0.010
# The first sample is 20 ms; a queue makes each of the next hundred 200 ms.
for number, sample in enumerate([0.020] + 100 * [0.200]):
    packet = QuicSentPacket(
        epoch=tls.Epoch.ONE_RTT, in_flight=True, is_ack_eliciting=True, is_crypto_packet=False, packet_number=number,
        packet_type=QuicPacketType.ONE_RTT, sent_bytes=1200, sent_time=1.0 + number,
    )
    recovery.on_packet_sent(packet=packet, space=space)
    recovery.on_ack_received(
        ack_rangeset=RangeSet([range(number, number + 1)]), ack_delay=0.0, now=packet.sent_time + sample, space=space
    )
    if number:
        variation = 3 / 4 * variation + 1 / 4 * abs(smoothed - sample)
        smoothed = 7 / 8 * smoothed + 1 / 8 * sample
timeout = smoothed + max(4 * variation, 0.001) + recovery.max_ack_delay
print(f"RFC 9002: PTO {timeout * 1000:.0f} ms")
print(f"aioquic:  PTO {recovery.get_probe_timeout() * 1000:.0f} ms")
PY
seen=$(venv/bin/python show.py)
echo "$seen"
[ "$seen" = "RFC 9002: PTO 226 ms
aioquic:  PTO 945 ms" ]
