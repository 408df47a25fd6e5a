"""The cases of a plan: what varies, multiplied out, each accepted by the data plane.

A plan varies factors: an axis (one parameter, a list of values) and a group (several parameters that change
together, a name for each set). Other strategies than the full product choose among the same factors.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tcpassay import _native
from tcpassay.errors import Place, Problem
from tcpassay.plan import model
from tcpassay.plan.document import Document, Step

# Beyond this a full product is a slip of the pen.
MOST_RUNS = 100_000


class Refused(Exception):  # noqa: N818 - it says what happened
    """The plan's cases cannot be made."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a plan."""

    id: str
    """Function of what the case says beyond the defaults, so that a case keeps its name when a plan grows."""
    triples: dict[str, model.Scalar]
    """Parameter and value, as the plan gives them."""
    varied: dict[str, model.Scalar]
    """The value of each factor, in the plan's order."""
    expect: Literal["done", "refused"] = "done"
    """What must become of its runs: a case with a value from `negative` must be refused."""
    negative: str = ""
    """The parameter whose value must be refused."""

    @property
    def label(self) -> str:
        """What makes the case differ from the others of its plan."""
        return ", ".join(f"{name.split('.')[-1]}={show(value)}" for name, value in self.varied.items())

    def matches(self, selector: Mapping[str, model.Scalar | list[model.Scalar]]) -> bool:
        """Whether everything that the selector names has the value, or one of the values."""
        said = self.triples | self.varied
        for name, wanted in selector.items():
            values = wanted if isinstance(wanted, list) else [wanted]
            if name not in said or not any(same(said[name], value) for value in values):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Level:
    """One value of a factor: what it sets, and where the plan says so."""

    value: model.Scalar
    triples: dict[str, model.Scalar]
    path: tuple[Step, ...]


def show(value: model.Scalar) -> str:
    """A value as the data plane prints it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def same(a: model.Scalar, b: model.Scalar) -> bool:
    """Equality as the data plane sees it: `"10"` and 10 are the same, 1 and true are not."""
    return show(a) == show(b)


def factors(spec: model.PlanFile) -> dict[str, list[Level]]:
    """What varies, in the order of the file: axes, then groups."""
    made = {
        path: [Level(value, {path: value}, ("axes", path, i)) for i, value in enumerate(values)]
        for path, values in spec.axes.items()
        if isinstance(values, list)
    }
    for name, sets in spec.groups.items():
        made[name] = [Level(level, triples, ("groups", name, level)) for level, triples in sets.items()]
    return made


def levels(spec: model.PlanFile) -> dict[str, list[model.Scalar]]:
    """The values of each factor."""
    return {name: [level.value for level in among] for name, among in factors(spec).items()}


def cases(spec: model.PlanFile, doc: Document, most_problems: int) -> list[Case]:
    """The product of the factors, or every distinct reason why some of it cannot be run."""
    varying = factors(spec)
    runs = math.prod(map(len, varying.values())) * len(spec.seeds)
    if runs > MOST_RUNS:
        message = f"`axes`: their product and the seeds make {runs} runs; allowed are at most {MOST_RUNS}"
        raise Refused(Problem(message, doc.place("axes")))
    made: list[Case] = []
    problems: dict[Problem, None] = {}
    for row in itertools.product(*varying.values()):
        varied = {name: level.value for name, level in zip(varying, row, strict=True)}
        triples = dict(spec.fixed)
        for level in row:
            triples |= level.triples
        try:
            canonical = _native.check_case(triples, str(doc.file.parent))
        except _native.CaseError as error:
            problems |= dict.fromkeys(_problems(error.args[0], triples, row, doc))
            if len(problems) >= most_problems:
                break
            continue
        text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
        made.append(Case(hashlib.sha256(text.encode()).hexdigest()[:10], triples, varied))
    problems |= dict.fromkeys(_twins(made, doc))
    if problems:
        raise Refused(*itertools.islice(problems, most_problems))
    return made


def _problems(
    errors: list[tuple[str, str | None, str | None, str]],
    triples: dict[str, model.Scalar],
    row: tuple[Level, ...],
    doc: Document,
) -> Iterator[Problem]:
    def place(path: str) -> Place:
        for level in row:
            if path in level.triples:
                return doc.place(*level.path, path)
        return doc.place("fixed", path)

    for path, other, read, why in errors:
        value = show(triples[path]) if path in triples and read is not None else read
        said = f"`{path}`: {why}" if value is None else f"`{path}` = `{value}`: {why}"
        if path in triples and other in triples:
            said += f" (`{other}` is set in line {place(other).line})"
        # A contradiction with a default stands where the plan set the other of the two.
        where = other if other in triples and path not in triples else path
        yield Problem(said, place(where))


def _twins(made: list[Case], doc: Document) -> Iterator[Problem]:
    first: dict[str, Case] = {}
    for case in made:
        twin = first.setdefault(case.id, case)
        if twin is not case:
            section = "axes" if doc.data.get("axes") else "groups"
            yield Problem(
                f"`{section}`: `{twin.label}` and `{case.label}` are the same case", doc.place(section)
            )
