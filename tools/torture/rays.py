"""Nodes of a cluster answer with something else than the result of a run: it is a failed run, or the whole recording.

The trials call what receives an answer, so that they need no cluster. `tests/run/test_ray.py` ends nodes of one.
"""

import random
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from damage import WAYS
from trial import Fault, Trial, fork

ANSWERS = 200
WRONG: tuple[Any, ...] = (
    None,
    7,
    -1.5,
    "x",
    b"x",
    [],
    {},
    [[]],
    {"a": []},
    True,
    "\ud800",
    object,
    float("nan"),
)


def trial(trial: Trial) -> None:
    """Many answers with one wrong part each."""
    calm = min((trial.calm / "recordings").iterdir())

    def act() -> None:
        for _ in range(ANSWERS):
            _one(calm, trial.folder, trial.dice)

    code, said = fork(act)
    if code:
        raise Fault(said.strip()[-700:])


def _one(calm: Path, folder: Path, dice: random.Random) -> None:
    from tcpassay.messages import Answer, Outcome  # noqa: PLC0415
    from tcpassay.run.on_ray import _pack, _understood  # noqa: PLC0415

    right = Answer("done", trace="t", metrics={"goodput": 1.0}, kept=True)
    archive = _pack(calm)
    said: Any = (right, archive)
    way = dice.choice(("field", "archive", "shape"))
    if way == "field":
        said = replace(right, **{dice.choice(fields(Answer)).name: dice.choice(WRONG)}), archive
    elif way == "archive":
        said = right, WAYS[dice.choice(sorted(WAYS))](archive, dice)
    else:
        said = dice.choice(
            (*WRONG, (right,), (archive, right), (right, archive, 1), (right, dice.choice(WRONG)))
        )
    there = folder / "there"
    answer = _understood(said, there)
    if not isinstance(answer, Answer) or answer.outcome not in {*Outcome, "unwritable"}:
        raise Fault(f"{way}: {said!r:.200} became {answer!r:.200}")
    if answer.kept and not there.is_dir():
        raise Fault(f"{way}: {said!r:.200} has a recording that is not there")
    if strange := [path.name for path in folder.iterdir() if path != there]:
        raise Fault(f"{way}: {said!r:.200} made {strange}")
    shutil.rmtree(there, ignore_errors=True)
