"""Racks and topologies of a file in one guest carry what the model's carry."""

from pathlib import Path

import pytest

import plans
from tcpassay.errors import UserError
from tcpassay.plan.read import read
from tcpassay.results import load
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session

pytestmark = pytest.mark.usefixtures("kernel")

# Two bottlenecks in a row; one connection crosses both, and one comes from the other side.
PARKING_LOT = """
hosts = ["a", "b", "c", "d", "e"]
switches = ["p", "q", "r"]
links = [{ from = "a", to = "p" }, { from = "b", to = "p" },
         { from = "p", to = "q", rate = "20Mbit", delay = "2ms" },
         { from = "q", to = "r", rate = "20Mbit", delay = "2ms" },
         { from = "c", to = "q" }, { from = "q", to = "d" }, { from = "r", to = "e" }]
flows = [{ from = "a", to = "e" }, { from = "b", to = "d" }, { from = "c", to = "e" }, { from = "e", to = "b" }]
"""


def both(folder: Path, rows: str) -> dict[str, dict[str, float]]:
    """The metrics of a case by substrate."""
    text = f"""
name = "topologies"
oracles = false
keep.recordings = "all"
substrates = ["model", "kernel"]
[fixed]
"stack.profile" = "linux"
{rows}
"""
    plan = read(text, folder / "plan.toml")
    with Session.begin(plan, folder / "out", Beginning(), replace_=False) as session:
        result = execute(session, Local(1))
    assert [run.outcome for run in result.runs] == ["done", "done"], [run.message for run in result.runs]
    names = ["goodput", "rtt_p50", "drops_uplink", "utilisation_uplink"]
    found = load(folder / "out")
    return {
        found.recording(row["case"], 1).header["substrate"]: {name: row[name] for name in names}
        for row in found.metrics.iter_rows(named=True)
    }


def test_a_parking_lot_has_the_rates_and_round_trips_of_the_model(tmp_path: Path) -> None:
    plans.write(tmp_path, PARKING_LOT, "lot.toml")
    rows = '"topology" = "file:lot.toml"\n"link.rate" = "1Gbit"\n"link.delay" = "10us"\n"app.duration" = "1s"'
    found = both(tmp_path, rows)
    # Three directions of two bottlenecks are in use, those of the data of four connections: 3 x 20 Mbit/s less headers.
    assert found["model"]["goodput"] > 30e6
    for name in ("goodput", "rtt_p50"):
        assert found["kernel"][name] == pytest.approx(found["model"][name], rel=0.05)


def test_racks_have_the_rates_and_the_drops_at_uplinks_of_the_model(tmp_path: Path) -> None:
    rows = """
"topology" = "racks:1x1"
"rack.hosts" = 3
"link.rate" = "50Mbit"
"rack.uplink" = "60Mbit"
"link.delay" = "10us"
"queue.limit" = "30p"
"app.duration" = "300ms"
"""
    found = both(tmp_path, rows)
    assert found["model"]["drops_uplink"] > 10
    assert found["kernel"]["drops_uplink"] == pytest.approx(found["model"]["drops_uplink"], rel=0.3)
    assert found["kernel"]["goodput"] == pytest.approx(found["model"]["goodput"], rel=0.05)


def test_more_hosts_than_a_guest_can_have_are_refused_with_their_number(tmp_path: Path) -> None:
    text = 'name = "big"\nsubstrates = ["kernel"]\n[fixed]\n"topology" = "racks:16x16"\n"rack.hosts" = 16\n'
    with pytest.raises(UserError, match="it has 512 hosts; a guest has at most 128"):
        read(text, tmp_path / "plan.toml")


def test_a_queue_that_marks_runs_at_the_rate_of_an_uplink_above_that_of_tc(tmp_path: Path) -> None:
    # RED has 32 bits for a bandwidth in bytes/s, which are 34 Gbit/s.
    rows = """
"topology" = "racks:1x1"
"rack.hosts" = 2
"link.rate" = "25Gbit"
"rack.uplink" = "40Gbit"
"link.delay" = "2us"
"nic.tso" = true
"nic.gro" = true
"stack.cc" = "dctcp"
"stack.ecn" = "dctcp"
"queue.ecn_mark" = "data"
"app.duration" = "2ms"
"""
    found = both(tmp_path, rows)
    assert found["kernel"]["goodput"] > 20e9
