"""Agents on compromised hosts: whatever they send, the run ends with a reason, and nothing is written elsewhere."""

import os
import sys
from pathlib import Path

import pytest

from tcpassay.messages import CaseRequest
from tcpassay.testbed import connection, file, messages
from tcpassay.testbed.session import Session

HERE = Path(__file__).parent
LAB = """
[[host]]
name = "NAME"
ssh = "NAME"
role = "sender"
agent = "/agent"
[[host]]
name = "honest"
ssh = "honest"
role = "receiver"
agent = "/agent"
[[link]]
between = ["NAME:eth1", "honest:eth1"]
"""


def replace_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts the hostile agents in the place of `ssh`. Returns the folder for temporary files."""
    tools = tmp_path / "bin"
    tools.mkdir()
    ssh = tools / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {sys.executable} -S {HERE / "hostile_agent.py"} "$@"\n')
    ssh.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("PROTOCOL", str(messages.PROTOCOL))
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(connection, "_END_S", 2.0)
    return scratch


def files(folder: Path) -> set[Path]:
    """All files but those in the folder for temporary files."""
    return {path for path in folder.rglob("*") if folder / "scratch" not in (path, *path.parents)}


@pytest.mark.parametrize("name", ["slow", "deaf"])
def test_a_host_that_goes_on_slowly_or_reads_nothing_ends_its_run_at_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scratch = replace_ssh(tmp_path, monkeypatch)
    # More than a pipe and the buffers of the agent hold.
    (tmp_path / "large.txt").write_text("x" * (4 << 20), encoding="utf-8")
    session = Session(file.read(LAB.replace("NAME", name), tmp_path / "lab.toml"))
    answer = session.run(
        CaseRequest(
            substrate="remote",
            collect={"series": None},
            triples={"link.rate": "trace:large.txt"},
            base=str(tmp_path),
            folder=str(tmp_path / "out"),
            seconds=3.0,
        )
    )
    session.close()
    assert (answer.outcome, answer.message) == (
        "crashed",
        f"host `{name}`: the run has not ended at its time limit",
    )
    assert [path.name for path in scratch.rglob("*") if path.is_file()] == [".lock"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("traversal", "a file `'../../../evil'`; allowed are completions.parquet"),
        ("absolute", "a file `'/tmp/evil'`"),
        ("twice", "`file` arrived unexpectedly"),
        ("longer", "`events.parquet` is not as long as announced"),
        ("empty", "`events.parquet` is not as long as announced"),
        ("drip", "`events.parquet` came in a frame of 1 bytes; allowed is 1048576"),
        ("huge", "a recording that is larger than 4294967296 bytes"),
        ("instead", "`events.parquet` is not as long as announced"),
        ("frame", "a frame of 4294967295 bytes; allowed are 16777216"),
        ("kind", "a frame of the unknown kind 9"),
        ("deep", "a message that is not allowed"),
        ("endless", "a frame of the unknown kind 4"),
        ("silence", "its agent does not answer"),
        ("unknown", "a message that is not allowed"),
        ("unasked", "`time` arrived unexpectedly"),
        ("end", "a message that is not allowed"),
        ("garbage", "the recording of `garbage`"),
    ],
)
def test_a_hostile_agent_ends_its_run_with_a_reason_and_writes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    scratch = replace_ssh(tmp_path, monkeypatch)
    receive = connection.Connection.receive

    def received(self: connection.Connection, seconds: float | None = None) -> messages.FromAgent:
        """Waits for the honest agent as long as always, however busy the machine is."""
        return receive(self, 2.0 if self.host.name == "silence" else seconds)

    monkeypatch.setattr(connection.Connection, "receive", received)
    before = files(tmp_path)
    session = Session(file.read(LAB.replace("NAME", name), tmp_path / "lab.toml"))
    folder = tmp_path / "out"
    answer = session.run(
        CaseRequest(substrate="remote", collect={"series": None}, folder=str(folder), seconds=60.0)
    )
    session.close()
    assert answer.outcome in {"crashed", "failed"}, answer
    assert why in answer.message, answer.message
    assert name in answer.message
    assert files(tmp_path) == before
    assert [path.name for path in scratch.rglob("*") if path.is_file()] == [".lock"]
    assert not Path("/tmp/evil").exists()  # noqa: S108 - the name that the agent sends


def test_texts_of_an_agent_have_no_control_characters() -> None:
    welcome = messages.Welcome.model_validate_json(
        '{"kind": "welcome", "protocol": 4, "version": "a\\u001b[2Jb\\nc", "root": true, "release": "", "boot": ""}'
    )
    assert welcome.version == "a?[2Jb\nc"


def test_a_start_that_arrives_too_late_is_repeated_with_more_time_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_ssh(tmp_path, monkeypatch)
    leads = tmp_path / "leads"
    monkeypatch.setenv("LEADS", str(leads))
    session = Session(file.read(LAB.replace("NAME", "late"), tmp_path / "lab.toml"))
    answer = session.run(
        CaseRequest(substrate="remote", collect={"series": None}, folder=str(tmp_path / "out"), seconds=60.0)
    )
    session.close()
    why = "host `late`: the message with the start of the traffic arrived too late"
    assert (answer.outcome, answer.message) == ("failed", why)
    # More time may have passed since the clock was asked for.
    made = [int(line) for line in leads.read_text().split()]
    assert len(made) == 3
    assert all(
        lead >= least for lead, least in zip(made, (50_000_000, 200_000_000, 800_000_000), strict=True)
    )
