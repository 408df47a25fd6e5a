"""Runs an experiment on a substrate, and stores the data of its page.

OUT/<substrate>/<name>/       the results of the plan
OUT/<substrate>/<name>.json   claims with their numbers and verdicts, CPU time
"""

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

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
    """A claim of the paper, and the measured number."""

    name: str
    value: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an experiment on a substrate."""

    name: str
    substrate: str
    verdict: Verdict
    claims: tuple[Judged, ...]
    failed_checks: int
    """Number of checks of the plan that fail."""
    unexpected: int
    """Number of runs with another outcome than the plan expects."""
    cpu_s: float
    """CPU time of the runs, of evaluating them and of drawing the figures."""
    system: str
    """The release of the kernel whose TCP was used; empty for the model."""

    @property
    def ok(self) -> bool:
        """Whether all runs ended as expected and all checks hold. Checks of the plan are for the model."""
        return not self.unexpected and (self.substrate != "model" or not self.failed_checks)


OUTCOME: Final = TypeAdapter(Outcome)
"""The form of an outcome in files and for programs."""


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
    if result.status == "interrupted":
        raise KeyboardInterrupt
    if result.status != "complete":
        raise UserError(f"it was not completed: {result.status}", Place(there))
    results = load(there)
    claims = judged(one, Numbers(results, one.slower_by(substrate)))
    made = Outcome(
        one.name,
        substrate,
        verdict.of_experiment([claim.verdict for claim in claims], planted=one.planted(substrate)),
        claims,
        sum(not check.holds for check in result.verdicts),
        sum(not ran.as_expected for ran in result.runs),
        round(_cpu() - before, 1),
        system(results),
    )
    write_whole(there.with_suffix(".json"), OUTCOME.dump_json(made, indent=1) + b"\n")
    return made


def judged(one: Experiment, numbers: Numbers) -> tuple[Judged, ...]:
    """The claims with their numbers and verdicts."""
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
        return OUTCOME.validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"it is not the outcome of an experiment: {first}", Place(file)) from None


def system(results: Results) -> str:
    """The release of the kernel of the runs; empty for the model."""
    known = results.environment.get("substrates") or {}
    return next((version for version in known.values() if version), "")


def _cpu() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
