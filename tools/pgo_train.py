"""The workload for profile-guided optimisation of the native module: cases of many kinds, and uses of their recordings.

    python tools/pgo_train.py

The cases differ from the scenarios of `make bench` in rates, delays, sizes and most settings, so that the benchmark
measures the effect of the profile on other runs. Everything runs in this process, because an instrumented module writes
its counts when its process exits normally. The output is a checksum of all recordings, which must be identical for a
module that was built with the profile.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

from tcpassay import _native

Triples = dict[str, Any]

# A data centre, a long path, and one between them; each run takes about 40 ms of real time.
PATHS: tuple[Triples, ...] = (
    {"link.rate": "5Gbit", "link.delay": "20us", "queue.limit": "300KB", "app.duration": "60ms"},
    {"link.rate": "400Mbit", "link.delay": "8ms", "queue.limit": "1200KB", "app.duration": "1500ms"},
    {"link.rate": "2500Mbit", "link.delay": "300us", "queue.limit": "600KB", "app.duration": "150ms"},
)
STEP: Triples = {"stack.ecn": "dctcp", "queue.ecn_mark": "data", "queue.ecn_threshold": "60KB"}
STACKS: tuple[Triples, ...] = (
    {"stack.profile": "linux", "stack.cc": "cubic"},
    {"stack.profile": "linux", "stack.cc": "dctcp"} | STEP,
    {"stack.profile": "linux", "stack.cc": "reno", "stack.ecn": "classic"}
    | {"queue.kind": "red", "queue.ecn": True},
    {"stack.profile": "linux-6.1", "stack.cc": "vegas", "queue.kind": "fq_codel"},
    {"stack.profile": "linux-7.3", "stack.cc": "bbr"},
    {"stack.profile": "linux-4.6", "stack.cc": "dctcp"} | STEP,
    {"stack.profile": "rfc", "stack.cc": "reno"},
    {"stack.profile": "rfc", "stack.cc": "cubic", "stack.ecn": "accurate", "queue.ecn_mark": "data"},
    {"stack.profile": "freebsd", "stack.cc": "cubic"},
    {"stack.profile": "freebsd-rack", "stack.cc": "reno"},
)
NETWORKS: tuple[Triples, ...] = (
    {},
    {"app.flows": 12},
    {"app.flows": 60},
    {"link.loss": "0.3%"},
    {"link.loss_model": "gilbert-elliott:0.2%,30%", "app.flows": 4},
    {"link.reorder": "1%:5", "link.duplicate": "0.1%"},
    {"nic.tso": True, "nic.gro": True, "nic.rx_usecs": "20us"},
    {"topology": "dumbbell:3", "link.jitter": "5us"},
    {"topology": "star:9"},
    {"topology": "racks:2x3", "rack.hosts": 3, "nic.ecn_threshold": "50KB"},
)
WORKLOADS: tuple[Triples, ...] = (
    {"app.workload": "rpc", "app.request": "20KB", "app.flows": 8},
    {"app.workload": "rpc-open", "app.arrival": "poisson:2000/s", "app.request": "websearch"},
    {"app.workload": "onoff", "app.gap": "2ms"},
    {"app.workload": "incast", "topology": "star:7"},
    {"app.workload": "paced", "app.rate": "200Mbit", "app.background": "bulk:1:cubic"},
)


def cases() -> Iterator[Triples]:
    """The cases: every stack over every network, with alternating paths; then other applications with two stacks."""
    pairs = [*itertools.product(STACKS, NETWORKS), *itertools.product(STACKS[:2], WORKLOADS)]
    for (stack, around), path in zip(pairs, itertools.cycle(PATHS), strict=False):
        yield path | stack | around


JUDGED = 3
"""One of so many cases is judged."""
ORACLES = [oracle["name"] for oracle in json.loads(_native.oracles_json())]


def train(triples: Triples, number: int) -> str:
    """Runs a case like a worker, some with series, and some with a log for all oracles. Returns a digest."""
    collect = {
        "series": "1ms" if number % 5 == 0 else None,
        "warmup": "0s",
        "deliveries": False,
        "events": number % JUDGED == 0,
        "packets": False,
    }
    ran = _native.run_held(triples, seed=number, base="/", collect=collect)
    if len(ran):
        ran.judged(ORACLES)
        ran.reached()
    return f"{ran.trace} {ran.digest()} {len(ran.metrics)}"


def main() -> None:
    """Runs all cases and prints the checksum."""
    digests = [train(triples, number) for number, triples in enumerate(cases())]
    checksum = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    print(f"{len(digests)} cases, {checksum[:16]}")


if __name__ == "__main__":
    main()
