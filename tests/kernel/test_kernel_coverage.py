"""Runs on a kernel with counters (`make kernel-variants` builds it); skipped with a reason without one."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from lossy import LOSSY
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.gcov.catalogue import Catalogue
from tcpassay.gcov.counted import kernel_with_counters
from tcpassay.gcov.reached import require
from tcpassay.kernel import store
from tcpassay.messages import Answer
from tcpassay.results import load
from tcpassay.script import linux
from tcpassay.substrate import kernel as guest

PLAN = """
name = "small"
substrates = ["model", "kernel"]
[fixed]
"app.duration" = "200ms"
"link.rate" = "20Mbit"
[axes]
"link.loss" = ["0", "3%"]
"""


@pytest.fixture(scope="module")
def counted() -> store.Kernel:
    """A kernel with counters."""
    try:
        return kernel_with_counters(None)
    except UserError as error:
        pytest.skip(f"no coverage can be counted: {error}")


@pytest.fixture(scope="module")
def catalogue(counted: store.Kernel) -> Catalogue:
    return guest.catalogue_of(counted.notes or Path())


def go(folder: Path, kernel: str, seed: int = 1) -> Answer:
    answer = guest.run_case(
        triples=LOSSY,
        seed=seed,
        base=str(folder.parent),
        collect={"series": "10ms", "warmup": "0s", "events": True, "packets": True, "deliveries": True},
        folder=str(folder),
        kernel=kernel,
    )
    assert answer.outcome == "done", answer.message
    return answer


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_two_runs_with_counters_are_equal_byte_for_byte_and_reach_the_same(
    counted: store.Kernel, tmp_path: Path
) -> None:
    first, second = (go(tmp_path / name, counted.name) for name in ("a", "b"))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert first.covered == second.covered


def test_counters_change_neither_times_nor_decisions_nor_metrics(
    counted: store.Kernel, tmp_path: Path
) -> None:
    plain = counted.name.removesuffix("+coverage")
    if plain not in {kernel.name for kernel in store.kernels()}:
        pytest.skip(f"there is no kernel `{plain}` to compare with")
    with_counters, without = go(tmp_path / "with", counted.name), go(tmp_path / "without", plain)
    assert without.covered == ""
    assert with_counters.metrics == without.metrics
    same, other = digests(tmp_path / "with"), digests(tmp_path / "without")
    # Ports, initial sequence numbers and the first timestamps depend on addresses of code (docs/kernel-coverage.md).
    differ = {name for name in same if same[name] != other[name]}
    assert differ == {"packets.pcapng", "recording.json", "events.parquet"}
    here, there = (pl.read_parquet(tmp_path / name / "events.parquet") for name in ("with", "without"))
    assert here.height >= 1000
    assert here.drop("value_ns").equals(there.drop("value_ns"))
    offsets = here.with_columns(offset=(here["value_ns"] - there["value_ns"]) % 2**32).filter(
        pl.col("offset") > 0
    )
    assert set(offsets["kind"]) == {"in", "out", "retransmit"}
    by_flow = offsets.group_by("flow").agg(pl.col("offset").n_unique())
    assert by_flow["offset"].to_list() == [1] * 4
    sizes = [(tmp_path / name / "packets.pcapng").stat().st_size for name in ("with", "without")]
    assert sizes[0] == sizes[1]


def test_a_lossy_transfer_reaches_recovery_and_neither_signatures_nor_repair(
    counted: store.Kernel, catalogue: Catalogue, tmp_path: Path
) -> None:
    bits = catalogue.decode(go(tmp_path / "run", counted.name).covered)
    (file,) = catalogue.named(["net/ipv4/tcp_input.c"])
    names = {file.functions[place].name for place in catalogue.numbers(bits, file, "functions")}
    assert {"tcp_ack", "tcp_rcv_established", "tcp_enter_recovery", "tcp_data_queue_ofo"} <= names
    assert "tcp_rcv_synsent_state_process" in names
    assert not {name for name in names if "md5" in name or "fastopen_active" in name}


def test_a_plan_is_run_and_shown_with_what_each_case_adds(counted: store.Kernel, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    arguments = ["kernel", "coverage", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--json"]
    ran = CliRunner().invoke(
        app, [*arguments, "--kernel", counted.name, "--lcov", str(tmp_path / "lcov.info")]
    )
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    without, with_losses = said["cases"]
    assert without["label"] == "loss=0"
    assert with_losses["new_lines"] >= 50
    assert said["runs"] == 2
    assert "SF:" in (tmp_path / "lcov.info").read_text()
    results = tmp_path / "out"
    assert require(results, load(results).runs, "small").as_json() == said
    again = CliRunner().invoke(app, ["kernel", "coverage", str(results), "--cases"])
    assert again.exit_code == 0
    assert "ipv4/tcp_recovery.c" in again.stdout


def test_a_script_reaches_something_else_than_another_script(
    counted: store.Kernel, catalogue: Catalogue, tmp_path: Path
) -> None:
    names = []
    for end in ("0.200 close(3) = 0", "0.200 shutdown(3, SHUT_RDWR) = -1 ENOTCONN (not connected)"):
        script = tmp_path / "script.pkt"
        script.write_text(f"// profile: linux\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n{end}\n")
        covered: list[str] = []
        request = linux.request(script.read_text(), loose=False, options=(), limit_s=10)
        linux.on_kernel([request], kernel=counted.name, covered=covered)
        (text,) = covered
        (file,) = catalogue.named(["net/ipv4/tcp.c"])
        bits = catalogue.decode(text)
        names.append({file.functions[place].name for place in catalogue.numbers(bits, file, "functions")})
    assert "tcp_shutdown" not in names[0]
    assert "tcp_close" in names[0]
