"""Runs an experiment on a substrate, and keeps what its page is made of.

OUT/<substrate>/<name>/       the results of the plan
OUT/<substrate>/<name>.json   claims with their numbers and verdicts, CPU time
"""

import json
import resource
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tcpassay.errors import Place, UserError
from tcpassay.experiments import verdict
from tcpassay.experiments.catalogue import Experiment, Where
from tcpassay.experiments.measured import Numbers
from tcpassay.experiments.verdict import Verdict
from tcpassay.output import write_whole
from tcpassay.results import Results, load
from tcpassay.run.execute import Local, Watch, execute
from tcpassay.run.session import Beginning, Session


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim of the paper, and what was measured."""

    name: str
    value: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an experiment on a substrate."""

    name: str
    substrate: str
    verdict: Verdict
    claims: tuple[Judged, ...]
    failed_checks: int
    """Checks of the plan that do not hold."""
    unexpected: int
    """Runs with another outcome than the plan expects."""
    cpu_s: float
    """CPU time of the runs, of evaluating them and of drawing the figures."""
    system: str
    """The release of the kernel whose TCP was used; empty for the model."""

    @property
    def ok(self) -> bool:
        """Whether all runs ended as expected and all checks hold. Checks of the plan are for the model."""
        return not self.unexpected and (self.substrate != "model" or not self.failed_checks)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    @classmethod
    def of_json(cls, row: dict[str, Any]) -> "Outcome":
        """From `as_json`."""
        claims = tuple(Judged(one["name"], one["value"], Verdict(one["verdict"])) for one in row["claims"])
        return cls(**{**row, "verdict": Verdict(row["verdict"]), "claims": claims})


def place(out: Path, substrate: str, name: str) -> Path:
    """The result folder of an experiment."""
    return out / substrate / name


def run(one: Experiment, substrate: Where, out: Path, jobs: int, watch: Watch | None = None) -> Outcome:
    """Runs an experiment, replaces earlier results of it, and keeps the outcome. Raises `UserError`."""
    before = _cpu()
    plan = one.on(substrate)
    there = place(out, substrate, one.name)
    there.parent.mkdir(parents=True, exist_ok=True)
    with Session.begin(plan, there, Beginning(), replace_=True) as session:
        result = execute(session, Local(jobs), watch)
    if result.status != "complete":
        raise UserError(f"it was not completed: {result.status}", Place(there))
    results = load(there)
    claims = judged(one, results)
    made = Outcome(
        one.name,
        substrate,
        verdict.of_experiment([claim.verdict for claim in claims]),
        claims,
        sum(not check.holds for check in result.verdicts),
        sum(not ran.as_expected for ran in result.runs),
        round(_cpu() - before, 1),
        system(results),
    )
    write_whole(there.with_suffix(".json"), json.dumps(made.as_json(), indent=1).encode() + b"\n")
    return made


def judged(one: Experiment, results: Results) -> tuple[Judged, ...]:
    """The claims with their numbers and verdicts."""
    numbers = Numbers(results)
    made = []
    for claim in one.told.claim:
        value = numbers.value(claim)
        made.append(Judged(claim.name, value, verdict.of_claim(claim, value)))
    return tuple(made)


def kept(out: Path, substrate: str, name: str) -> Outcome | None:
    """The outcome of an experiment that was run before; `None` if it was not. Raises `UserError`."""
    file = place(out, substrate, name).with_suffix(".json")
    if not file.exists():
        return None
    try:
        return Outcome.of_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"it is not the outcome of an experiment: {error}", Place(file)) from None


def system(results: Results) -> str:
    """The release of the kernel of the runs; empty for the model."""
    known = results.environment.get("substrates") or {}
    return next((version for version in known.values() if version), "")


def _cpu() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
