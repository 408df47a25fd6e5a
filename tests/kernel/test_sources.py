"""Where the source of a kernel is from: a tree, a revision of a repository, or a package of Debian."""

import os
import subprocess
from pathlib import Path

import pytest
from small_tree import build, no_one_listens, write

from repositories import git
from tcpassay.errors import UserError
from tcpassay.kernel import build as building
from tcpassay.kernel import source, store
from tcpassay.kernel.revision import Revision
from tcpassay.kernel.source import Tree


def test_a_source_that_is_not_linux_is_refused_with_the_file_that_lacks(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").touch()
    with pytest.raises(UserError, match="it is not a Linux tree, `arch/um/Makefile` is not there"):
        Tree(tmp_path)
    with pytest.raises(UserError, match="Kconfig`: there is no such folder"):
        Tree(tmp_path / "Kconfig")


def test_documentation_is_not_copied_but_for_what_kconfig_reads() -> None:
    assert not source.read_by_a_build("Documentation/networking/tcp.rst")
    assert source.read_by_a_build("Documentation/Kconfig")
    assert source.read_by_a_build("net/ipv4/tcp.c")


def test_revisions_of_a_repository_are_built_without_its_working_tree(linux: Path) -> None:
    git(linux, "init", "-q")
    git(linux, "add", ".")
    git(linux, "commit", "-q", "-m", "first")
    git(linux, "tag", "v1")
    (linux / "net/ipv4/tcp.c").write_text("int second;\n")
    git(linux, "commit", "-q", "-a", "-m", "second")
    (linux / "net/ipv4/tcp.c").write_text("not compiled;;;\n")
    head, _, steps = build(Revision(linux, "HEAD"), "head")
    assert steps == ["arch/um/os-Linux/util.o", "linux", "net/ipv4/tcp.o"]
    assert b"second" in head.image.read_bytes()
    first, _, steps = build(Revision(linux, "v1"), "first")
    assert steps == ["linux", "net/ipv4/tcp.o"]
    assert b"second" not in first.image.read_bytes()
    assert "at v1 (" in first.source
    assert (linux / "net/ipv4/tcp.c").read_text() == "not compiled;;;\n"


def test_a_revision_that_is_not_there_is_refused(linux: Path, tmp_path: Path) -> None:
    git(linux, "init", "-q")
    git(linux, "add", "Kconfig")
    git(linux, "commit", "-q", "-m", "not Linux")
    with pytest.raises(UserError, match=r"--revision v9`: the repository has no such revision"):
        Revision(linux, "v9")
    with pytest.raises(UserError, match="it is not a Linux tree, `arch/um/Makefile` is not there"):
        Revision(linux, "HEAD")
    with pytest.raises(UserError, match="not a git repository"):
        Revision(tmp_path, "HEAD")


APT = """#!/bin/sh
# Knows the package in one suite only, as apt does for a version that the release of the machine lacks.
echo "$@" >> "$SAID"
for word in "$@"; do
  case "$word" in Dir::Etc::sourcelist=*) list="${word#*=}" ;; esac
done
[ "$1" = update ] && exit 0
[ "$1" = download ] && grep -q " $SUITE main" "${list:-/dev/null}" && exec cp "$DEB" .
echo "E: Unable to locate package" >&2; exit 100
"""


def test_a_version_that_the_release_lacks_is_fetched_from_the_first_suite_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = tmp_path / "deb"
    (content / "DEBIAN").mkdir(parents=True)
    (content / "DEBIAN/control").write_text(
        "Package: linux-source-9.9\nVersion: 1\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: t\n"
    )
    (content / "usr/src").mkdir(parents=True)
    (content / "usr/src/linux-source-9.9.tar.xz").write_text("the archive")
    subprocess.run(
        ["dpkg-deb", "--build", str(content), str(tmp_path / "one.deb")],  # noqa: S607
        check=True, capture_output=True,
    )  # fmt: skip
    programs = tmp_path / "programs"
    programs.mkdir()
    write(programs, "apt-get", APT).chmod(0o755)
    write(tmp_path, "keys.gpg", "")
    monkeypatch.setattr(source, "KEYRING", tmp_path / "keys.gpg")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("DEB", str(tmp_path / "one.deb"))
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setenv("SUITE", "stable-backports")
    kernel = source.Debian("9.9", tmp_path / "downloads")
    assert kernel.files(no_one_listens)[""][0] == len("the archive")
    there = [one for one in (tmp_path / "downloads").rglob("*") if one.is_file()]
    assert {one.name for one in there} == {"linux-source-9.9.tar.xz", ".lock"}
    words = [line.split()[0] for line in (tmp_path / "said").read_text().splitlines()]
    assert words == ["download", "update", "download", "update", "download"]
    monkeypatch.setenv("SUITE", "none")
    with pytest.raises(source.UnavailableError, match=r"`linux-source-9\.8` cannot be fetched: E: Unable"):
        source.Debian("9.8", tmp_path / "downloads").files(no_one_listens)
    # Without Debian's keys nothing could be verified.
    (tmp_path / "keys.gpg").unlink()
    (tmp_path / "said").unlink()
    with pytest.raises(source.UnavailableError):
        source.Debian("9.8", tmp_path / "downloads").files(no_one_listens)
    assert len((tmp_path / "said").read_text().splitlines()) == 1


def test_a_disk_that_is_full_while_an_archive_is_unpacked_is_reported_and_the_tree_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "missing_tools", list)
    downloads = tmp_path / "cache" / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "linux-source-1.1.tar.xz").write_text("the archive")
    programs = tmp_path / "bin"
    programs.mkdir()
    # GNU tar goes on after an error, and ends with a line that does not name it.
    tar = "tar: net/ipv4/tcp.c: Cannot write: No space left on device\\ntar: Exiting with failure status"
    (programs / "tar").write_text(f"#!/bin/sh\nprintf '{tar}\\n' >&2; exit 2\n")
    (programs / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    package = source.Debian("1.1", downloads)
    with pytest.raises(UserError, match="the disk became full while kernel `mine` was built"):
        build(package)
    assert store.kernels() == []
    assert not store.tree(package.identity).exists()


def test_a_file_that_changes_while_it_is_copied_is_copied_again_and_a_later_build_knows_its_content(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, changes = source.shutil.copy, iter(["int during;\n"])

    def copy(file: Path, into: Path, *, follow_symlinks: bool = True) -> None:
        real(file, into, follow_symlinks=follow_symlinks)
        if file == linux / "net/ipv4/tcp.c" and (text := next(changes, None)):
            file.write_text(text)

    monkeypatch.setattr(source.shutil, "copy", copy)
    kernel, new, _ = build(linux)
    assert new
    assert next(changes, None) is None, "the regime: it was changed"
    assert b"during" in kernel.image.read_bytes()
    assert build(linux)[1:] == (False, [])


def test_a_file_that_never_stops_changing_is_named(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = source.shutil.copy

    def copy(file: Path, into: Path, *, follow_symlinks: bool = True) -> None:
        real(file, into, follow_symlinks=follow_symlinks)
        if file == linux / "net/ipv4/tcp.c":
            file.write_text(file.read_text() + "\n")

    monkeypatch.setattr(source.shutil, "copy", copy)
    with pytest.raises(UserError, match=r"net/ipv4/tcp\.c` changes while it is copied"):
        build(linux)
