"""Files of a result folder that tests write or change, with the checksums that readers require."""

import json
from pathlib import Path
from typing import Any

from tcpassay.seal import checksum, seal


def write(file: Path, value: dict[str, Any]) -> None:
    """A JSON object as a sealed file."""
    content = {key: part for key, part in value.items() if key != "xxh3"}
    file.write_text(seal(json.dumps(content)[:-1] + "\n}\n"), encoding="utf-8")


def recording(folder: Path, index: dict[str, Any]) -> None:
    """`recording.json`, after the files that it lists have been written."""
    for name, entry in index["files"].items():
        entry["xxh3"] = checksum((folder / name).read_bytes())
    write(folder / "recording.json", index)
