"""The drawings of findings that were explained, in `explain/` of a result folder."""

from pathlib import Path
from typing import Final

from tcpassay import regular
from tcpassay.judge import Finding
from tcpassay.output import reason, write_whole

FOLDER: Final = "explain"
_LARGEST: Final = 4_000_000
"""Maximum size in bytes of a drawing in a report."""


def _file(folder: Path, finding: Finding) -> Path:
    return folder / FOLDER / f"{finding.case}-{finding.seed}-{finding.oracle}.svg"


def keep(folder: Path, finding: Finding, drawing: str) -> str:
    """Writes a drawing for the report. Returns an error message, or an empty text on success."""
    file = _file(folder, finding)
    if file.parent.is_symlink():
        return f"the drawing was not kept for the report: {file.parent} is a symbolic link"
    try:
        file.parent.mkdir(exist_ok=True)
        write_whole(file, drawing)
    except OSError as error:
        return f"the drawing was not kept for the report: {reason(error)}"
    return ""


def kept(folder: Path, finding: Finding) -> bytes | None:
    """The drawing of a finding; `None` if the finding was not explained."""
    try:
        return regular.read_bytes(_file(folder, finding), largest=_LARGEST, links=False)
    except OSError:
        return None
