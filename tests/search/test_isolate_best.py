"""Isolation of a best case of a search: the triples and lost packets that are necessary for its value of the metric."""

from pathlib import Path
from typing import Any

import pytest

import folders
import searches
from tcpassay.errors import UserError
from tcpassay.isolate import Options, isolate
from tcpassay.plan import read
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("best")
    # With the buffer fixed only losses and the controller are left.
    buffer = '"queue.limit" = { from = "10KB", to = "200KB", scale = "log" }\n'
    text = searches.LOSSES.replace(buffer, "").replace("[axes]", '"queue.limit" = "100KB"\n[axes]')
    plan = read.read(text, made / "plan.toml")
    with Session.begin(plan, made / "out", Beginning(), replace_=True) as session:
        execute(session, Local(1))
    return made / "out"


def of(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = folders.result(folder)
    return made


def test_the_cause_of_a_best_case_has_no_unnecessary_triple_or_lost_packet(folder: Path) -> None:
    (cause,) = isolate(folder, "best", Options()).causes
    best = of(folder)["search"]["best"][0]
    triples = next(run["triples"] for run in of(folder)["runs"] if run["case"] == best["case"])
    assert cause.case == best["case"]
    assert cause.proven
    said = {one.path: one.value for one in cause.triples}
    assert said["link.loss_model"] == triples["link.loss_model"]
    # Fixed settings of the plan are not part of the cause.
    assert said.keys() <= {"link.loss_model", "stack.cc"}
    assert cause.smallest is not None
    fewest = str(cause.smallest.triples["link.loss_model"])
    whole = str(triples["link.loss_model"])
    assert set(fewest.removeprefix("list:").split(",")) < set(whole.removeprefix("list:").split(","))
    assert cause.smallest.triples["link.rate"] == "20Mbit"
    assert cause.smallest.rate.present


def test_the_effect_is_half_way_between_what_is_usual_and_the_best(folder: Path) -> None:
    (cause,) = isolate(folder, "best", Options()).causes
    goodput = {run["case"]: run["metrics"]["goodput"] for run in of(folder)["runs"]}
    first = sorted(list(goodput.values())[:8])
    limit = (first[3] + goodput[cause.case]) / 2  # the median of eight by nearest rank is the fourth
    assert cause.effect.title == f"goodput at most {limit / 1e6:.4g} Mbit/s"


def test_a_run_that_was_made_is_not_made_again(folder: Path) -> None:
    isolate(folder, "best", Options())
    again = isolate(folder, "best", Options())
    assert (again.made, again.notes) == (0, [])
    assert again.runs > 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best-4", "`best-4`: this search has 3 best cases"),
        ("best-0", "`best-0`: the runs there have no findings"),
    ],
)
def test_a_best_case_that_there_is_not_is_refused(folder: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        isolate(folder, text, Options())
