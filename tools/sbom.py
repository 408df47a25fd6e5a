"""Writes the parts of a release as CycloneDX 1.5 (JSON): `python tools/sbom.py > sbom.cdx.json`.

Sources are the lock files and Cargo: the crates that are linked into the native module and the agent (normal
dependencies, as `cargo tree` lists them), the Python packages of requirements.lock, and Apache ECharts, which every
report contains.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[1]
LINKED: Final = ("tcpassay-python", "tcpassay-agent")
TREE: Final = re.compile(
    r"^(?P<name>[\w-]+) v(?P<version>\S+)(?: \(proc-macro\))?\|(?P<licence>.*?)(?: \(\*\))?$"
)


def version() -> str:
    """Returns the version of the workspace."""
    told = tomllib.loads((REPOSITORY / "Cargo.toml").read_text(encoding="utf-8"))
    return str(told["workspace"]["package"]["version"])


def crates() -> list[dict[str, Any]]:
    """Returns the crates of others that are linked, with the checksums of Cargo.lock."""
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    sums = {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}
    packages = [word for name in LINKED for word in ("-p", name)]
    tree = subprocess.run(  # noqa: S603 - the own program
        ["cargo", "tree", "--locked", *packages, "-e", "normal", "--prefix", "none", "--format", "{p}|{l}"],  # noqa: S607
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = {}
    for line in tree.splitlines():
        part = TREE.match(line)
        if part and (key := (part["name"], part["version"])) in sums:
            found[key] = _component("cargo", *key, part["licence"].replace("/", " OR "), [sums[key]])
    return [found[key] for key in sorted(found)]


def packages() -> list[dict[str, Any]]:
    """Returns the Python packages with the hashes of their files."""
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    made = []
    for block in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("==")
        made.append(_component("pypi", name, rest.split()[0], "", re.findall(r"sha256:([\da-f]{64})", block)))
    return made


def echarts() -> dict[str, Any]:
    """Returns the library of the report's charts."""
    readme = (REPOSITORY / "python/tcpassay/report/vendor/README.md").read_text(encoding="utf-8")
    found = re.search(r"\d+\.\d+\.\d+", readme)
    if found is None:
        raise SystemExit("python/tcpassay/report/vendor/README.md states no version")
    return _component("npm", "echarts", found[0], "Apache-2.0", [])


def _component(kind: str, name: str, its_version: str, licence: str, sums: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"pkg:{kind}/{name}@{its_version}",
        "name": name,
        "version": its_version,
        "purl": f"pkg:{kind}/{name}@{its_version}",
    }
    if licence:
        made["licenses"] = [{"expression": licence}]
    if sums:
        made["hashes"] = [{"alg": "SHA-256", "content": one} for one in sums]
    return made


def document() -> dict[str, Any]:
    """Returns the bill of materials."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tcpassay", "version": version()}},
        "components": [*crates(), *packages(), echarts()],
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1)
