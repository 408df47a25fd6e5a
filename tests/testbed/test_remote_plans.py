"""Plans on two senders, a router and two receivers: the recordings of all hosts become one."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import beds
import testbeds
from beds import plan
from tcpassay.results import Results, load
from tcpassay.substrate.agent import agent_program

HEAD = """
name = "remote"
substrates = ["remote:FILE"]
keep.recordings = "all"
[fixed]
"link.rate" = "200Mbit"
"link.delay" = "0s"
"stack.cc" = "cubic"
"queue.kind" = "htb"
"queue.rate" = "50Mbit"
"app.duration" = "DURATION"
"""
TAIL = """
[collect]
series = "10ms"
events = true
"""


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[testbeds.Testbed]:
    beds.require()
    with testbeds.testbed(tmp_path_factory.mktemp("five"), beds.FIVE, beds.FIVE_LINKS) as made:
        yield made


def run(testbed: testbeds.Testbed, folder: Path, more: str, duration: str = "1s") -> Results:
    """The results of a plan; all its runs are done, and all hosts are as before. `more` replaces settings of `HEAD`."""
    before = testbed.states()
    named = {line.split(" = ")[0] for line in more.splitlines()}
    head = "".join(f"{line}\n" for line in HEAD.splitlines() if line.split(" = ")[0] not in named)
    file = plan(testbed, folder, duration, head + more + TAIL)
    done = beds.tcpassay(testbed, "run", str(file), "--out", str(folder / "out"))
    # Exit code 1: the oracles found an error of this kernel.
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    testbed.settled(before)
    results = load(folder / "out")
    assert {one["outcome"] for one in results.runs} == {"done"}, done.stdout
    return results


def index(results: Results, case: str) -> dict[str, Any]:
    """`recording.json` of the only run of a case."""
    read: dict[str, Any] = json.loads((results.recording(case).folder / "recording.json").read_text())
    return read


def measured(results: Results, case: str, metric: str) -> float:
    (value,) = results.metrics.filter(pl.col("case") == case)[metric].to_list()
    assert isinstance(value, float)
    return value


def test_a_rate_limiter_at_the_router_delays_the_packets_of_both_senders(
    five: testbeds.Testbed, tmp_path: Path
) -> None:
    # plans/rate-limiter-latency-host.toml at a tenth of its rates: the load exceeds the rate of the shaper.
    more = (
        '"topology" = "dumbbell:2"\n"app.workload" = "paced"\n"app.rate" = "25Mbit"\n"app.flows" = 1\n'
        '"queue.limit" = "2MB"\n[axes]\n"queue.rate" = ["100Mbit", "40Mbit"]\n'
    )
    results = run(five, tmp_path, more, "2s")
    backlog = {}
    for one in results.runs:
        found = index(results, one["case"])
        queue = found["devices"][found["header"]["bottleneck"]]
        assert queue["name"] == "queue.bottleneck"
        backlog[queue["rate_bps"]] = queue["counters"]["max_backlog_bytes"]
        # Data of both senders left and arrived: two machines measured each flow.
        data = [flow for flow in found["flows"] if flow["counters"]["sent_bytes"] > 1_000_000]
        assert {(flow["from"], flow["to"]) for flow in data} == {(0, 1), (2, 3)}
        assert all(flow["counters"]["delivered_bytes"] > 1_000_000 for flow in data)
    # 10 Mbit/s more than the shaper lets pass, for two seconds, are 2.5 MB.
    assert backlog[40_000_000] > 500_000
    assert backlog[40_000_000] > 2 * backlog[100_000_000]


@pytest.mark.parametrize("mark", ["data", "ack"])
def test_dctcp_of_both_senders_hears_of_marks_at_the_router(
    five: testbeds.Testbed, tmp_path: Path, mark: str
) -> None:
    lacks = subprocess.run([agent_program(), "bpf", "shim"], capture_output=True, text=True, check=False)
    if lacks.returncode:
        pytest.skip(f"no BPF: {lacks.stderr.strip()}")
    more = (
        '"topology" = "dumbbell:2"\n"app.workload" = "bulk"\n"app.flows" = 1\n"stack.cc" = "dctcp"\n'
        f'"stack.cc_engine" = "shim"\n"stack.ecn" = "dctcp"\n"queue.ecn_mark" = "{mark}"\n'
        '"queue.ecn_threshold" = "30KB"\n"queue.limit" = "1MB"\n'
    )
    results = run(five, tmp_path, more)
    (one,) = results.runs
    found = index(results, one["case"])
    queue = found["devices"][found["header"]["bottleneck"]]
    assert queue["counters"]["marks"] > 10
    data = [flow for flow in found["flows"] if flow["counters"]["sent_bytes"] > 100_000]
    assert {(flow["from"], flow["to"]) for flow in data} == {(0, 1), (2, 3)}
    marked = [flow["counters"]["ce_packets"] for flow in data]
    # Data arrive with CE, or the ACKs come back with ECE: the senders react, so that the queue stays below its limit.
    assert (min(marked) > 0) == (mark == "data")
    # Most of the time: the controllers of a busy machine may react late now and then.
    series = results.recording(one["case"]).table("series").filter(pl.col("entity") == "queue.bottleneck")
    assert series["max_backlog_bytes"].median() < 250_000


def test_a_mix_of_requests_has_completions_of_each_class_from_both_senders(
    five: testbeds.Testbed, tmp_path: Path
) -> None:
    more = (
        '"topology" = "dumbbell:2"\n"app.workload" = "mix"\n'
        '"app.mix" = "rpc request=10KB + rpc request=1MB flows=2"\n'
    )
    results = run(five, tmp_path, more, "2s")
    (one,) = results.runs
    done = results.completions(one["case"])
    small, large = (done.filter(pl.col("request_bytes") == size) for size in (10_000, 1_000_000))
    assert len(small) > 20
    assert len(large) >= 4
    assert set(small["client"]) == set(large["client"]) == {0, 2}
    assert 0 < measured(results, one["case"], "completion_p50") < 2


def test_two_senders_answer_one_receiver_in_rounds_of_incast(five: testbeds.Testbed, tmp_path: Path) -> None:
    more = (
        '"topology" = "star:2"\n"app.workload" = "incast"\n"app.request" = "100B"\n"app.response" = "100KB"\n'
    )
    results = run(five, tmp_path, more)
    (one,) = results.runs
    found = index(results, one["case"])
    answers = [flow for flow in found["flows"] if flow["counters"]["delivered_bytes"] > 100_000]
    assert len({flow["from"] for flow in answers}) == 2
    assert len({flow["to"] for flow in answers}) == 1
    # A round takes the time of 200 kB at 50 Mbit/s.
    assert 0.025 < measured(results, one["case"], "round_p50") < 1


def test_datagrams_in_the_background_and_sizes_from_a_file_run_on_the_hosts(
    five: testbeds.Testbed, tmp_path: Path
) -> None:
    (tmp_path / "sizes.cdf").write_text("20000 0\n20000 1\n")
    more = '"topology" = "dumbbell:2"\n"app.workload" = "rpc"\n"app.flows" = 2\n"app.request" = "100B"\n'
    more += '"app.response" = "file:sizes.cdf"\n"app.background" = "udp:4Mbit"\n'
    results = run(five, tmp_path, more)
    (one,) = results.runs
    found = index(results, one["case"])
    # 4 Mbit/s for one second: 500 datagrams of 1000 B.
    assert 450 <= found["counters"]["datagrams"]["sent"] <= 550
    sizes = results.completions(one["case"])["response_bytes"]
    assert len(sizes) > 0
    assert set(sizes) == {20_000}
