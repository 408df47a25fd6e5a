#!/bin/sh
# PyTCP 0.3.8 (pmd-pytcp, with pmd-net-proto 0.0.3): about one packet of 65,536 has a wrong checksum.
#
# Expected by most: a checksum of RFC 1071 is folded until no carry is left; the last fold can leave one more. Seen: inet_cksum folds
# 64 bits to 32, these to 16, and that once more. If the result is 65,536, its lower 16 bits are 0 and the checksum is 65,535, where
# 65,534 is right. The receiver drops such a segment, and a timer sends it again, with the same bytes and the same checksum if nothing
# in it changes.
# Needs: python3 with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pmd-pytcp==0.3.8 pmd-net-proto==0.0.3
cat > show.py <<'PY'
import struct
import sys

from pmd_net_proto.lib.inet_cksum import inet_cksum


def rfc_1071(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


data = bytes.fromhex("00010000ffffffff")
print(f"RFC 1071:   {rfc_1071(data):#06x}")
print(f"inet_cksum: {inet_cksum(data):#06x}")
if (rfc_1071(data), inet_cksum(data)) != (0xFFFE, 0xFFFF):
    sys.exit("the behaviour has changed")
PY
venv/bin/python show.py
