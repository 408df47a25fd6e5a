"""A guest that somebody else kills says nothing about its case: the run is made again, and nothing stays behind."""

import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from tests import patience

from tcpassay.kernel import run, store

pytestmark = pytest.mark.usefixtures("kernel")

# It ends by being killed.
ENDLESS = {"link.rate": "1Gbit", "app.duration": "3000s"}


def guests(scratch: Path) -> list[int]:
    """Processes of guests whose scratch folder is below this one, the guest's own kernel first."""
    image = str(store.find().image)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            below = (entry / "cwd").readlink().is_relative_to(scratch)
        except OSError:
            continue
        if below and words[0].decode() == image:
            found.append(int(entry.name))
    return sorted(found)


@pytest.mark.parametrize(
    ("which", "number"),
    [(0, signal.SIGKILL), (0, signal.SIGTERM), (1, signal.SIGKILL)],
    ids=["guest-killed", "guest-asked-to-end", "its-init-killed"],
)
def test_a_guest_that_is_killed_is_an_outcome_from_outside_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, which: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answers: list[dict[str, Any]] = []

    def case() -> None:
        nothing = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}
        answers.append(
            run.run_case(
                triples=ENDLESS, seed=1, base=".", collect=nothing, folder=str(tmp_path / "recording")
            )
        )

    runner = threading.Thread(target=case)
    runner.start()
    # Its init is there when it has a process of its own after its kernel has left its pid file: what its kernel starts
    # before that only tries the machine, and a signal then ends what is not yet a guest.
    patience.until(
        lambda: (any(tmp_path.rglob("pid")) and len(guests(tmp_path)) > 1) or not runner.is_alive(),
        "a guest runs",
    )
    os.kill(guests(tmp_path)[which], number)
    runner.join()
    (answer,) = answers
    assert answer["outcome"] == "crashed"
    assert answer["outside"]
    assert answer["message"].startswith("somebody killed the guest or a process of it (exit code ")
    assert guests(tmp_path) == []
    home = tmp_path / f"tcpassay-{os.getuid()}"
    assert [entry.name for entry in home.iterdir()] == [".lock"]
    assert not (tmp_path / "recording").exists()
