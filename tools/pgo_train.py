"""Runs what a profile of the native module is taken from: cases of many kinds, and what is done with their recordings.

    python tools/pgo_train.py

None of them is a scenario of `make bench`: rates, delays, sizes and most settings differ, so that the benchmark says
what a profile does for runs that it has not seen. Everything happens in this process, because a module that counts
writes its counts when its process ends by itself. Prints one checksum of all recordings: a module that was built with a
profile must come to the same.
"""

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

from tcpassay import _native

Triples = dict[str, Any]

# A data centre, a long path, and one between them; virtual time that takes some 40 ms each.
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
    {"stack.profile": "linux", "stack.cc": "vegas", "queue.kind": "fq_codel"},
    {"stack.profile": "linux-4.6", "stack.cc": "dctcp"} | STEP,
    {"stack.profile": "rfc", "stack.cc": "reno"},
    {"stack.profile": "rfc", "stack.cc": "cubic", "stack.ecn": "accurate", "queue.ecn_mark": "data"},
    {"stack.profile": "rfc", "stack.cc": "vegas"},
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
    """Every stack over every network, the paths in turn; then other applications, with two stacks each."""
    pairs = [*itertools.product(STACKS, NETWORKS), *itertools.product(STACKS[:2], WORKLOADS)]
    for (stack, around), path in zip(pairs, itertools.cycle(PATHS), strict=False):
        yield path | stack | around


def train(triples: Triples, number: int) -> str:
    """Runs a case as a worker does, some with series and some with an event log that is looked at; gives its digest."""
    collect = {
        "series": "1ms" if number % 5 == 0 else None,
        "warmup": "0s",
        "deliveries": False,
        "events": number % 7 == 0,
        "packets": False,
    }
    ran = _native.run_held(triples, seed=number, base="/", collect=collect)
    if len(ran):
        ran.numbers()
    return f"{ran.trace} {ran.digest()} {len(ran.metrics)}"


def main() -> None:
    """Runs them all."""
    digests = [train(triples, number) for number, triples in enumerate(cases())]
    checksum = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    print(f"{len(digests)} cases, {checksum[:16]}")


if __name__ == "__main__":
    main()
