"""`tcpassay doctor`: the substrates that this machine can run, and what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tcpassay import doctor
from tcpassay.kernel import build, store
from tcpassay.messages import Answer
from tcpassay.substrate import kernel as guest

REPOSITORY = Path(__file__).parent.parent


def substrates() -> dict[str, doctor.Diagnosis]:
    return {one.substrate: one for one in doctor.diagnose()}


def test_every_substrate_of_the_design_is_reported_and_the_model_can_be_used_everywhere() -> None:
    found = substrates()
    assert list(found) == ["model", "kernel", "host", "remote"]
    assert [name for name, one in found.items() if one.built][:2] == ["model", "kernel"]
    assert found["model"].usable
    assert found["remote"].usable == all(check.mark == "ok" for check in found["remote"].checks)
    assert found["kernel"].usable == all(check.mark != "missing" for check in found["kernel"].checks)


def test_a_missing_requirement_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "missing_tools", lambda: ["flex", "bison"])
    monkeypatch.setattr(store, "kernels", list)
    monkeypatch.setattr(doctor.shutil, "which", lambda *_args, **_options: None)
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    found = substrates()
    for name in ("kernel", "host"):
        assert not found[name].able
        missing = [check for check in found[name].checks if check.mark == "missing"]
        assert len(missing) >= 2
        assert all(check.do for check in missing)
    tools = next(check for check in found["kernel"].checks if check.what == "compiler and tools")
    assert tools.do == "apt-get install flex bison"
    assert next(check for check in found["host"].checks if check.what == "root").found == "user 1000"


class Built:
    name, release = "6.1", "6.1.140"


def _built(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> doctor.Diagnosis:
    monkeypatch.setattr(build, "missing_tools", lambda: ["flex"])
    monkeypatch.setattr(store, "kernels", lambda: [Built()])
    monkeypatch.setattr(doctor, "agent_program", lambda: "tcpassay-agent")
    monkeypatch.setattr(guest, "run_case", lambda **_: answer)
    monkeypatch.setattr(doctor, "_tool", lambda name: f"/sbin/{name}")
    return substrates()["kernel"]


def test_a_kernel_that_is_built_and_boots_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _built(monkeypatch, Answer("done", cpu_s=0.55))
    assert kernel.usable == (doctor.platform.machine() == "x86_64")
    assert kernel.checks[-1].found == "6.1 ran a case in 0.6 s of CPU"


def test_a_kernel_that_does_not_boot_is_reported_with_its_console(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _built(monkeypatch, Answer("crashed", "the guest left no answer\nMemory?"))
    assert not kernel.usable
    assert kernel.checks[-1].found == "crashed: the guest left no answer Memory?"


def test_without_an_agent_it_is_said_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPASSAY_AGENT", "/nowhere/agent")
    missing = {check.what: check.do for check in substrates()["kernel"].checks if check.mark == "missing"}
    assert missing["agent"] == f"make -C {REPOSITORY} agent"


def test_a_place_that_cannot_be_written_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor._native, "run_case", lambda *args: full())  # noqa: ARG005, SLF001
    (check,) = doctor.model()
    assert check.mark == "missing"
    assert "No space left on device" in check.found
    assert "TMPDIR" in check.do


def test_the_command_prints_text_or_json() -> None:
    command = [sys.executable, "-m", "tcpassay", "doctor"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    assert "model, the model TCP in virtual time: can be used" in told
    assert "kernel, a Linux kernel as a process, in virtual time: can" in told
    listed = json.loads(
        subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=600).stdout
    )
    assert "model" in [one["substrate"] for one in listed if one["usable"]]
    assert {"what", "mark", "found", "do"} == set(listed[0]["checks"][0])
