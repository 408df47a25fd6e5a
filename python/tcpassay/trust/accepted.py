"""The digests of code that the user has accepted or run: `accepted.jsonl` in the user's state folder.

The folder is `tcpassay` below `$XDG_STATE_HOME` or `~/.local/state`. Each line is a JSON object with the SHA-256 digest
(`sha256`), the name of the file at that time (`file`) and the date (`date`). The list may be edited or removed.
"""

import fcntl
import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tcpassay import regular

NAME: Final = "accepted.jsonl"
_LARGEST: Final = 64 << 20
_DIGEST: Final = 64
"""Length of a SHA-256 digest in hexadecimal digits."""


def place() -> Path:
    """The list of this user. A relative `$XDG_STATE_HOME` is ignored, as its specification requires."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".local" / "state") / "tcpassay" / NAME


def known() -> frozenset[str]:
    """The digests in the list. A list of another user has no effect, nor have lines of another form."""
    file = place()
    try:
        if file.stat().st_uid != os.geteuid():
            return frozenset()
        lines = regular.read_bytes(file, largest=_LARGEST).splitlines()
    except OSError:
        return frozenset()
    return frozenset(digest for line in lines if (digest := _digest(line)))


def _digest(line: bytes) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    digest = row.get("sha256") if isinstance(row, dict) else None
    return digest if isinstance(digest, str) and len(digest) == _DIGEST else ""


def add(files: Iterable[tuple[str, Path]]) -> str:
    """Adds digests with their files. Returns why they cannot be stored; empty if they are."""
    there = known()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    lines = "".join(
        json.dumps({"sha256": digest, "file": os.path.realpath(file), "date": date}) + "\n"
        for digest, file in dict(files).items()
        if digest not in there
    )
    if not lines:
        return ""
    file = place()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            opened.write(lines.encode())
    except OSError as error:
        return f"{file}: {(error.strerror or type(error).__name__).lower()}"
    return ""
