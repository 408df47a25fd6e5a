"""The result for one finding: its cause, the proof, and the smallest run that shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from tcpassay.isolate.experiment import Rate
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.triples import Triple, Triples, mapping_of
from tcpassay.plan.fields import Scalar


class TripleRow(TypedDict):
    """A triple of a cause in its file."""

    entity: str
    parameter: str
    path: str
    value: Scalar
    default: str
    reset_to: str
    """The value in runs without the triple: the default, or that of a case with which this one is compared."""


class EffectRow(TypedDict):
    """An effect in the file of a cause."""

    oracle: str
    severity: str
    title: str


class RunOf(TypedDict):
    """A run of the plan."""

    case: str
    seed: int


class ExplainedRow(RunOf):
    """A finding of the plan that a cause explains."""

    oracle: str


class ResetRow(TypedDict):
    """A row of the proof in the file of a cause; see `Reset`."""

    path: str
    value: Scalar
    reset_to: str
    also_reset: list[str]
    shown: int
    runs: int
    problem: str
    gone: bool
    triples: dict[str, Scalar]


class SmallestRow(TypedDict):
    """The smallest run in the file of a cause; see `Smallest`."""

    case: str
    triples: dict[str, Scalar]
    changed: dict[str, Scalar]
    shown: int
    runs: int


class CauseRow(TypedDict):
    """The file of a cause; see `Cause`."""

    oracle: str
    severity: str
    title: str
    substrate: str
    isolated_from: RunOf
    cause: list[TripleRow]
    required: list[str]
    run: dict[str, Scalar]
    shown: int
    runs: int
    seeds: list[int]
    complete: bool
    why_not: str
    proven: bool
    miss_probability: float
    consequences: list[str]
    produces: list[EffectRow]
    proof: list[ResetRow]
    smallest_run: SmallestRow | None
    explains: list[ExplainedRow]
    runs_made: int
    cpu_s: float
    plan: str


@dataclass(frozen=True, slots=True)
class Reset:
    """A triple of the cause with another value, and whether the effect is still there: a row of the proof."""

    triple: Triple
    value: str
    """The value to which it is reset: the default, or an alternative."""
    also: tuple[Triple, ...]
    """Further triples that were reset because they require this one."""
    rate: Rate
    triples: Mapping[str, Scalar]
    """The settings of the case after the reset, including those of the run."""

    @property
    def gone(self) -> bool:
        """Whether the effect is gone."""
        return self.rate.absent

    def as_json(self) -> ResetRow:
        """The form for JSON."""
        return {
            "path": self.triple.path,
            "value": self.triple.value,
            "reset_to": self.value,
            "also_reset": [one.path for one in self.also],
            "shown": self.rate.shown,
            "runs": self.rate.runs,
            "problem": self.rate.problem,
            "gone": self.gone,
            "triples": dict(self.triples),
        }


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest run that was found to show the effect."""

    triples: Mapping[str, Scalar]
    """All its settings: the cause, the duration, the rates and the amount of data."""
    changed: Mapping[str, Scalar]
    """The settings that differ from the run of the cause."""
    case: str
    rate: Rate

    def as_json(self) -> SmallestRow:
        """The form for JSON."""
        return {
            "case": self.case,
            "triples": dict(self.triples),
            "changed": dict(self.changed),
            "shown": self.rate.shown,
            "runs": self.rate.runs,
        }


@dataclass
class Cause:
    """The smallest set of triples that produces an effect, all other parameters at their defaults."""

    effect: Effect
    substrate: str
    case: str
    seed: int
    """`case` and `seed` identify the run of the plan whose finding was isolated."""
    whole: Triples
    """The settings of that run that differ from the defaults."""
    triples: tuple[Triple, ...]
    """The cause; empty if the effect occurs with every parameter at its default."""
    run: Triples
    """Further settings of the isolation's runs, such as their duration."""
    rate: Rate
    seeds: tuple[int, ...]
    baseline: Triples = frozenset()
    """The values of parameters in runs without their triple, where these are not the defaults."""
    complete: bool = True
    """Whether the cause is proven to be minimal; otherwise it is the smallest set that was found."""
    why_not: str = ""
    effects: frozenset[Effect] = frozenset()
    """All effects that occur with the cause."""
    consequences: frozenset[Effect] = frozenset()
    """Effects that need further settings, but disappear from the plan's run if any triple of the cause is reset."""
    proof: list[Reset] = field(default_factory=list)
    miss: float = 0.0
    """Upper bound of the probability that a row of the proof missed a remaining effect."""
    smallest: Smallest | None = None
    explains: list[tuple[str, int, Effect]] = field(default_factory=list)
    """Findings of the plan that the cause explains, by case, seed and effect."""
    runs: int = 0
    cpu_s: float = 0.0
    plan: str = ""
    """The plan file that reproduces it."""

    @property
    def proven(self) -> bool:
        """Whether the effect is gone whichever triple of the cause is reset."""
        gone = {row.triple for row in self.proof if row.gone}
        return self.complete and gone == set(self.triples)

    @property
    def required(self) -> frozenset[Triple]:
        """Triples that are only required by others: the effect also occurs with another value."""
        return frozenset(row.triple for row in self.proof if row.rate.present)

    @property
    def core(self) -> Triples:
        """The cause without the triples that are only required by others."""
        return frozenset(self.triples) - self.required

    def reset_value(self, triple: Triple) -> str:
        """The value that a parameter has in runs without its triple."""
        return next((one.text for one in self.baseline if one.path == triple.path), triple.default)

    def case_triples(self) -> dict[str, Scalar]:
        """The settings of a case that shows the cause."""
        return mapping_of({*self.triples, *self.run})

    def neighbour(self, path: str) -> dict[str, Scalar] | None:
        """The settings of the case in which this triple of the cause is reset and the effect is gone."""
        rows = [row for row in self.proof if row.triple.path == path and row.gone]
        return dict(rows[0].triples) if rows else None

    def as_json(self) -> CauseRow:
        """The form for JSON."""
        return {
            "oracle": self.effect.oracle,
            "severity": self.effect.severity,
            "title": self.effect.title,
            "substrate": self.substrate,
            "isolated_from": {"case": self.case, "seed": self.seed},
            "cause": [
                {
                    "entity": one.entity,
                    "parameter": one.parameter,
                    "path": one.path,
                    "value": one.value,
                    "default": one.default,
                    "reset_to": self.reset_value(one),
                }
                for one in self.triples
            ],
            "required": sorted(one.path for one in self.required),
            "run": mapping_of(self.run),
            "shown": self.rate.shown,
            "runs": self.rate.runs,
            "seeds": list(self.seeds),
            "complete": self.complete,
            "why_not": self.why_not,
            "proven": self.proven,
            "miss_probability": self.miss,
            "consequences": [one.oracle for one in sorted(self.consequences)],
            "produces": [
                {"oracle": one.oracle, "severity": one.severity, "title": one.title}
                for one in sorted(self.effects)
            ],
            "proof": [row.as_json() for row in self.proof],
            "smallest_run": None if self.smallest is None else self.smallest.as_json(),
            "explains": [
                {"case": case, "seed": seed, "oracle": effect.oracle} for case, seed, effect in self.explains
            ],
            "runs_made": self.runs,
            "cpu_s": round(self.cpu_s, 3),
            "plan": self.plan,
        }


def same_cause(one: Cause, other: Cause) -> bool:
    """Whether two findings have the same cause."""
    said = ({(t.path, t.text) for t in cause.core} for cause in (one, other))
    return one.substrate == other.substrate and next(said) == next(said)
