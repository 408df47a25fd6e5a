"""The behaviour of a kernel in the cases of a plan or in scripts, as a text that is equal for equal behaviour."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from tcpassay.errors import Place, UserError
from tcpassay.messages import Answer
from tcpassay.plan import write
from tcpassay.plan.expand import SUBSTRATE, Case, show
from tcpassay.plan.model import PlanFile
from tcpassay.plan.read import Plan, read, read_file
from tcpassay.results import load
from tcpassay.run.inputs import base_of
from tcpassay.run.pool import Pool
from tcpassay.run.settings import Settings
from tcpassay.scratch import folder as scratch_folder

By = Literal["packets", "findings", "outcome"]
"""The compared properties: packets with their times and outcomes; findings and outcomes; outcomes alone."""
KINDS: Final[dict[str, By]] = {"packets": "packets", "findings": "findings", "outcome": "outcome"}
MOST_RUNS: Final = 200
"""A bisection repeats the runs for each state."""


@dataclass(frozen=True)
class Behaviour:
    """Runs the cases on a kernel."""

    plan: Callable[[str], Plan]
    """The plan for the substrate of this name."""
    by: By
    jobs: int

    def __call__(self, kernel: str) -> str:
        """The behaviour as a text. Raises `UserError` if a run ends for a reason outside of the kernel."""
        plan = self.plan(f"kernel:{kernel}")
        settings = Settings.of(plan)
        runs = [(case, seed) for case in plan.cases for seed in plan.spec.seeds]
        if len(runs) > MOST_RUNS:
            raise UserError(
                f"{len(runs)} runs for each state are too many; give at most {MOST_RUNS}", Place(plan.file)
            )
        with scratch_folder() as place:
            requests = [
                replace(
                    settings.request(plan, case, seed),
                    base=str(plan.file.parent.resolve()),
                    folder=str(place / str(number)),
                    keep=False,
                    keep_found=False,
                )
                for number, (case, seed) in enumerate(runs)
            ]
            answers: dict[int, str] = {}
            for some in Pool(self.jobs, settings.limits).run(requests):
                for index, answer in some:
                    if answer.outside:
                        raise UserError(f"a run was killed from outside: {answer.message.splitlines()[0]}")
                    answers[index] = self._said(answer)
        return "\n".join(
            f"{_named(case)}seed {seed}: {answers[number]}" for number, (case, seed) in enumerate(runs)
        )

    def _said(self, answer: Answer) -> str:
        said = answer.outcome
        if said != "done" and answer.message:
            said += f" ({answer.message.splitlines()[0]})"
        if self.by == "packets" and answer.trace:
            said += f", packets {answer.trace}"
        if self.by != "outcome" and answer.findings:
            said += f", findings {', '.join(sorted({one.oracle for one in answer.findings}))}"
        return said


def of_plan(file: Path) -> Callable[[str], Plan]:
    """The cases of a plan file."""
    return lambda substrate: read_file(file, substrates=[substrate])


def of_case(folder: Path, case: str, seed: int | None) -> Callable[[str], Plan]:
    """A case of a result folder, with one seed or all of its seeds. Raises `UserError` if there is none."""
    results = load(folder)
    name = results.case(case)
    runs = [run for run in results.runs if run["case"] == name and seed in {None, run["seed"]}]
    if not runs or not isinstance(runs[0].get("triples"), dict):
        raise UserError(f"case {name} has no run with seed {seed}", Place(folder))
    spec = PlanFile.model_validate(
        {
            "name": "bisect",
            "seeds": [run["seed"] for run in runs],
            "fixed": runs[0]["triples"],
        }
    )
    text, base = write.toml(spec, f"Case {name}."), base_of(folder) / "plan.toml"
    return lambda substrate: read(text, base, substrates=[substrate])


def of_scripts(files: Sequence[Path]) -> Callable[[str], Plan]:
    """Packetdrill scripts."""
    return lambda substrate: scripts_on(files, [substrate])


def scripts_on(files: Sequence[Path], substrates: Sequence[str]) -> Plan:
    """A plan of packetdrill scripts on these substrates. Raises `UserError`."""
    spec = PlanFile.model_validate(
        {
            "name": "scripts",
            "scripts": [{"files": [str(file.resolve()) for file in files]}],
        }
    )
    return read(write.toml(spec, "Scripts."), Path.cwd() / "plan.toml", substrates=list(substrates))


def _named(case: Case) -> str:
    """The settings that distinguish a case, if there are several; the substrate differs in any case."""
    said = ", ".join(f"{name}={show(value)}" for name, value in case.varied.items() if name != SUBSTRATE)
    return f"{said}, " if said else ""
