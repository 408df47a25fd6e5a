"""A text of a folder is another one, with markup or with control sequences: no command prints or executes it.

The field is drawn from all texts of `result.json`, its runs, `findings.json`, `plan.toml` and the recordings, names of
fields included. A report must have the text only where the page reads it as data.
"""

import json
import random
from pathlib import Path
from typing import Any

from hostile import changed, sealed
from trial import Fault, Trial, command

MARKUP = (
    "</script><script>injected()</script>", "<img src=x onerror=injected()>", "'\"><svg onload=injected()>",
    "<!--", "]]>", "{{7*7}}", "javascript:injected()",
)  # fmt: skip
CONTROL = (
    "\x1b[2J",
    "\x9b31m",
    "\x1b]0;title\x07",
    "\u202e",
    "[red]x[/nope]",
    "a\rb",
    "\x1b]8;;http://x\x07y",
    "\x7f",
)
RAW = ("<script>injected", "<img src=x onerror", "<svg onload=injected")
"""What a page must not have as markup."""


def trial(trial: Trial) -> None:
    """One changed text, and every command that shows a folder."""
    out = trial.copy()
    evil = trial.dice.choice(MARKUP + CONTROL)
    how = _inject(trial, out, evil)
    case = min(path.name for path in (trial.calm / "recordings").iterdir()).split("-")[0]
    commands = (
        ("table", "out"), ("table", "out", "--cases"), ("compare", "out", "out"), ("judge", "out"),
        ("packets", "out", case), ("log", "out", case), ("log", "out", case, "--ss"), ("pairs", "out", "--make", "0"),
        ("table", "out", "--json"), ("compare", "out", "out", "--json"), ("run", "--resume", "out", "--force"),
    )  # fmt: skip
    for arguments in (*trial.dice.sample(commands, 5), ("report", "out")):
        try:
            trial.sane(command(*arguments, cwd=trial.folder))
        except Fault as fault:
            raise Fault(f"{how}: {' '.join(arguments)}: {fault}") from None
    page = out / "report.html"
    if page.exists():
        text = page.read_text(encoding="utf-8", errors="replace")
        if found := [raw for raw in RAW if raw in text]:
            raise Fault(f"{how}: the report contains {found[0]}")


def _inject(trial: Trial, out: Path, evil: str) -> str:
    """Changes a text; returns which."""
    place = trial.dice.choice(("result", "result", "findings", "recording", "plan"))
    told: list[str] = []
    # The change of the result is made in a child, so that what it draws is not known here.
    seed = trial.dice.random()

    def change(index: dict[str, Any]) -> None:
        told.append(_replaced(index, evil, random.Random(seed)))  # noqa: S311 - repeatable

    if place == "result":
        changed(out, change)
    elif place == "findings":
        sealed(out / "findings.json", change)
    elif place == "recording":
        sealed(trial.dice.choice(sorted(out.rglob("recording.json"))), change)
    else:
        file = out / "plan.toml"
        quoted = json.dumps(evil)[1:-1].replace("\x7f", "\\u007f")
        text = file.read_text(encoding="utf-8")
        words = trial.dice.choice(("torture", "a check to be read back", "reno", "stack.cc"))
        file.write_text(text.replace(words, words + quoted), encoding="utf-8")
        told.append(words)
    return f"{evil!r} in {place} {told[0] if told else seed}"


def _replaced(value: Any, evil: str, dice: random.Random) -> str:
    """Adds a text to one of the texts below a JSON value; returns its path."""
    leaves: list[tuple[Any, Any, str]] = []

    def collect(at: Any, path: str) -> None:
        pairs = at.items() if isinstance(at, dict) else enumerate(at)
        for key, below in pairs:
            here = f"{path}.{key}"
            if isinstance(below, str):
                leaves.append((at, key, here))
            elif isinstance(below, dict | list):
                collect(below, here)
            if isinstance(at, dict) and len(leaves) < 10_000:
                leaves.append((at, (key,), f"{here} (its name)"))

    collect(value, "")
    holder, key, path = dice.choice(leaves)
    if isinstance(key, tuple):
        holder[f"{key[0]}{evil}"] = holder.pop(key[0])
    else:
        holder[key] += evil
    return path
