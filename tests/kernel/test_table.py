"""The parameter table is correct for kernels: every listed value is accepted, except those in docs/kernel.md."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tcpassay import _native
from tcpassay.substrate.agent import check_case

# The settings that a level requires on any substrate.
CONTEXT: Final[dict[tuple[str, str | None], dict[str, Any]]] = {
    ("app.workload", "rpc-open"): {"app.arrival": "poisson:1000/s"},
    ("app.workload", "paced"): {"app.rate": "10Mbit"},
    ("app.workload", "mix"): {"app.mix": "rpc request=1KB"},
    ("app.mix", None): {"app.workload": "mix"},
    ("app.mix", "none"): {},
    ("app.arrival", None): {"app.flow_size": "100KB"},
    ("stack.cc", "dctcp"): {"stack.ecn": "dctcp"},
    ("stack.ecn", "dctcp"): {"stack.cc": "dctcp"},
    ("stack.dctcp_receiver", None): {"stack.cc": "dctcp", "stack.ecn": "dctcp"},
    ("stack.hystart", None): {"stack.cc": "cubic"},
    ("nic.lro_order", "stale-hash"): {"nic.gro": True},
    ("switch.buffers", None): {"topology": "star:2"},
    ("nic.queue", None): {"nic.rate": "100Mbit"},
    ("link.jitter", None): {"link.delay": "5ms"},
    ("queue.kind", "htb"): {"queue.rate": "500Mbit"},
    ("queue.rate", None): {"queue.kind": "htb"},
    ("queue.rate", "none"): {},
    ("queue.ecn_mark", None): {"stack.ecn": "classic"},
    ("link.icmp", None): {"link.mtu": "1400B"},
    ("app.half_close", None): {"app.workload": "rpc", "app.reuse": "off"},
}


pytestmark = pytest.mark.usefixtures("agent")


def rows(substrate: str) -> list[dict[str, Any]]:
    table = json.loads(_native.params_json())
    every = table["parameters"] if isinstance(table, dict) else table
    return [row for row in every if substrate in row["substrates"]]


def why_not(path: str, level: str, *where: str, **more: Any) -> str | None:
    context = CONTEXT.get((path, level), CONTEXT.get((path, None), {}))
    try:
        check_case(context | more | {path: level}, ".", *where)
    except _native.CaseError as wrong:
        return "; ".join(f"{one[0]}: {one[3]}" for one in wrong.args[0])
    return None


def documented() -> set[tuple[str, str]]:
    """Row and value of the table of refusals."""
    text = (Path(__file__).parents[2] / "docs" / "kernel.md").read_text(encoding="utf-8")
    section = text.partition("### Refused settings")[2].partition("\n## ")[0]
    cells = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {(row.strip(" `"), value) for row, values in cells for value in re.findall(r"`([^`]*)`", values)}


def test_the_documentation_lists_the_levels_that_a_kernel_refuses() -> None:
    refused = {}
    for row in rows("kernel"):
        for level in row["levels"]:
            if why := why_not(row["path"], level):
                refused[row["path"], level] = why
    assert set(refused) == documented(), refused
    assert all("the substrate `kernel` does not support this: " in why for why in refused.values()), refused


@pytest.mark.parametrize("substrate", ["kernel", "host"])
def test_no_row_lists_a_kernel_that_refuses_every_value_but_the_default(substrate: str) -> None:
    where = () if substrate == "kernel" else ("host",)
    # Features that a machine lacks are reported when they are used (docs/host.md) and are not part of the table.
    lacks = ("this kernel has no", "BPF", "clang")
    useless = []
    for row in rows(substrate):
        others = [level for level in row["levels"] if level != row["default"]]
        more = (
            {}
            if substrate == "kernel" or row["path"] in {"link.delay", "link.jitter"}
            else {"link.delay": "0s"}
        )
        said = [why_not(row["path"], level, *where, **more) for level in others]
        if others and all(why is not None and not any(word in why for word in lacks) for why in said):
            useless.append((row["path"], said))
    assert useless == []
    assert len(rows(substrate)) > 60


def test_what_the_table_does_not_list_a_kernel_for_is_refused() -> None:
    there = {row["path"] for row in rows("kernel")}
    others = [row for row in rows("model") if row["path"] not in there]
    assert {"nic.ring", "nic.rx_cost", "queue.classes"} <= {row["path"] for row in others}
    for row in others:
        why = why_not(row["path"], row["levels"][-1])
        assert why is not None, row["path"]
        assert "the substrate `kernel` does not support it" in why
