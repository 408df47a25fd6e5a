"""The options and the result of an isolation."""

from dataclasses import dataclass, field
from pathlib import Path

from tcpassay.isolate.cause import Cause
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.reproduce import Unreproduced
from tcpassay.isolate.runner import Budget


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an isolation."""

    seeds: int = 3
    """Number of runs per case: seeds, or repetitions in real time."""
    jobs: int = 1
    budget: Budget = field(default_factory=Budget)
    force: bool = False
    """Whether findings that every run of the plan has are isolated, too."""
    reduce: bool = True
    """Whether the run of a cause is reduced, and its values simplified."""


@dataclass
class Isolation:
    """The result of an isolation."""

    folder: Path
    causes: list[Cause] = field(default_factory=list)
    unreproduced: list[Unreproduced] = field(default_factory=list)
    everywhere: list[tuple[Effect, int]] = field(default_factory=list)
    """Effects that all runs of the plan have, with their number: no comparison shows their cause."""
    left: list[tuple[str, int, Effect]] = field(default_factory=list)
    """Findings that were not isolated because the budget was used up or the isolation was interrupted."""
    stopped: str = ""
    """Why it ended before it was complete."""
    again: bool = False
    """Whether the same command begins again, because a program was changed, instead of continuing."""
    notes: list[str] = field(default_factory=list)
    runs: int = 0
    made: int = 0
    """Number of runs of this command; the other `runs` were stored results."""
    cpu_s: float = 0.0
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "folder": str(self.folder),
            "causes": [one.as_json() for one in self.causes],
            "unreproduced": [one.as_json() for one in self.unreproduced],
            "in_every_run": [
                {"oracle": effect.oracle, "title": effect.title, "runs": n} for effect, n in self.everywhere
            ],
            "left": [
                {"case": case, "seed": seed, "oracle": effect.oracle} for case, seed, effect in self.left
            ],
            "stopped": self.stopped,
            "notes": self.notes,
            "runs": self.runs,
            "runs_made": self.made,
            "cpu_s": round(self.cpu_s, 3),
            "seconds": round(self.seconds, 3),
        }
