"""The findings of a plan as input of isolation: runs with their effects, and the values that these runs share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tcpassay.common import common
from tcpassay.errors import Place, UserError
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.triples import Triple, Triples, triples_of
from tcpassay.judge import Finding, Severity
from tcpassay.messages import Outcome
from tcpassay.plan.expand import show
from tcpassay.plan.fields import Scalar
from tcpassay.results import Results

_SHOWN = 20
"""Maximum number of findings that the message about an unknown finding lists."""
_RANK: Final = tuple(Severity)


@dataclass(frozen=True)
class Symptom:
    """A run of the plan with a finding."""

    case: str
    seed: int
    substrate: str
    triples: Mapping[str, Scalar]
    varied: Mapping[str, Scalar]
    findings: tuple[Finding, ...]
    digest: str = ""
    trace: str = ""

    @property
    def effects(self) -> frozenset[Effect]:
        """What showed."""
        return frozenset(map(effect_of, self.findings))


def effect_of(finding: Finding) -> Effect:
    """The effect that a finding shows."""
    return Effect.of(finding.oracle, str(finding.severity), finding.title)


def name(finding: Finding) -> str:
    """The name of a finding on the command line, as in `1a2b3c4d5e-1/late-ack`."""
    return f"{finding.case}-{finding.seed}/{finding.oracle}"


def symptoms(results: Results) -> list[Symptom]:
    """The runs with findings, in the order of the plan."""
    by_run: dict[tuple[str, int | None], list[Finding]] = {}
    for finding in results.found:
        by_run.setdefault((finding.case, finding.seed), []).append(finding)
    made = []
    for run in results.runs:
        found = by_run.get((run["case"], run["seed"]))
        if found and isinstance(run.get("triples"), dict) and not run.get("script"):
            made.append(
                Symptom(
                    run["case"],
                    run["seed"],
                    run.get("substrate") or "model",
                    run["triples"],
                    run.get("varied") or {},
                    tuple(found),
                    run.get("digest") or "",
                    run.get("trace") or "",
                )
            )
    return made


def chosen(symptoms_: Sequence[Symptom], text: str, results: Results) -> tuple[Symptom, Effect]:
    """The finding that the user means: `CASE-SEED/ORACLE`, its beginning, or the name of an oracle.

    After either of them `: TITLE`, a part of a title, says which one of several. Of the findings meant the
    effect is taken that `by_effect` names first, in the run with the fewest triples, where `isolate` without a finding
    begins, too.
    Raises `UserError` with what there is when it is none.
    """
    place, _, title = text.partition(": ")
    named = [(name(one), symptom, one) for symptom in symptoms_ for one in symptom.findings]
    titled = [one for one in named if title.casefold() in one[2].title.casefold()]
    for meant in (
        [one for one in titled if one[0] == place],
        [one for one in titled if place and one[0].startswith(place)],
        [one for one in titled if one[2].oracle == place],
    ):
        if meant:
            kept: dict[int, list[Finding]] = {}
            for _, symptom, finding in meant:
                kept.setdefault(id(symptom), []).append(finding)
            among = [replace(one, findings=tuple(kept[id(one)])) for one in symptoms_ if id(one) in kept]
            effect, having = next(iter(by_effect(among).items()))
            run = fewest(having)
            return next(one for one in symptoms_ if (one.case, one.seed) == (run.case, run.seed)), effect
    if not named:
        raise UserError(f"`{text}`: the runs there have no findings", Place(results.folder))
    listed = list(dict.fromkeys(one[0] for one in named))
    more = f"\n  ... and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    there = "".join(f"\n  {one}" for one in listed[:_SHOWN])
    message = (
        f"`{text}` is not a finding of these results; give one of these, its beginning, or the name of an oracle:"
        f"{there}{more}"
    )
    raise UserError(message, Place(results.folder))


def fewest(among: Iterable[Symptom]) -> Symptom:
    """The run with the fewest triples, of several the first of the plan."""
    return min(among, key=lambda one: len(one.triples))


def by_effect(symptoms_: Iterable[Symptom]) -> dict[Effect, list[Symptom]]:
    """The runs that show each effect: errors first, notes last; of these the most frequent first, then the earliest."""
    made: dict[Effect, list[Symptom]] = {}
    for symptom in symptoms_:
        for effect in sorted(symptom.effects):
            made.setdefault(effect, []).append(symptom)
    first = {
        effect: min(one.start_ns for symptom in among for one in symptom.findings if effect_of(one) == effect)
        for effect, among in made.items()
    }
    ordered = sorted(
        made.items(), key=lambda item: (_RANK.index(item[0].severity), -len(item[1]), first[item[0]])
    )
    return dict(ordered)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Evidence about the cause of an effect from the runs of the plan alone."""

    shared: Triples
    """Values of one run that all runs with the effect have and not all others."""
    share: Mapping[Triple, float]
    """For each value of the run that not all runs have: how much more frequent it is among runs with the effect."""

    @classmethod
    def of(cls, symptom: Symptom, effect: Effect, among: Sequence[Symptom], results: Results) -> "Suspicion":
        """From all runs that were done on the same substrate."""
        having = {(one.case, one.seed) for one in among if effect in one.effects}
        mine = triples_of(symptom.triples)
        with_: list[Mapping[str, str]] = []
        without: list[Mapping[str, str]] = []
        for run in results.runs:
            if run.get("outcome") != Outcome.DONE or (run.get("substrate") or "model") != symptom.substrate:
                continue
            said = run.get("triples") or {}
            values = {one.path: show(said[one.path]) if one.path in said else one.default for one in mine}
            (with_ if (run["case"], run["seed"]) in having else without).append(values)
        return cls.between(mine, with_, without)

    @classmethod
    def between(
        cls, mine: Triples, with_: Sequence[Mapping[str, str]], without: Sequence[Mapping[str, str]]
    ) -> "Suspicion":
        """From the values that runs with and without the effect have for the paths of one run's triples."""
        every = [*with_, *without]
        names = common(with_, every) if with_ else {}
        varying = [one for one in mine if len({values[one.path] for values in every}) > 1]
        shared = frozenset(one for one in varying if one.text in names.get(one.path, ()))
        return cls(shared, {one: _part(one, with_) - _part(one, without) for one in varying})


def _part(triple: Triple, runs: Sequence[Mapping[str, str]]) -> float:
    return sum(run[triple.path] == triple.text for run in runs) / len(runs) if runs else 0.0
