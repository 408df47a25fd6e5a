"""What a node of a cluster answers, without a cluster: a result with its recording, or something else."""

import io
import tarfile
from pathlib import Path

import pytest

from tcpassay.messages import Answer
from tcpassay.run.on_ray import _pack, _understood

DONE = Answer("done", trace="t", digest="d", metrics={"goodput": 1.0, "lost": None}, kept=True)


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "recording.json").write_text("{}", encoding="utf-8")
    return _pack(tmp_path / "made")


def test_a_result_is_taken_with_its_recording(tmp_path: Path, archive: bytes) -> None:
    assert _understood((DONE, archive), tmp_path / "there") == DONE
    assert (tmp_path / "there" / "recording.json").read_text(encoding="utf-8") == "{}"
    apart = Answer("failed", "a bug")
    assert _understood((apart, b""), tmp_path / "other") == apart
    assert not (tmp_path / "other").exists()
    killed = Answer("crashed", "somebody killed it", outside=True)
    assert _understood((killed, b""), tmp_path / "other") == killed


@pytest.mark.parametrize(
    "said",
    [
        None, 7, "done", b"", [], (), (DONE,), (DONE, None), (DONE, "archive"), (DONE, b"", 1), {"outcome": "done"},
        (Answer("glorious"), b""), (Answer(7), b""), (Answer("done", metrics=7), b""),  # type: ignore[arg-type]
        (Answer("done", metrics={"goodput": "fast"}), b""), (Answer("done", findings=[7]), b""),  # type: ignore[dict-item, list-item]
        (Answer("done", reached={"x": "y"}), b""), (Answer("done", kept=True), b""),  # type: ignore[dict-item]
        (Answer("done"), b"an archive of nothing"),
    ],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_a_failed_run_and_leaves_no_recording(tmp_path: Path, said: object) -> None:
    answer = _understood(said, tmp_path / "there")
    assert answer.outcome == "failed"
    assert "a node of the cluster answered with something that is no result: " in answer.message
    assert not (tmp_path / "there").exists()


def test_an_archive_that_is_none_or_that_leads_out_of_the_folder_is_a_failed_run(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        member = tarfile.TarInfo("../victim")
        member.size = 4
        made.addfile(member, io.BytesIO(b"evil"))
    for archive in (b"no archive at all", content.getvalue()):
        answer = _understood((DONE, archive), tmp_path / "there")
        assert answer.outcome == "failed"
        assert "the recording from a node of the cluster cannot be unpacked" in answer.message
        assert list(tmp_path.iterdir()) == []
