"""Late transmit completions (`nic.tx_usecs`) on a real Linux limit a sender as on the model."""

import pytest

from tcpassay.plan.read import read
from tcpassay.results import load
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session

pytestmark = pytest.mark.usefixtures("kernel")

PLAN = """
name = "completions"
oracles = false
substrates = ["model", "kernel"]
[fixed]
"stack.profile" = "linux"
"stack.cc" = "reno"
"link.rate" = "10Gbit"
"link.delay" = "25us"
"queue.limit" = "10MB"
"nic.tso" = true
"nic.gro" = true
"nic.rx_usecs" = "20us"
"app.duration" = "30ms"
[axes]
"sender/nic.tx_usecs" = ["0s", "100us", "5ms"]
"""


@pytest.fixture(scope="module")
def goodput(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], float]:
    """Bits a second by substrate and delay of the completions."""
    folder = tmp_path_factory.mktemp("completions")
    with Session.begin(
        read(PLAN, folder / "plan.toml"), folder / "out", Beginning(), replace_=False
    ) as session:
        result = execute(session, Local(1))
    assert {run.outcome for run in result.runs} == {"done"}, [run.message for run in result.runs]
    rows = load(folder / "out").metrics.iter_rows(named=True)
    rates = {(row["case"], row["seed"]): row["goodput"] for row in rows}
    return {
        (run.case.substrate, str(run.case.triples["sender/nic.tx_usecs"])): rates[run.case.id, run.seed]
        for run in result.runs
    }


@pytest.mark.parametrize("substrate", ["model", "kernel"])
def test_completions_within_a_millisecond_of_pacing_do_not_limit_the_sender(
    goodput: dict[tuple[str, str], float], substrate: str
) -> None:
    assert goodput[substrate, "100us"] == goodput[substrate, "0s"] > 9.4e9


def test_later_completions_limit_the_sender_as_on_the_model(goodput: dict[tuple[str, str], float]) -> None:
    assert goodput["model", "5ms"] < 0.9 * goodput["model", "0s"]
    assert goodput["kernel", "5ms"] == pytest.approx(goodput["model", "5ms"], rel=0.05)
