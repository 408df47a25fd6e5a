"""A kernel as a file, for a colleague or the cache of a CI: `kernel.json`, the image, and what gcov needs.

The file is a tar archive compressed with xz. It is read as the file of a stranger: only the members that a kernel has,
with bounded sizes and names within its folder, are unpacked, and the kernel is executed only with consent.
"""

import hashlib
import io
import json
import lzma
import re
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Final

from tcpassay import regular
from tcpassay.errors import Place, Problem, UserError
from tcpassay.kernel import boots, store
from tcpassay.kernel.build import alone
from tcpassay.kernel.store import Kernel
from tcpassay.output import opened
from tcpassay.plural import plural

_NONE: Final = "it is no kernel of `tcpassay kernel export`"
_IMAGE: Final = "linux"
_ABOUT: Final = "kernel.json"
_LARGEST: Final = 256 << 20
"""Maximum size of the archive; a kernel of Debian's 6.1 has 10 MB, and 20 MB with counters."""
_MEMORY: Final = 256 << 20
"""Maximum memory of the decompressor."""
_MOST: Final = 2000
"""Maximum number of members."""
_NAME: Final = re.compile(rf"{store.COVERAGE}(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*){{1,12}}")


def export(name: str, out: Path) -> Kernel:
    """Writes the kernel of this name to a file. Raises `UserError` if there is none, or if it cannot be written."""
    kernel = store.find(name)
    files = [kernel.folder / _IMAGE]
    if kernel.notes is not None:
        files += sorted(file for file in kernel.notes.rglob("*") if file.is_file())
    with opened(out, "the kernel") as written, tarfile.open(fileobj=written, mode="w:xz") as archive:
        _add(archive, _ABOUT, json.dumps(asdict(kernel), indent=2).encode() + b"\n")
        for file in files:
            _add(archive, str(file.relative_to(kernel.folder)), file.read_bytes())
    return kernel


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o755 if name == _IMAGE else 0o644
    archive.addfile(member, io.BytesIO(content))


def import_(file: Path, name: str | None, *, allow: bool, replace_: bool) -> Kernel:
    """Puts the kernel of a file into the store, after it has booted.

    Without `allow` nothing is executed or written, and `UserError` has what the file contains, and its digest; it is
    also raised for a file that is no exported kernel, and for a kernel that exists, unless it is to be replaced.
    """
    members = _members(file)
    kernel = _described(members[_ABOUT], file)
    if name is not None:
        kernel = replace(kernel, name=name)
    place = store.folder(kernel.name)
    if store.read(kernel.name) is not None and not replace_:
        raise UserError(
            f"there is a kernel `{kernel.name}` already; give --force to replace it, or --name another"
        )
    digest = hashlib.sha256(members[_IMAGE]).hexdigest()
    if not allow:
        raise UserError.several(
            [
                Problem(
                    f"it contains the kernel {kernel.words}, a program that runs with your rights; if you trust who "
                    "made it, give --allow-code",
                    Place(file),
                ),
                Problem(f"`{_IMAGE}`, SHA-256 {digest}", Place(file)),
            ]
        )
    place.mkdir(parents=True, exist_ok=True)
    with alone(place):
        draft = place / f"{_IMAGE}.new"
        draft.write_bytes(members[_IMAGE])
        draft.chmod(0o755)
        try:
            boots.require(draft, place / "boot.log", kernel.modules)
        except UserError:
            store.drop(draft)
            raise
        (place / _ABOUT).unlink(missing_ok=True)
        store.drop(place / store.COVERAGE)
        for path, content in members.items():
            if path not in {_ABOUT, _IMAGE}:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(content)
        draft.replace(place / _IMAGE)
        store.write(kernel)
    return kernel


def _members(file: Path) -> dict[str, bytes]:
    """The contents of the file by name. Raises `UserError` unless they are those of a kernel."""
    place = Place(file)
    try:
        archive = _decompressed(regular.read_bytes(file, largest=_LARGEST), place)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as packed:
            found = dict(_read(packed, place))
    except (tarfile.TarError, lzma.LZMAError) as error:
        raise UserError(f"{_NONE}: {error}", place) from None
    except OSError as error:
        raise UserError((error.strerror or str(error)).lower(), place) from None
    if missing := [name for name in (_ABOUT, _IMAGE) if name not in found]:
        raise UserError(f"{_NONE}: it has no `{missing[0]}`", place)
    return found


def _decompressed(content: bytes, place: Place) -> bytes:
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    found = reader.decompress(content, max_length=_LARGEST + 1)
    if len(found) > _LARGEST:
        raise UserError(f"it has more than the {_LARGEST >> 20} MiB that are allowed", place)
    if not reader.eof:
        raise UserError(f"{_NONE}: its end is missing", place)
    return found


def _read(archive: tarfile.TarFile, place: Place) -> Iterator[tuple[str, bytes]]:
    for number, member in enumerate(archive):
        fits = member.name in {_ABOUT, _IMAGE} or _NAME.fullmatch(member.name)
        if number >= _MOST or not member.isreg() or not fits:
            raise UserError(
                f"`{member.name}`: it is no file of a kernel; allowed are `{_ABOUT}`, `{_IMAGE}` and "
                f"`{store.COVERAGE}/...`, at most {plural(_MOST, 'file')}",
                place,
            )
        content = archive.extractfile(member)
        yield member.name, content.read() if content is not None else b""


def _described(text: bytes, file: Path) -> Kernel:
    """The kernel that `kernel.json` describes. Raises `UserError` for another content."""
    known = {one.name: one.type for one in fields(Kernel)}
    try:
        data = json.loads(text)
        right = isinstance(data, dict) and all(
            name in known and _is(value, known[name]) for name, value in data.items()
        )
        kernel = Kernel(**data) if right else None
    except (ValueError, TypeError, RecursionError):
        kernel = None
    if kernel is None or kernel.variant not in {"", store.COVERAGE, "debug"}:
        raise UserError(f"`{_ABOUT}`: it does not describe a kernel of this version of tcpassay", Place(file))
    return kernel


def _is(value: object, kind: object) -> bool:
    """Whether a value of `kernel.json` has the type of its field."""
    if kind is str:
        return isinstance(value, str)
    if kind is float:
        return isinstance(value, (int, float))
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
