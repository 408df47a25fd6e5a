"""The results of hosts and flows: which controller each has."""

from pathlib import Path

import pytest

from tcpassay import _native, entities, load
from tcpassay.messages import METRICS_ONLY
from tcpassay.plan.read import read
from tcpassay.results import Results
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session
from tcpassay.trust import ask

CLASSES = """
from tcpassay.controllers import Window

class Mine(Window):
    pass

class Other(Window):
    pass
"""


def ran(folder: Path, text: str) -> Results:
    (folder / "mine.py").write_text(CLASSES, encoding="utf-8")
    plan = read(
        'name = "p"\n[fixed]\n"topology" = "dumbbell:2"\n"link.rate" = "10Mbit"\n"app.duration" = "20ms"\n'
        f'{text}[keep]\nrecordings = "all"\n',
        folder / "p.toml",
    )
    ask.plan(plan)
    with Session.begin(plan, folder / "r", Beginning(), replace_=False) as session:
        execute(session, Local(1))
    return load(folder / "r")


def test_a_controller_in_python_is_named_by_its_class_for_each_host(tmp_path: Path) -> None:
    results = ran(
        tmp_path, '"sender0/stack.cc" = "python:mine.py:Mine"\n"sender1/stack.cc" = "python:mine.py:Other"\n'
    )
    of = entities.results_of(results, "host")
    assert of.notes == []
    assert {run.varied["host"]: run.varied["cc"] for run in of.measured} == {
        "sender0": "python:mine.py:Mine",
        "sender1": "python:mine.py:Other",
    }


@pytest.mark.parametrize("per", ["host", "flow"])
def test_a_group_with_the_name_of_a_column_has_its_own_values(tmp_path: Path, per: entities.Per) -> None:
    results = ran(
        tmp_path,
        '[groups.cc]\nold = { "stack.cc" = "python:mine.py:Mine" }\nnew = { "stack.cc" = "python:mine.py:Other" }\n',
    )
    found = entities.results_of(results, per).measured
    assert {run.varied["cc"] for run in found} == {"old", "new"}
    assert all(per in run.varied for run in found)


def test_a_run_whose_syns_are_all_lost_has_the_rates_0_and_no_round_trip_times() -> None:
    ran = _native.run_held(
        triples={"link.loss": "100%", "app.duration": "200ms"}, seed=1, base=".", collect=METRICS_ONLY
    )
    assert (ran.metrics["goodput"], ran.metrics["throughput"], ran.metrics["timeouts"]) == (0.0, 0.0, 0.0)
    assert ran.metrics.get("rtt_p50") is None
