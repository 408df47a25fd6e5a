"""Plans that run on a real Linux in virtual time: the same file, folder, metrics and commands as on the model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folders
from patience import until
from tcpassay import load
from tcpassay.errors import UserError
from tcpassay.kernel import store
from tcpassay.plan import read

pytestmark = pytest.mark.usefixtures("kernel")

PLAN = """\
name = "both"
substrates = ["model", "kernel"]
keep.recordings = "all"

[fixed]
"link.rate" = "50Mbit"
"link.delay" = "5ms"
"nic.tso" = true
"stack.profile" = "linux"
"app.duration" = "300ms"

[axes]
"stack.cc" = ["reno", "cubic"]

[[check]]
metric = "goodput"
where = { substrate = "kernel" }
op = ">="
value = 0.9
times = { substrate = "model" }
why = "slow start and a full link are the same on both"
"""


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = tcpassay("run", "plan.toml", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def runs(folder: Path) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = folders.result(folder)["runs"]
    return result


def test_each_case_runs_on_each_substrate_under_a_name_of_its_own(ran: Path) -> None:
    made = runs(ran / "out")
    assert [(run["substrate"], run["varied"]["stack.cc"]) for run in made] == [
        ("model", "reno"),
        ("kernel", "reno"),
        ("model", "cubic"),
        ("kernel", "cubic"),
    ]
    assert len({run["case"] for run in made}) == 4
    assert {run["outcome"] for run in made} == {"done"}
    # The metrics are the same code's, so that they can be compared; what a kernel does not say is absent.
    for run in made:
        assert 30e6 < run["metrics"]["goodput"] < 50e6
        assert run["metrics"]["timeouts"] == 0
    assert load(ran / "out").cases["substrate"].to_list() == ["model", "kernel"] * 2


def test_the_releases_of_the_substrates_are_part_of_the_result(ran: Path) -> None:
    result = folders.result(ran / "out")
    assert result["environment"]["substrates"]["model"] is None
    release = result["environment"]["substrates"]["kernel"].split()[0]
    recording = ran / "out" / runs(ran / "out")[1]["recording"] / "recording.json"
    assert json.loads(recording.read_text(encoding="utf-8"))["header"]["system"] == release


def test_an_oracle_that_cannot_judge_a_kernel_is_named_with_the_reason(ran: Path) -> None:
    model, kernel = runs(ran / "out")[:2]
    assert model["unjudged"] == {}
    release = store.find().release
    followed = release.startswith("6.1.")
    assert kernel["unjudged"] == {
        "mutual-silence": "a kernel's log has no `timer_set`",
        "silence-with-losses": "a kernel's log has no `lost`",
        **({} if followed else {"follow": f"the model has no profile of Linux {release}"}),
    }


def test_a_run_on_a_kernel_is_repeated_byte_for_byte(ran: Path) -> None:
    kernel = next(run for run in runs(ran / "out") if run["substrate"] == "kernel")
    done = tcpassay("replay", "out", kernel["case"], "--json", cwd=ran)
    said = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said["trace"] == kernel["trace"]
    assert said["checksums_same"] is True
    assert said["files"]["recording.json"] is True
    assert len(said["files"]) >= 3
    # More that is collected changes nothing of what was sent.
    more = json.loads(tcpassay("replay", "out", kernel["case"], "--packets", "--json", cwd=ran).stdout)
    assert more["trace"] == kernel["trace"]


def test_what_a_kernel_cannot_do_is_reported_before_anything_runs_with_its_place(tmp_path: Path) -> None:
    text = PLAN.replace('"stack.cc" =', '"stack.delayed_ack" = ["profile", "2,40ms"]\n"stack.cc" =')
    with pytest.raises(UserError) as told:
        read.read(text, tmp_path / "plan.toml")
    (problem,) = told.value.problems
    assert str(problem).startswith("plan.toml:13: `stack.delayed_ack` = `2,40ms`") or ":13:" in str(problem)
    assert "Linux delays ACKs by its own rule" in str(problem)


def test_a_value_that_a_kernel_must_refuse_is_tested_for_that(tmp_path: Path) -> None:
    text = PLAN.replace('["model", "kernel"]', '["kernel"]').partition("[[check]]")[0]
    (tmp_path / "plan.toml").write_text(
        text + '[negative]\n"stack.delayed_ack" = ["2,40ms"]\n', encoding="utf-8"
    )
    done = tcpassay(
        "run", "plan.toml", "--filter", "stack.delayed_ack=2,40ms", "--out", "out", "--json", cwd=tmp_path
    )
    (run,) = [run for run in json.loads(done.stdout)["runs"] if run["expect"] == "refused"]
    assert run["outcome"] == "refused"
    assert "Linux delays ACKs by its own rule" in run["message"]


def test_a_kernel_that_is_not_built_is_reported_before_anything_is_made(tmp_path: Path) -> None:
    text = PLAN.replace('"kernel"', '"kernel:nobodys"')
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    done = tcpassay("run", "plan.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no kernel `nobodys`; built are:" in done.stderr
    assert not (tmp_path / "out").exists()


HANGS = PLAN.replace('["model", "kernel"]', '["kernel"]').replace("300ms", "3000s").partition("[axes]")[0]


def test_a_guest_that_does_not_end_is_an_outcome_with_the_end_of_its_console(tmp_path: Path) -> None:
    booted = "Run /proc/self/cwd/init as init process"
    for seconds in (2, 8, 32, 128):  # as long as this machine needs to boot
        text = f'{HANGS}[limits]\ncase_time = "{seconds}s"\n'
        (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
        done = tcpassay("run", "plan.toml", "--out", "out", "--force", "--json", cwd=tmp_path)
        (run,) = json.loads(done.stdout)["runs"]
        assert run["outcome"] == "timeout"
        if booted in run["message"]:
            break
    assert run["message"].startswith(f"the guest was ended after {seconds} s\n")
    assert booted in run["message"]


def guests(folder: Path) -> list[int]:
    """Processes that were started in a scratch folder below this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("processes", [1, 2])
def test_no_guest_outlives_a_runner_that_is_killed(tmp_path: Path, processes: int) -> None:
    # The numbers are different moments of the start: a shell, and the process of init beside the kernel.
    (tmp_path / "plan.toml").write_text(HANGS, encoding="utf-8")
    command = [sys.executable, "-m", "tcpassay", "run", "plan.toml", "--out", "out"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    runner = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"TMPDIR": str(scratch)})
    try:
        until(lambda: len(guests(scratch)) >= processes, "the guest begins")
    finally:
        runner.send_signal(signal.SIGKILL)
        runner.wait()
    until(lambda: not guests(scratch), "no guest outlives its runner")
