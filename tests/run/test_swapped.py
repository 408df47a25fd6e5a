"""An entry of a result folder is replaced by a symbolic link while runs go on: nothing is written through it."""

import shutil
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

import plans
from tcpassay.errors import UserError
from tcpassay.messages import Answer, CaseRequest
from tcpassay.plan.read import read
from tcpassay.run.execute import execute
from tcpassay.run.pool import Limits
from tcpassay.run.session import Beginning, Session
from tcpassay.run.worker import work

ENTRIES = (
    "recordings", ".work", "figures", "runs.parquet", "result.json", "metrics.parquet", "findings.json", "plan.toml",
)  # fmt: skip


class Swapping:
    """An executor in this process that replaces an entry after the first run, before or after its recording is made."""

    name = "swapping"
    jobs = 1

    def __init__(self, entry: Path, victim: Path, *, early: bool) -> None:
        self.entry = entry
        self.victim = victim
        self.early = early

    def run(self, requests: Iterable[CaseRequest], limits: Limits) -> Generator[list[tuple[int, Answer]]]:
        """Answers each request."""
        del limits
        for number, request in enumerate(requests):
            if number == 1 and self.early:
                self.swap()
            answer = work(request)
            if number == 1 and not self.early:
                self.swap()
            yield [(number, answer)]

    def swap(self) -> None:
        """The entry leads to the victim."""
        if self.entry.is_dir():
            shutil.rmtree(self.entry)
        else:
            self.entry.unlink(missing_ok=True)
        self.entry.symlink_to(self.victim if self.entry.suffix == "" else self.victim / "precious")


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("name", ENTRIES)
def test_a_link_that_appears_during_the_runs_is_not_followed(
    tmp_path: Path, name: str, *, early: bool
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine", encoding="utf-8")
    text = plans.KEPT + '[[figure]]\nkind = "timeline"\nfile = "f"\ntitle = "t"\n'
    out = tmp_path / "out"
    message = ""
    with Session.begin(read(text, tmp_path / "plan.toml"), out, Beginning(), replace_=False) as session:
        try:
            result = execute(session, Swapping(out / name, victim, early=early))
        except UserError as error:
            message = str(error)
    assert [(file.name, file.read_text(encoding="utf-8")) for file in victim.iterdir()] == [
        ("precious", "mine")
    ]
    if name in {"recordings", ".work"}:
        assert "it is a symbolic link, through which nothing is written" in message
        # The first run is recorded, and after the link is gone the others follow.
        (out / name).unlink()
        (out / "recordings").mkdir(exist_ok=True)
        with Session.resume(out, force=False) as session:
            assert [run.begun for run in session.result("running").runs] == [True, False]
    elif name == "figures":
        assert message or result.figure_problems
    else:
        assert result.ok
