"""Why a finding does not reproduce."""

from dataclasses import dataclass

from tcpassay._native import __version__
from tcpassay.isolate.experiment import Experiment, Rate
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.symptoms import Symptom
from tcpassay.isolate.triples import Triples
from tcpassay.results import Results
from tcpassay.run.environment import table_version
from tcpassay.substrate import release


@dataclass(frozen=True, slots=True)
class Unreproduced:
    """A finding that did not reproduce."""

    effect: Effect
    case: str
    seed: int
    why: str

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {"oracle": self.effect.oracle, "case": self.case, "seed": self.seed, "why": self.why}


def why_not(results: Results, symptom: Symptom, experiment: Experiment, whole: Triples, rate: Rate) -> str:
    """The known differences from the first run, in words."""
    if not rate.runs:
        return f"its case does not complete here: {rate.problem}"
    parts = list(_versions(results, symptom.substrate))
    ran = experiment.runner.known(experiment.job(whole, 0).key)
    trials = len(experiment.trials)
    if experiment.trials.real_time:
        parts.append(f"runs are in real time, and none of {trials} repetitions has the finding")
    elif ran is not None and symptom.trace and ran.trace == symptom.trace:
        now = sorted({one.severity for one in ran.effects if one.oracle == experiment.effect.oracle})
        finds = f"reports another severity ({', '.join(now)})" if now else "reports no finding"
        parts.append(
            f"with seed {symptom.seed} the run takes the same steps as the first time, but the oracle {finds}"
        )
    elif ran is not None and symptom.trace:
        parts.append(f"with seed {symptom.seed} the run takes other steps than the first time")
    else:
        parts.append(f"no run has it with the seeds {', '.join(map(str, experiment.trials.seeds))}")
    return "; ".join(parts)


def _versions(results: Results, substrate: str) -> list[str]:
    said = []
    for name, here in (("tcpassay", __version__), ("the tables of parameters", table_version())):
        there = results.environment.get("tcpassay" if name == "tcpassay" else "tables", here)
        if there != here:
            said.append(f"the plan was run with {name} {there}, this is {here}")
    before, now = results.environment.get("substrates", {}).get(substrate), release(substrate)
    if before != now:
        said.append(f"the plan was run on Linux {before or 'unknown'}, this is {now or 'unknown'}")
    return said
