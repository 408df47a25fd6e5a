"""The planted faults fit the source as it is."""

import subprocess
import sys
import tomllib

import plans

MODEL = plans.REPOSITORY / "tests" / "quality" / "model"


def test_every_edit_applies_to_the_source_exactly_once() -> None:
    command = [sys.executable, str(plans.REPOSITORY / "tools" / "quality" / "plant.py"), "--check"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_there_are_at_least_sixty_faults_each_with_its_own_id_and_a_rule() -> None:
    rows = [row for file in sorted(MODEL.glob("*.toml")) for row in tomllib.loads(file.read_text())["fault"]]
    assert len(rows) >= 60
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["rule"] and row["edits"] for row in rows)
