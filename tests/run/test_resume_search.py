"""A search that is killed and resumed has the same cases and results as an uninterrupted one."""

from pathlib import Path

from gate import Gate
from test_resume import digests, end, ended, kill, nothing_stays, reached, result, start

import searches
from patience import until

__all__ = ["nothing_stays"]


def test_a_killed_search_has_the_result_of_an_uninterrupted_one_for_any_number_of_jobs(
    tmp_path: Path,
) -> None:
    # Findings name the folder in the command that repeats the run, so that both folders have the same name.
    first = tmp_path / "first"
    first.mkdir()
    for folder in (first, tmp_path):
        (folder / "plan.toml").write_text(searches.LOSSES, encoding="utf-8")
    code, said = end(start(first, "plan.toml", "--out", "out", jobs=3))
    assert code in {0, 1}, said
    calm, out, gate = first / "out", tmp_path / "out", Gate(tmp_path / "gate")
    runs = len(result(calm)["runs"])
    assert runs == 60
    assert result(calm)["search"]["generations"] > 3

    process = start(tmp_path, "plan.toml", "--out", "out", gate=gate, jobs=1)
    # In the middle of a generation, at its end, and of a later one; the first generations have 8 cases or more.
    for most in (3, 16, 21, runs - 2):
        gate.let_in(range(most))
        reached(process, out, most)
        until(lambda: gate.before(process.pid), "the next run waits")  # noqa: B023
        kill(process)
        assert len(ended(out)) == most
        process = start(tmp_path, "--resume", "out", gate=gate, jobs=1)
    gate.let_in(range(runs))
    code_again, said = end(process)
    assert code_again == code, said

    mine, other = result(out), result(calm)
    assert mine == other
    assert digests(out) == digests(calm)
