"""A result folder whose creation was killed at any step: readers call it interrupted, and it is resumed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from here import Here
from typer.testing import CliRunner

import plans
import tcpassay
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.plan.read import read_file
from tcpassay.run.execute import execute
from tcpassay.run.session import Beginning, Session

SCRIPT = Path(__file__).with_name("killed.py")
TEXT = plans.SMALL.replace('"link.rate" = "100Mbit"', '"link.rate" = "trace:rates.txt"')


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with an input file."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "rates.txt").write_text("1\n2\n", encoding="utf-8")
    return plans.write(folder, TEXT)


@pytest.fixture(scope="module")
def calm(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results without a kill."""
    out = tmp_path_factory.mktemp("calm") / "out"
    with Session.begin(read_file(plan), out, Beginning(), replace_=False) as session:
        assert execute(session, Here()).ok
    return out


def killed(plan: Path, folder: Path, mode: str, calm: Path) -> list[Path]:
    """The folder after a kill before each step."""
    command = [sys.executable, SCRIPT, plan, folder, mode, calm]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return [folder / f"out-{step}" / "out" for step in range(int(done.stdout))]


def state(out: Path) -> str:
    """What `load` says of a folder: `none`, `unplanned`, or the status, without problems."""
    try:
        results = tcpassay.load(out)
    except UserError as error:
        return "unplanned" if "before its plan was recorded; run the plan again" in str(error) else "none"
    assert results.problems == []
    assert {run["outcome"] for run in results.runs} <= {"not run", "done"}
    return str(results.index["status"])


@pytest.mark.parametrize("mode", ["new", "empty", "force"])
def test_a_creation_killed_at_any_step_reads_as_interrupted_and_is_resumed(
    plan: Path, calm: Path, tmp_path: Path, mode: str
) -> None:
    states = []
    for out in killed(plan, tmp_path, mode, calm):
        said = state(out)
        states.append(said)
        if said in {"none", "unplanned"}:
            with pytest.raises(UserError, match=r"run the plan again|there are no results to continue"):
                Session.resume(out, force=False)
            session = Session.begin(read_file(plan), out, Beginning(), replace_=False)
        else:
            session = Session.resume(out, force=False)
        with session:
            assert execute(session, Here()).ok
        assert (out / "metrics.parquet").read_bytes() == (calm / "metrics.parquet").read_bytes()
        assert (out / "plan.toml").read_bytes() == (calm / "plan.toml").read_bytes()
        assert state(out) == "complete"
        assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in calm.iterdir())
    expected = {
        "new": ["none", "interrupted"],
        "empty": ["none", "unplanned", "interrupted"],
        "force": ["complete", "interrupted", "unplanned", "interrupted"],
    }
    assert list(changes(states)) == expected[mode]
    # Without a journal there are only the lock and copies of inputs; most steps come later.
    assert len(states) > 30
    assert states.count("interrupted") > 5


def changes(states: list[str]) -> list[str]:
    return [now for before, now in zip([None, *states], states, strict=False) if now != before]


@pytest.fixture(scope="module")
def halves(plan: Path, calm: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each state between the creation of the lock and the first result."""
    found: dict[str, Path] = {}
    for out in killed(plan, tmp_path_factory.mktemp("halves"), "empty", calm):
        said = state(out)
        named = said if said != "interrupted" else "planned" if tcpassay.load(out).runs else "begun"
        found[named] = out
    return found


COMMANDS = (
    ("table", "DIR"), ("report", "DIR"), ("judge", "DIR"), ("compare", "DIR", "DIR"), ("pairs", "DIR"),
    ("isolate", "DIR"), ("explain", "DIR", "late-ack"), ("log", "DIR"), ("packets", "DIR"),
    ("plot", "DIR", "--kind", "timeline"), ("replay", "DIR", "ab"), ("run", "--resume", "DIR"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("name", ["unplanned", "begun", "planned"])
def test_every_reader_accepts_a_folder_whose_creation_was_interrupted(
    halves: dict[str, Path], tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    out = shutil.copytree(halves[name], tmp_path / "out")
    done = CliRunner().invoke(app, [str(out) if one == "DIR" else one for one in command])
    said = f"{done.output}{done.exception}"
    assert done.exception is None or isinstance(done.exception, UserError | SystemExit), said
    assert "damaged" not in said
    assert "missing" not in said
    if name == "unplanned":
        assert "its creation was interrupted, or has not ended, before its plan was recorded" in said
    elif command[0] == "run":
        assert done.exit_code == 0
