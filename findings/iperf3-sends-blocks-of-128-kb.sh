#!/bin/sh
# iperf3 3.12 (Debian 12): over TCP `-n 1000` transfers 131,072 bytes, and `-b 1M` sends a burst of 128 KB each second.
#
# Expected by most: `-n` is the size of the transfer, so that short flows can be timed with it, and `-b` paces at
# least at the interval of --pacing-timer (1 ms). Seen: the unit of both is the block (`-l`), 128 KB for TCP. A
# transfer ends after the block in which the size is reached: the completion time of "1000 bytes" is that of 91
# segments, and the request is echoed in the output as 1000. At 1 Mbit/s one block is written at once when its turn
# comes, and the rate of an interval is 0 or ten times what was asked for. With `-l 1000` both are as expected.
# Needs: Linux, apt-get and dpkg of Debian 12, amd64, python3.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download --quiet=2 iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1=1.0.19+dfsg-2 2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu"
cat > show.py <<'PY'
import json
import subprocess
import sys

PROGRAM = [sys.argv[1], "--port", "15201"]


def run(*options):
    with subprocess.Popen([*PROGRAM, "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if "listening" in line:
                break
        command = [*PROGRAM, "-c", "127.0.0.1", "-J", *options]
        client = subprocess.run(command, capture_output=True, text=True, check=True)
        server.communicate(timeout=20)
    result = json.loads(client.stdout)
    return result["end"]["sum_sent"]["bytes"], [row["sum"]["bytes"] for row in result["intervals"]]


for options in (["-n", "1000"], ["-n", "1000", "-l", "1000"]):
    print(*options, "transfers", run(*options)[0], "bytes")
for options in (["-b", "1M"], ["-b", "1M", "-l", "1000"]):
    _, intervals = run(*options, "-t", "2", "-i", "0.1")
    some = [size for size in intervals if size]
    empty = len(intervals) - len(some)
    how_many = "most" if empty > 10 else "few" if empty < 4 else empty
    largest = "a whole block" if max(some) == 131072 else "less than 26 KB" if max(some) < 26000 else max(some)
    print(*options, f"-i 0.1: {how_many} intervals are empty; the largest has {largest}")
PY
seen=$(python3 show.py root/usr/bin/iperf3)
echo "$seen"
[ "$seen" = "-n 1000 transfers 131072 bytes
-n 1000 -l 1000 transfers 1000 bytes
-b 1M -i 0.1: most intervals are empty; the largest has a whole block
-b 1M -l 1000 -i 0.1: few intervals are empty; the largest has less than 26 KB" ]
