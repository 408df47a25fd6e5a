"""The result folder.

    plan.toml           the plan, byte for byte
    result.json         what was run on what, every outcome, every check: enough to repeat it
    metrics.parquet     a row a run: case, seed, what the plan varies, metrics
    recordings/<case>-<seed>/   what the run of a case left behind
    figures/            SVG and PNG

The data plane writes a recording under another name and renames it when it is whole, and so are the files written here:
at any moment what has its name can be read.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tcpassay.errors import Place, UserError

# What tells a result folder from somebody's own; only such a folder is ever replaced.
MARK = "result.json"


class Folder:
    """A result folder that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, replace: bool) -> "Folder":
        """Makes the folder, or says why it cannot be; on an error nothing is left behind."""
        place = Place(path)
        try:
            if path.is_dir() and any(path.iterdir()):
                cls._clear(path, replace=replace)
            elif path.exists() and not path.is_dir():
                raise UserError("not a folder; the results go into a folder of their own (--out)", place)
            path.mkdir(parents=True, exist_ok=True)
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
            (path / "recordings").mkdir()
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UserError(
                f"cannot write results there: {reason}; choose another folder with --out", place
            ) from None
        return cls(path)

    @staticmethod
    def _clear(path: Path, *, replace: bool) -> None:
        if not (path / MARK).is_file():
            message = "the folder is not empty and holds no results; choose another with --out"
            raise UserError(message, Place(path))
        if not replace:
            message = "the folder already has results; replace them with --force or choose another with --out"
            raise UserError(message, Place(path))
        shutil.rmtree(path)

    def recording(self, case: str, seed: int) -> Path:
        """Where the recording of a run stands."""
        return self.path / "recordings" / f"{case}-{seed}"

    def drop_partial(self) -> None:
        """Removes recordings that will not be finished."""
        for path in (self.path / "recordings").glob(".*.partial"):
            shutil.rmtree(path)

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file whole or not at all."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.partial")
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
        draft.replace(target)

    def write_json(self, name: str, value: Any) -> None:
        """Writes a JSON file whole or not at all."""
        self.write(name, json.dumps(value, indent=2, allow_nan=False) + "\n")
