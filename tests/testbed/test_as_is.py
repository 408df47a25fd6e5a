"""Links that are used as they are, and settings of whole machines, on two hosts that are connected directly."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import beds
import testbeds
from beds import plan, tcpassay
from patience import until
from tcpassay._native import CaseError
from tcpassay.errors import UserError
from tcpassay.testbed.as_is import AsIs

CUBIC = Path("/sys/module/tcp_cubic/parameters/fast_convergence")
PLAN = """
name = "as-is"
substrates = ["remote:FILE"]
oracles = false
keep.recordings = "all"
[fixed]
"topology" = "pair"
"stack.cc" = "cubic"
"app.workload" = "bulk"
"app.flows" = 1
"app.duration" = "DURATION"
[collect]
series = "10ms"
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[testbeds.Testbed]:
    beds.require()
    roles = {"alpha": "sender", "gamma": "receiver"}
    with testbeds.testbed(tmp_path_factory.mktemp("two"), roles, [("alpha", "gamma")]) as made:
        yield made


def bed_file(testbed: testbeds.Testbed, head: str, allow: str = "") -> Path:
    """The testbed file with more settings."""
    file = testbed.folder / "more.toml"
    file.write_text(head + testbed.file.read_text().replace('role = "', f'{allow}role = "'))
    return file


def test_a_case_on_links_as_they_are_has_the_measured_rate_and_delay(
    two: testbeds.Testbed, tmp_path: Path
) -> None:
    before = two.states()
    # At the rate of the link the taps of a machine with two cores would lose packets, and the run would fail.
    text = PLAN.replace("FILE", bed_file(two, 'links = "as-is"\n').stem).replace(
        '"app.workload" = "bulk"', '"app.workload" = "paced"\n"app.rate" = "100Mbit"'
    )
    done = tcpassay(two, "run", str(plan(two, tmp_path, "500ms", text)), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    two.settled(before)
    (place,) = (tmp_path / "out").rglob("recording.json")
    index = json.loads(place.read_text())
    said = {one["parameter"]: one["value"] for one in index["header"]["case"]}
    # The driver of veth reports 10 Gbit/s. The delay is half of a measured round trip.
    assert said["link.rate"] in {"10Gbit", "10000000000bit"}
    assert said["link.delay"] != "0s"
    # No queue of the case has limited the traffic.
    assert index["devices"] == []
    (data, _) = index["flows"]
    assert data["counters"]["delivered_bytes"] > 1_000_000
    rows = {(row["entity"], row["property"]): row["measured"] for row in index["environment"]}
    assert rows["path.alpha.gamma", "rtt"] > 0


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('"link.delay" = "1ms"', "the testbed uses its links as they are"),
        ('"queue.limit" = "1MB"', "the testbed uses its links as they are"),
        ('"topology" = "dumbbell:1"', "its hosts have no switches between them"),
    ],
)
def test_what_links_as_they_are_do_not_have_is_refused_with_its_name(
    two: testbeds.Testbed, tmp_path: Path, setting: str, words: str
) -> None:
    name = setting.partition(" = ")[0]
    lines = [line for line in PLAN.splitlines() if not line.startswith(name)]
    text = "\n".join(lines).replace("FILE", bed_file(two, 'links = "as-is"\n').stem)
    file = plan(two, tmp_path, "500ms", text.replace("[collect]", f"{setting}\n[collect]"))
    done = tcpassay(two, "run", str(file), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split()), done.stderr
    assert name.strip('"') in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_check_of_a_testbed_measures_links_as_they_are(two: testbeds.Testbed) -> None:
    done = tcpassay(two, "testbed", "check", str(bed_file(two, 'links = "as-is"\n')), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(one["where"], one["what"]) for one in json.loads(done.stdout)}
    assert {("path alpha - gamma", what) for what in ("MTU", "RTT", "rate")} <= found


def test_the_properties_of_a_path_replace_those_of_the_case() -> None:
    path = AsIs.of([("a", 10_000_000_000), ("b", 1_000_000_000)])
    assert path.case({"stack.cc": "reno"}) == {
        "stack.cc": "reno", "link.rate": "1000000000bit", "link.delay": "0ns",
    }  # fmt: skip
    for setting in ("link.rate", "bottleneck/link.loss", "queue.kind"):
        with pytest.raises(CaseError) as refused:
            path.case({setting: "1"})
        assert refused.value.args[0][0][0] == setting
    with pytest.raises(UserError, match="host `b`: the driver of its test interface reports no rate"):
        AsIs.of([("a", 10), ("b", None)])


def test_a_parameter_of_a_controller_is_changed_on_the_machine_if_that_is_allowed_and_restored(
    two: testbeds.Testbed, tmp_path: Path
) -> None:
    if not CUBIC.exists():
        pytest.skip("this kernel has no module parameters of CUBIC")
    before, states = CUBIC.read_text(), two.states()
    value = 1 - int(before)
    more = f'"link.delay" = "0s"\n"stack.cc.fast_convergence" = {value}\n[collect]'
    text = PLAN.replace("[collect]", more)
    file = plan(two, tmp_path, "300s", text)
    done = tcpassay(two, "run", str(file), "--out", str(tmp_path / "refused"))
    assert done.returncode == 2
    assert "`allow` does not contain `controllers`" in " ".join(done.stderr.split())
    assert CUBIC.read_text() == before
    allowed = text.replace(
        "FILE", bed_file(two, "", 'allow = ["up", "mtu", "offloads", "controllers"]\n').stem
    )
    process = beds.start(two, plan(two, tmp_path, "300s", allowed), tmp_path / "out")
    until(lambda: process.poll() is not None or CUBIC.read_text() != before, "the parameter is changed")
    assert process.poll() is None, process.communicate()[0]
    # A kill of the run restores it, as settings of interfaces.
    beds.until_running(two, process, 2)
    assert int(CUBIC.read_text()) == value
    for one in two.processes("alpha").runs:
        os.kill(one, signal.SIGKILL)
    process.communicate()
    until(lambda: CUBIC.read_text() == before, "the parameter is restored")
    until(lambda: not two.serving(), "the agents end")
    two.settled(states)
    assert two.call("alpha", "ls", "/var/lib") == ""
