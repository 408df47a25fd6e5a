"""Commented plans to start from, for `tcpassay init` and `ask`."""

import re
from importlib import resources
from pathlib import Path
from typing import Final

from tcpassay import output
from tcpassay.errors import Place, UserError
from tcpassay.plan import hints, read, table
from tcpassay.plan.document import suggest

STARTS: Final = {
    "rack": "which controller and ECN threshold for short requests beside long ones",
    "wan": "which controller on a long path with losses",
    "patch": "what a patch to the kernel's TCP changes",
    "controller": "your own controller in Python beside others",
    "stack": "your own TCP beside the model",
    "ci": "a plan for continuous integration",
}
"""The starts, and their questions."""
_FURTHER: Final = {"controller": ("controller.py",)}


def written(name: str, folder: Path, settings: list[tuple[str, str]], *, replace: bool) -> list[Path]:
    """Writes the files of a start into a folder, the plan first, with other values of its settings.

    Raises `UserError` for a name or a setting that does not exist, or for existing files.
    """
    if name not in STARTS:
        raise UserError(f"`{name}`: there are {', '.join(STARTS)}{suggest(name, STARTS)}")
    files = [f"{name}.toml", *_FURTHER.get(name, ())]
    existing = [folder / file for file in files if (folder / file).exists()]
    if existing and not replace:
        raise UserError("it exists; --force replaces it", Place(existing[0]))
    place = resources.files("tcpassay") / "starts"
    made = {file: (place / file).read_text(encoding="utf-8") for file in files}
    for path, value in settings:
        made[files[0]] = _with(made[files[0]], path, value)
    if settings and len(files) == 1:
        read.read(made[files[0]], folder / files[0])  # before anything is written
    for file, text in made.items():
        output.write(folder / file, text, "the plan")
    return [folder / file for file in files]


def _with(text: str, path: str, value: str) -> str:
    """The text of a plan with another value of a fixed setting, or with a further one."""
    fixed = re.search(r"^\[fixed\]\n(.*?)(?=\n*^\[|\Z)", text, re.DOTALL | re.MULTILINE)
    known = re.findall(r'^"([^"]+)" = ', fixed[1] if fixed else "", re.MULTILINE)
    plain = path.rpartition("/")[2]
    written = f'"{path}" = {_toml(value)}'
    if path in known:
        line = re.compile(rf'^"{re.escape(path)}" = .*$', re.MULTILINE)
        return line.sub(lambda _: written, text, count=1)
    if f'"{path}"' in text:
        raise UserError(f"`--set {path}=...`: the plan varies it; write the plan with `init`, and edit it")
    if fixed is None or plain not in table.parameters():
        raise UserError(
            f"`--set {path}=...`: no such parameter{hints.other_name(path) or '; `tcpassay params` lists them'}"
        )
    return f"{text[: fixed.end()]}\n{written}{text[fixed.end() :]}"


def _toml(value: str) -> str:
    if value in {"true", "false"}:
        return value
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'
