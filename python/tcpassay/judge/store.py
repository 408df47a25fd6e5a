"""`findings.json`: the findings of the runs of a plan, in one file."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tcpassay.finding import Finding
from tcpassay.output import write_whole
from tcpassay.recording import DamagedError, read_json
from tcpassay.seal import seal

NAME: Final = "findings.json"
FORMAT: Final = 2


def write_findings(folder: Path, findings: Iterable[Finding]) -> Path:
    """Writes the file completely or not at all, with one line for each finding, so that two files can be compared.

    Raises `OSError`. The caller must own the folder.
    """
    lines = [json.dumps(one.as_json(), allow_nan=False, separators=(",", ":")) for one in findings]
    body = "\n  " + ",\n  ".join(lines) + "\n " if lines else ""
    text = seal(f'{{\n "format": {FORMAT},\n "findings": [{body}]\n}}\n')
    target = folder / NAME
    write_whole(target, text)
    return target


def read_findings(folder: Path) -> list[Finding]:
    """The findings in a result folder. Raises `DamagedError` when there is no such file or it is damaged."""
    file = folder / NAME
    value = read_json(file)
    if value.get("format") not in {1, FORMAT}:
        raise DamagedError(file, f"its format is {value.get('format')}; this version reads {FORMAT}")
    try:
        found: Any = value["findings"]
        return [Finding.from_json(one) for one in found]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(file, f"a finding has a wrong form: {error}") from error
