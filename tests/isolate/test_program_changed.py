"""An isolation ends when a program that it compares is changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from tcpassay.isolate.experiment import request_of
from tcpassay.isolate.ran import Runs
from tcpassay.isolate.runner import Budget, ChangedError, Job, Runner
from tcpassay.plan.model import PlanFile
from tcpassay.run.pool import Limits
from tcpassay.trust.unchanged import Unchanged


def program(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "stack.sh"
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_a_command_with_other_content_is_named(tmp_path: Path) -> None:
    file = program(tmp_path, "exit 0")
    other = tmp_path / "module.so"
    other.write_bytes(b"one")
    watched = Unchanged([f"{file} fast"], {other: "the native module"})
    assert watched.changed() == ""
    program(tmp_path, "exit 1")
    assert watched.changed() == f"`{file} fast`"
    # The same content again, with another time.
    program(tmp_path, "exit 0")
    assert watched.changed() == ""
    other.write_bytes(b"two")
    assert watched.changed() == f"the native module ({other})"
    other.unlink()
    assert watched.changed() == f"the native module ({other})"


def test_no_run_counts_after_a_program_was_changed(tmp_path: Path) -> None:
    request = request_of(PlanFile(name="p"), "model", str(tmp_path), [])
    job = Job("case-1", replace(request, triples={"app.duration": "10ms"}, seed=1))
    runs = Runs(tmp_path / "isolate", {})
    said = iter(["", "`./stack`"])
    with Runner(runs, tmp_path / "work", 1, Limits(60.0, 1 << 30), Budget(), None, said.__next__) as runner:
        (ran,) = runner.run([job])
        assert ran.outcome == "done"
        with pytest.raises(ChangedError, match=r"`\./stack` was changed meanwhile"):
            runner.run([replace(job, key="case-2")])
    assert runs.get("case-1") is not None
    assert runs.get("case-2") is None
    runs.close()
