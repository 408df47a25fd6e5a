"""A kernel as a file: what is exported, and what of a file from others is refused."""

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest
from small_tree import build

from tcpassay.errors import UserError
from tcpassay.kernel import boots, package, store


def archive(file: Path, members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    """A file as `export` writes it, with these members; the last one has the type `kind`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, content in members.items():
            one = tarfile.TarInfo(name)
            one.size = len(content)
            one.type = kind if name == list(members)[-1] else tarfile.REGTYPE
            made.addfile(one, io.BytesIO(content))
    file.write_bytes(lzma.compress(out.getvalue(), preset=0))
    return file


def about(**other: object) -> bytes:
    known = {
        "name": "k", "release": "6.1", "source": "s", "key": "x", "built": "b", "seconds": 1.0, "patches": [],
        "absent": [],
    }  # fmt: skip
    return json.dumps(known | other).encode()


def test_an_exported_kernel_is_the_same_kernel_in_another_cache(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = build(linux)[0]
    file = tmp_path / "out/k.tar.xz"
    package.export(kernel.name, file)
    image = kernel.image.read_bytes()
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "other"))
    with pytest.raises(UserError, match=r"k.tar.xz: it contains the kernel .*runs with your rights"):
        package.import_(file, None, allow=False, replace_=False)
    assert store.kernels() == []
    assert package.import_(file, None, allow=True, replace_=False) == kernel
    (found,) = store.kernels()
    assert found == kernel
    assert found.image.read_bytes() == image
    with pytest.raises(UserError, match=f"there is a kernel `{kernel.name}` already; give --force"):
        package.import_(file, None, allow=True, replace_=False)
    assert package.import_(file, "other", allow=True, replace_=False).name == "other"
    assert [one.name for one in store.kernels()] == sorted([kernel.name, "other"])


def test_a_kernel_that_does_not_boot_here_leaves_the_one_that_is_there(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = build(linux)[0]
    file = archive(tmp_path / "k.tar.xz", {"kernel.json": about(name=kernel.name), "linux": b"other"})

    def refuse(*_: object) -> None:
        raise UserError("the kernel does not boot")

    monkeypatch.setattr(boots, "require", refuse)
    with pytest.raises(UserError, match="the kernel does not boot"):
        package.import_(file, None, allow=True, replace_=True)
    assert store.kernels() == [kernel]
    assert not (kernel.folder / "linux.new").exists()


IMAGE = {"kernel.json": about(), "linux": b"x"}


@pytest.mark.parametrize(
    ("members", "kind", "message"),
    [
        ({"kernel.json": about()}, tarfile.REGTYPE, "it has no `linux`"),
        ({"linux": b"x"}, tarfile.REGTYPE, "it has no `kernel.json`"),
        (IMAGE | {"../escaped": b"x"}, tarfile.REGTYPE, r"`../escaped`: it is no file of a kernel"),
        (IMAGE | {"coverage/../../x": b"x"}, tarfile.REGTYPE, "it is no file of a kernel"),
        (IMAGE | {"/etc/passwd": b"x"}, tarfile.REGTYPE, "it is no file of a kernel"),
        (IMAGE | {"coverage/a": b""}, tarfile.SYMTYPE, "`coverage/a`: it is no file of a kernel"),
        ({"kernel.json": b"[]", "linux": b"x"}, tarfile.REGTYPE, "it does not describe a kernel"),
        (
            {"kernel.json": about(patches=[1]), "linux": b"x"},
            tarfile.REGTYPE,
            "it does not describe a kernel",
        ),
        ({"kernel.json": about(more=1), "linux": b"x"}, tarfile.REGTYPE, "it does not describe a kernel"),
        ({"kernel.json": b"[" * 100_000, "linux": b"x"}, tarfile.REGTYPE, "it does not describe a kernel"),
        ({"kernel.json": about(name="../k"), "linux": b"x"}, tarfile.REGTYPE, "a kernel's name has"),
    ],
)
def test_a_file_of_others_that_is_no_kernel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes], kind: bytes, message: str
) -> None:
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "cache"))
    file = archive(tmp_path / "k.tar.xz", members, kind)
    with pytest.raises(UserError, match=message):
        package.import_(file, None, allow=True, replace_=False)
    assert not (tmp_path / "cache").exists()


def test_a_file_that_is_cut_off_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive(tmp_path / "k.tar.xz", IMAGE)
    whole = file.read_bytes()
    for content in (b"", whole[:40], b"not xz"):
        file.write_bytes(content)
        with pytest.raises(UserError, match="it is no kernel of `tcpassay kernel export`"):
            package.import_(file, None, allow=True, replace_=False)
    file.write_bytes(whole)
    monkeypatch.setattr(package, "_LARGEST", 4096)
    with pytest.raises(UserError, match="it has more than the 0 MiB that are allowed"):
        package.import_(file, None, allow=True, replace_=False)
    with pytest.raises(UserError, match="it is a folder"):
        package.import_(tmp_path, None, allow=True, replace_=False)
