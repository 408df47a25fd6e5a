"""The TCPs that `tcpassay stack build` builds; each is skipped where it cannot be built."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay import _native
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.stacks import build

CASE = {
    "app.flow_size": "200KB",
    "app.duration": "30s",
    "link.rate": "20Mbit",
    "link.delay": "5ms",
    "link.loss": "2%",
}
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": True}
VERSIONS = {
    "gvisor": "v0.0.0-20260905035102-160fafc42237",
    "lwip": "2.2.1d, window scaling, SACK",
    "pytcp": "0.3.8",
}


@pytest.fixture(params=VERSIONS, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    """A TCP that is built."""
    name = str(request.param)
    missing = [tool for tool in build.RECIPES[name].tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed, which builds {name}")
    if not build.is_built(name):
        try:
            build.build(name)
        except UserError as error:
            pytest.skip(f"{name} cannot be built here: {error}")
    return name


@pytest.mark.parametrize("where", ["sender", "receiver"])
def test_a_lossy_transfer_is_complete_and_two_runs_are_identical(name: str, where: str) -> None:
    triples = CASE | {f"{where}/stack.implementation": name}
    first, second = (_native.run_held(triples=triples, seed=3, base=".", collect=COLLECT) for _ in range(2))
    assert (first.trace, first.capture()) == (second.trace, second.capture())
    index = json.loads(first.index())
    counters = index["flows"][0]["counters"]
    assert counters["read_bytes"] == 200_000
    assert counters["retransmitted_packets"] > 0, "the regime: packets were lost"
    stack = index["header"]["stacks"][0]
    assert (stack["name"], stack["version"]) == (name, VERSIONS[name])


def test_its_first_connection_has_the_initial_sequence_number_of_the_case(name: str) -> None:
    rows = {"sender/stack.implementation": name, "stack.isn": 4294900000}
    for where in ("sender", "receiver"):
        triples = CASE | rows | {f"{where}/stack.implementation": name}
        ran = _native.run_held(triples=triples, seed=3, base=".", collect=COLLECT)
        assert json.loads(ran.index())["flows"][0]["counters"]["read_bytes"] == 200_000
        # In a packet of 10.0.0.1 or 10.0.0.2 the sequence number follows the addresses and ports.
        capture = ran.capture()
        for address in (b"\x0a\0\0\x01\x0a\0\0\x02", b"\x0a\0\0\x02\x0a\0\0\x01"):
            at = capture.index(address) + 12
            assert int.from_bytes(capture[at : at + 4]) == 4294900000


def test_it_passes_every_check_of_the_protocol(name: str) -> None:
    if name == "pytcp":
        pytest.skip("its checks need 20 s of CPU: `tcpassay stack check`")
    result = CliRunner().invoke(
        app, ["stack", "check", str(build.place(name)), "--json"], catch_exceptions=False
    )
    wrong = [one for one in json.loads(result.output) if one["wrong"]]
    assert wrong == []


def test_the_list_shows_the_version(name: str) -> None:
    result = CliRunner().invoke(app, ["stack", "list"], catch_exceptions=False)
    assert f"{name:<14}  {VERSIONS[name]}" in result.output


def test_the_pinned_versions_are_those_of_the_recipes() -> None:
    recipes = Path(build.__file__).parent
    assert VERSIONS["gvisor"] in (recipes / "gvisor" / "go.mod").read_text()
    assert f"pmd-pytcp=={VERSIONS['pytcp']} " in (recipes / "pytcp" / "requirements.txt").read_text()
    assert 'lwip = "=0.4.0"' in (recipes / "lwip" / "Cargo.toml").read_text()


def test_it_shows_the_state_of_its_connections_and_no_segment_contradicts_it(name: str) -> None:
    ran = _native.run_held(
        triples=CASE | {"sender/stack.implementation": name, "app.flow_size": "20KB"},
        seed=3,
        base=".",
        collect=COLLECT,
    )
    shows = json.loads(ran.index())["header"]["stacks"][0]["shows"]
    assert ",".join(shows) == "snd_una,snd_nxt,snd_wnd,rcv_nxt,rcv_wnd,cwnd,ssthresh,srtt,rto,timer"
    rows = json.loads(ran.rows(list(range(len(ran)))))
    windows = [row for row in rows if row["kind"] == "window"]
    assert windows[0]["why"] == "shown"
    assert windows[-1]["rto_ns"] >= 200_000_000
    assert {"timer_set", "timer_cancel"} <= {row["kind"] for row in rows}
    assert not [row for row in rows if row["kind"] == "damaged"]
