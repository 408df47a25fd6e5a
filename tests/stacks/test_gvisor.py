"""gVisor's network stack; skipped where Go, which builds it, is not installed."""

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
    "app.flow_size": "300KB",
    "app.duration": "30s",
    "link.rate": "20Mbit",
    "link.delay": "5ms",
    "link.loss": "2%",
}
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": True}
VERSION = "v0.0.0-20260905035102-160fafc42237"


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed, which builds gVisor")
    if not build.is_built("gvisor"):
        try:
            build.build("gvisor")
        except UserError as error:
            pytest.skip(f"gVisor cannot be built here: {error}")


@pytest.mark.parametrize("where", ["sender", "receiver", ""])
def test_gvisor_carries_a_lossy_transfer_and_two_runs_are_identical(where: str) -> None:
    triples = CASE | {f"{where}/stack.implementation".lstrip("/"): "gvisor"}
    first, second = (_native.run_held(triples=triples, seed=3, base=".", collect=COLLECT) for _ in range(2))
    assert (first.trace, first.capture()) == (second.trace, second.capture())
    index = json.loads(first.index())
    assert index["flows"][0]["counters"]["read_bytes"] == 300_000
    assert index["flows"][0]["counters"]["retransmitted_packets"] > 0, "the regime: packets were lost"
    stack = index["header"]["stacks"][0]
    assert (stack["name"], stack["version"]) == ("gvisor", VERSION)


def test_gvisor_passes_every_check_of_the_protocol() -> None:
    result = CliRunner().invoke(
        app, ["stack", "check", str(build.place("gvisor")), "--json"], catch_exceptions=False
    )
    wrong = [one for one in json.loads(result.output) if one["wrong"]]
    assert wrong == []


def test_the_list_shows_that_gvisor_is_built() -> None:
    result = CliRunner().invoke(app, ["stack", "list"], catch_exceptions=False)
    assert "gvisor          built" in result.output


def test_the_pinned_version_is_the_one_of_the_module_file() -> None:
    text = (Path(build.__file__).parent / "gvisor" / "go.mod").read_text()
    assert f"gvisor.dev/gvisor {VERSION}" in text
