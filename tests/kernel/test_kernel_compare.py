"""`tcpassay kernel compare` on real guests: one kernel under two names, so that nothing may differ."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.following import follow_folder
from tcpassay.kernel import store

PLAN = """
name = "twice"
seeds = [1]
[fixed]
"app.duration" = "50ms"
"link.rate" = "100Mbit"
"link.loss" = "1%"
[axes]
"stack.cc" = ["reno", "cubic"]
"""


def test_one_kernel_under_two_names_has_no_difference_and_that_is_a_result(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernel == "kernel"
    built = store.find()
    for name in ("base", "head"):
        place = tmp_path / "cache/kernels" / name
        place.mkdir(parents=True)
        shutil.copy(built.image, place / "linux")
        said = json.loads((built.folder / "kernel.json").read_text())
        (place / "kernel.json").write_text(json.dumps(said | {"name": name}))
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "cache"))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    xml = tmp_path / "junit.xml"
    command = ["kernel", "compare", "base", "head", "--plan", str(plan), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--junit", str(xml)])
    assert done.exit_code == 0, done.output
    assert "No difference in 2 cases (2 pairs of runs)." in done.output
    assert xml.read_text().count("<testcase") == 2
    resumed = ["kernel", "compare", "base", "head", "--out", str(tmp_path / "out"), "--resume", "--json"]
    again = CliRunner().invoke(app, resumed)
    assert again.exit_code == 0, again.output
    said = json.loads(again.stdout)
    assert (said["pairs"], said["identical"], said["causes"]) == (2, 2, [])
    one = said["base"]["key"]
    assert one == said["head"]["key"]


PATCH = Path(__file__).parent / "patches" / "ack-every-third.patch"
RECEIVERS = """
name = "receivers"
seeds = [1]
[fixed]
"app.duration" = "100ms"
"link.rate" = "50Mbit"
"link.delay" = "2ms"
[axes]
"stack.cc" = ["reno", "cubic"]
"stack.delayed_ack" = ["profile", "off"]
"""


@pytest.fixture
def changed() -> tuple[store.Kernel, store.Kernel]:
    """A kernel and the same with the patch; `make kernel` and CI build both."""
    known = store.kernels()
    for head in known:
        if head.series == [PATCH.stem] and not head.variant:
            for base in known:
                if (base.source, base.series, base.variant) == (head.source, [], ""):
                    return base, head
    pytest.skip(f"no kernel has this patch: tcpassay kernel build --patch {PATCH}")


def test_a_receiver_with_fewer_acks_is_found_with_the_setting_that_hides_it_and_a_script(
    changed: tuple[store.Kernel, store.Kernel], tmp_path: Path
) -> None:
    base, head = changed
    plan = tmp_path / "plan.toml"
    plan.write_text(RECEIVERS)
    xml = tmp_path / "junit.xml"
    command = ["kernel", "compare", base.name, head.name, "--plan", str(plan), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--junit", str(xml), "--budget", "40", "--json"])
    assert done.exit_code == 1, done.output
    said = json.loads(done.stdout)
    # Without delayed ACKs every segment is acknowledged.
    assert (said["pairs"], said["identical"]) == (4, 2)
    assert {one["varied"]["stack.delayed_ack"] for one in said["different"]} == {"profile"}
    made = [one["script"] for one in said["examples"]]
    assert made[0]["base"]["status"] == "pass"
    assert made[0]["head"]["status"] in {"fail", "time"}
    assert made[0]["head"]["line"] == len(Path(made[0]["file"]).read_text().splitlines())
    assert f"packetdrill script: {made[0]['file']}" in xml.read_text()
    # The model follows both ends on the plain kernel.
    plain = follow_folder(Path(said["examples"][0]["recordings"][0]))
    assert [end.first for end in plain.ends] == [None, None]
    assert sum(end.rows for end in plain.ends) > 1000
    # On the other one it names the end, the missing ACK, and the function that the patch changes.
    (end,) = said["examples"][0]["first"]["followed"]["new"]
    assert (end["host"], end["first"]["kind"]) == ("receiver", "an ACK of the model is missing")
    assert end["first"]["why"] == "it acknowledges at once: two full segments wait for an ACK"
    assert "__tcp_ack_snd_check" in end["first"]["source"]
