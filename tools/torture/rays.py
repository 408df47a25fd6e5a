"""Nodes of a cluster die, or answer with something else than the result of a run.

A wrong answer is a failed run, or the whole recording. While nodes die each run is answered once, or the command ends
with a message. The trials have no cluster: they call what receives an answer, and give the executor actors that die and
answer at random. `tests/run/test_ray.py` ends nodes of a real one.
"""

import random
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from damage import WAYS
from trial import Fault, Trial, fork

ANSWERS = 200
CLUSTERS = 100
REQUESTS = 8
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
        for _ in range(CLUSTERS):
            _cluster(_pack_of(calm), trial.folder, trial.dice)

    code, said = fork(act)
    if code:
        raise Fault(said.strip()[-700:])


class RayError(Exception):
    """Stands for Ray's error about an actor that is lost."""


class RaySystemError(RayError):
    """Stands for Ray's error about a lost cluster."""


@dataclass(eq=False)
class _Reference:
    """A request to an actor."""

    name: str


class _Cluster:
    """A cluster as the executor sees it: its actors die, start, and answer by chance, and CPUs are lost."""

    exceptions = SimpleNamespace(RayError=RayError, RaySystemError=RaySystemError)

    def __init__(self, right: dict[str, Any], dice: random.Random) -> None:
        self._right = right
        self._dice = dice
        self._dies, self._lies = dice.choice((0.0, 0.2, 0.7)), dice.choice((0.0, 0.3))

    def init(self, *_: Any, **__: Any) -> None:
        pass

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self._dice.choice((0, 1, 2, 3)))}

    def remote(self, _: type) -> Any:
        def method(name: str) -> Any:
            return SimpleNamespace(remote=lambda *_: _Reference(name))

        def make(*_: Any) -> Any:
            return SimpleNamespace(**{name: method(name) for name in ("version", "ask", "stop")})

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=make))

    def wait(self, references: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        if self._dice.random() < self._dies / 50:
            raise self._dice.choice((RaySystemError("GCS is unreachable"), ConnectionResetError("reset")))
        ready = self._dice.sample(references, self._dice.randint(0, min(1, len(references))))
        return ready, [one for one in references if one not in ready]

    def get(self, reference: Any, **_: Any) -> Any:
        if self._dice.random() < self._dies:
            raise RayError("the actor died\x1b[2J\nTraceback of Ray")
        if self._dice.random() < self._lies:
            return self._dice.choice(WRONG)
        return self._right[reference.name]

    def kill(self, _: Any) -> None:
        if self._dice.random() < self._dies:
            raise RayError("it is dead already")


def _pack_of(folder: Path) -> bytes:
    from tcpassay.run.on_ray import _pack  # noqa: PLC0415

    return _pack(folder)


def _cluster(archive: bytes, folder: Path, dice: random.Random) -> None:
    from tcpassay import __version__  # noqa: PLC0415
    from tcpassay.errors import UserError  # noqa: PLC0415
    from tcpassay.messages import Answer, CaseRequest, Outcome  # noqa: PLC0415
    from tcpassay.run import on_ray  # noqa: PLC0415
    from tcpassay.run.environment import table_version  # noqa: PLC0415
    from tcpassay.run.pool import Limits  # noqa: PLC0415

    right = {
        "version": (__version__, table_version()),
        "stop": None,
        "ask": (Answer("done", kept=True), archive),
    }
    setattr(on_ray, "_module", lambda: _Cluster(right, dice))  # noqa: B010 - replaced for these trials
    there = [folder / f"there-{number}" for number in range(REQUESTS)]
    requests = [
        CaseRequest(substrate="model", collect={}, base="/nowhere/inputs", folder=str(one)) for one in there
    ]
    answered: list[tuple[int, Answer]] = []
    try:
        for some in on_ray.OnRay("ray", None).run(requests, Limits()):
            answered += some
    except UserError:
        ended = True
    else:
        ended = False
    numbers = [number for number, _ in answered]
    if len(set(numbers)) < len(numbers) or not (ended or sorted(numbers) == list(range(REQUESTS))):
        raise Fault(f"{'ended with a message' if ended else 'all is done'}; answered: {numbers}")
    for number, answer in answered:
        if answer.outcome not in {*Outcome, "unwritable"}:
            raise Fault(f"run {number}: {answer!r:.200}")
        if answer.kept != there[number].is_dir():
            raise Fault(f"run {number}: {answer!r:.200}, and its recording {there[number]}")
        shutil.rmtree(there[number], ignore_errors=True)


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
