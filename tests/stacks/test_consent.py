"""Commands of `exec:` are started from the bytes that were accepted, and only then."""

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tcpassay import _native
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.messages import METRICS_ONLY
from tcpassay.substrate.model import held
from tcpassay.trust import consent, sealed

CASE = {"app.flow_size": "10KB", "app.duration": "1s"}


def run(command: str, *, accepted: bool) -> str:
    """Why a run with this command failed."""
    if accepted:
        consent.grant([consent.digest(consent.command_code(command))])
    with pytest.raises((_native.StackError, consent.ConsentError)) as failed:
        held(CASE | {"sender/stack.implementation": f"exec:{command}"}, 1, ".", METRICS_ONLY)
    return str(failed.value.args[-1])


def script(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def renamed(file: Path, text: str) -> None:
    script(file.with_suffix(".new"), text).replace(file)


@pytest.mark.parametrize("way", [script, renamed])
@pytest.mark.parametrize("words", ["{file}", "sh {file} x", "/bin/sh {file}"])
def test_a_file_that_changes_after_the_consent_was_checked_is_started_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[Path, str], Any], words: str
) -> None:
    file = script(tmp_path / "mine", "echo the accepted one >&2; exit 3")
    command = words.format(file=file)
    real = consent.require

    def changed(content: bytes, name: str) -> None:
        real(content, name)
        way(file, f"touch {tmp_path / 'executed'}; exit 4")

    consent.grant([consent.digest(consent.command_code(command))])
    monkeypatch.setattr(consent, "require", changed)
    why = run(command, accepted=False)
    assert "exit status: 3" in why
    assert "the accepted one" in why
    assert "exit 4" in file.read_text(), "the regime: it was changed"
    assert not (tmp_path / "executed").exists()


def test_a_program_has_its_own_name_and_finds_the_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("from beside")
    (tmp_path / "helper.py").write_text("TEXT = 'imported'\n")
    script(tmp_path / "mine", 'cat "$(dirname "$0")/beside" >&2; exit 1')
    assert "from beside" in run(str(tmp_path / "mine"), accepted=True)
    (tmp_path / "adapter.py").write_text(
        "import helper, os, sys\nsys.exit(f'{helper.TEXT} {sys.executable}')\n"
    )
    assert f"imported {sys.executable}" in run(f"{sys.executable} {tmp_path / 'adapter.py'}", accepted=True)


def test_copies_are_private_and_are_removed(tmp_path: Path) -> None:
    file = script(tmp_path / "mine", "exit 1")
    consent.grant([consent.digest(consent.command_code(str(file)))])
    with sealed.commands({"stack.implementation": f"exec:{file}"}) as commands:
        copy = commands[str(file)][0]
        assert copy.read_bytes() == file.read_bytes()
        assert stat.S_IMODE(copy.parent.parent.stat().st_mode) == 0o700
    assert not copy.exists()


def test_the_native_module_starts_no_command_that_its_caller_has_not_checked(tmp_path: Path) -> None:
    file = script(tmp_path / "mine", f"touch {tmp_path / 'executed'}")
    for value in (f"exec:{file}", f"exec:exec:{file}"):
        with pytest.raises(_native.StackError) as failed:
            _native.run_held(CASE | {"stack.implementation": value}, 1, ".", METRICS_ONLY)
        assert "this command was not accepted" in failed.value.args[1]
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("space", ["\x1c", "\n", "\x85"])
def test_a_command_with_control_characters_is_refused(space: str) -> None:
    with pytest.raises(_native.CaseError, match=r"allowed is model, .* or `exec:<command>`"):
        _native.check_case({"stack.implementation": f"exec:sh{space}-c"}, ".")


def test_partners_of_cases_of_a_folder_start_only_commands_that_were_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mark = tmp_path / "executed"
    file = script(tmp_path / "mine", f"touch {mark}; exit 1")
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(
        f'name = "x"\n[fixed]\n"app.duration" = "10ms"\n"link.delay" = "1ms"\n'
        f'[axes]\n"stack.implementation" = ["model", "exec:{file}"]\n'
    )
    assert CliRunner().invoke(app, ["run", str(plan), "--out", str(out)]).exit_code == 1
    assert mark.exists(), "the regime: the plan starts it"
    mark.unlink()
    (tmp_path / "state" / "tcpassay" / "accepted.jsonl").unlink()
    consent.use(consent.Consent())
    with pytest.raises(UserError, match="--allow-code"):
        CliRunner().invoke(app, ["pairs", str(out), "--make", "2"], catch_exceptions=False)
    assert not mark.exists()
    assert CliRunner().invoke(app, ["pairs", str(out)], catch_exceptions=False).exit_code == 0
    assert not mark.exists()
