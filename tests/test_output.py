"""`output.write` writes a file completely or not at all, and never replaces a device."""

import os
import stat
import threading
from pathlib import Path

import pytest

from tcpassay import output
from tcpassay.errors import UserError


def _names(folder: Path) -> list[str]:
    return [place.name for place in folder.iterdir()]


def test_a_regular_file_is_written_with_missing_folders_above_it(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "out.xml"
    output.write(target, "ä")
    assert target.read_bytes() == b"\xc3\xa4"
    assert _names(target.parent) == ["out.xml"]


def test_a_folder_that_will_be_created_is_named_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output.check(tmp_path / "out.xml")
    assert capsys.readouterr().err == ""
    output.check(tmp_path / "a" / "out.xml")
    assert capsys.readouterr().err == f"tcpassay: the folder {tmp_path}/a does not exist and is created\n"


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        output.write(tmp_path / "new", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_replaced_file_keeps_its_permissions_and_a_link_to_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    output.write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_an_error_inside_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")

    def half() -> None:
        with output.opened(target) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert target.read_text() == "old"
    assert _names(tmp_path) == ["out"]


def _null(tmp_path: Path, name: str) -> Path:
    """A character device of our own where that is allowed, otherwise a link to the system's."""
    minors = {"null": 3, "full": 7}
    place = tmp_path / name
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, minors[name]))
        place.open("rb").close()
    except OSError:
        place.unlink(missing_ok=True)
        place.symlink_to(f"/dev/{name}")
    return place


def test_a_device_is_written_and_stays_a_device(tmp_path: Path) -> None:
    place = _null(tmp_path, "null")
    output.write(place, "text")
    assert stat.S_ISCHR(place.stat().st_mode)
    assert _names(tmp_path) == ["null"]


def test_a_full_device_is_one_message_and_stays_a_device(tmp_path: Path) -> None:
    place = _null(tmp_path, "full")
    with pytest.raises(UserError, match="cannot write the report: no space left on device"):
        output.write(place, "text", "the report")
    assert stat.S_ISCHR(place.stat().st_mode)


def test_a_pipe_is_written_when_it_has_a_reader_and_refused_without(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="nothing reads from this pipe"):
        output.write(pipe, "text")
    # Opened for both directions, a pipe has a reader from the start.
    reader = os.open(pipe, os.O_RDWR)
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(os.read(reader, 4)))
    thread.start()
    output.write(pipe, "text")
    thread.join(600)
    os.close(reader)
    assert read == [b"text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("call", [lambda path: output.write(path, "x"), output.check])
def test_a_path_that_cannot_be_a_file_is_refused(call: object, tmp_path: Path) -> None:
    assert callable(call)
    with pytest.raises(UserError, match="it is a folder"):
        call(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        call(tmp_path / "file" / "below")


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    output.write(target, "x")
    assert target.read_text() == "x"
