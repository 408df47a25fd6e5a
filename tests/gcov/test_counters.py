"""Counters of a program compiled with gcc, read like those of a kernel."""

import subprocess
from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.gcov import Catalogue, catalogue_of
from tcpassay.gcov.catalogue import Branch, File, Function
from tcpassay.gcov.counters import reached

PROGRAM = """#include <stdlib.h>
int left;
int half(int n)
{
	if (n % 2)
		left++;
	return n / 2;
}
int never(int n)
{
	return n + left;
}
int main(int count, char **words)
{
	return half(count == 2 ? atoi(words[1]) : 0) > 99 ? never(1) : 0;
}
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, `program`, and gcc's notes about it."""
    place = tmp_path_factory.mktemp("notes")
    source = place / "net/ipv4/tcp_half.c"
    source.parent.mkdir(parents=True)
    source.write_text(PROGRAM)
    command = ["gcc", "-O0", "--coverage", "-c", "net/ipv4/tcp_half.c", "-o", "tcp_half.o"]
    subprocess.run(command, cwd=place, check=True)
    subprocess.run(["gcc", "--coverage", "tcp_half.o", "-o", "program"], cwd=place, check=True)  # noqa: S607
    return place


def counters(notes: Path, *words: str) -> bytes:
    """The counters of a run of the program, in the form of a guest."""
    subprocess.run([notes / "program", *words], check=True)
    content = (notes / "tcp_half.gcda").read_bytes()
    (notes / "tcp_half.gcda").unlink()
    return b"/build/net/ipv4/tcp_half.gcda %d\n" % len(content) + content


def places(catalogue: Catalogue, bits: int) -> tuple[list[str], list[int], list[Branch]]:
    """The names of the functions, the lines and the branches in a set."""
    (file,) = catalogue.files
    return (
        [file.functions[n].name for n in catalogue.numbers(bits, file, "functions")],
        [file.lines[n] for n in catalogue.numbers(bits, file, "lines")],
        [file.branches[n] for n in catalogue.numbers(bits, file, "branches")],
    )


def test_the_catalogue_has_every_function_line_and_branch_of_the_notes(notes: Path) -> None:
    (file,) = catalogue_of(notes).files
    assert file.name == "net/ipv4/tcp_half.c"
    assert file.functions == (Function("half", 3, 8), Function("never", 9, 12), Function("main", 13, 16))
    assert file.lines == (3, 5, 6, 7, 9, 11, 13, 15)
    assert file.branches[:2] == (Branch(5, "half", 0), Branch(5, "half", 1))
    assert file.function_of[6] == "half"


def test_two_runs_reach_what_their_words_make_them_reach(notes: Path) -> None:
    catalogue = catalogue_of(notes)
    even = reached(catalogue, notes, counters(notes, "4"))
    odd = reached(catalogue, notes, counters(notes, "5"))
    assert places(catalogue, even)[:2] == (["half", "main"], [3, 5, 7, 13, 15])
    assert places(catalogue, odd)[:2] == (["half", "main"], [3, 5, 6, 7, 13, 15])
    assert places(catalogue, odd & ~even)[1] == [6]
    assert Branch(5, "half", 1) in places(catalogue, even)[2]
    assert Branch(5, "half", 1) not in places(catalogue, odd)[2]


def test_a_set_as_text_is_the_same_set(notes: Path) -> None:
    catalogue = catalogue_of(notes)
    bits = reached(catalogue, notes, counters(notes, "5"))
    assert catalogue.decode(catalogue.encode(bits)) == bits
    assert catalogue.decode(catalogue.encode(0)) == 0


def test_a_catalogue_is_read_as_it_was_written(notes: Path, tmp_path: Path) -> None:
    catalogue = catalogue_of(notes)
    (tmp_path / "catalogue.json").write_text(catalogue.as_text())
    assert Catalogue.read(tmp_path / "catalogue.json") == catalogue
    assert Catalogue.read(tmp_path / "catalogue.json").digest == catalogue.digest


def test_counts_of_another_build_are_refused(notes: Path) -> None:
    other = Catalogue((File("net/ipv4/tcp.c", (), (1, 2), ()),))
    with pytest.raises(UserError, match="counted by another build of the kernel"):
        catalogue_of(notes).decode(other.encode(1))


@pytest.mark.parametrize("text", ["", "!", "eJw"])
def test_damaged_text_is_refused(notes: Path, text: str) -> None:
    catalogue = catalogue_of(notes)
    with pytest.raises(UserError, match="damaged"):
        catalogue.decode(f"{catalogue.digest}:{text}")


@pytest.mark.parametrize("written", [b"x", b"tcp_half.gcda 9\nshort", b"tcp_half.gcda\n", b"\n"])
def test_damaged_counters_are_an_error(notes: Path, written: bytes) -> None:
    with pytest.raises(UserError, match="damaged"):
        reached(catalogue_of(notes), notes, written)


def test_counters_that_gcov_cannot_read_are_an_error(notes: Path) -> None:
    with pytest.raises(UserError, match="gcov cannot read"):
        reached(catalogue_of(notes), notes, b"tcp_half.gcda 8\nnonsense")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"files": {"a": {"functions": 1}}}'])
def test_a_file_that_is_no_catalogue_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalogue.json").write_text(text)
    with pytest.raises(UserError, match="no catalogue"):
        Catalogue.read(tmp_path / "catalogue.json")
