"""Selection of the recording for a command: the folder of a recording, or a run of a result folder."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tcpassay.errors import Place, UserError
from tcpassay.messages import Outcome
from tcpassay.plan.expand import heading
from tcpassay.recording import Recording
from tcpassay.results import as_text, load


@dataclass(frozen=True, slots=True)
class Source:
    """A recording and its label."""

    label: str
    recording: Recording
    seeds: tuple[Recording, ...]
    """That one first, and the recordings of the other seeds if all were asked for."""
    runs: int = 1
    """The number of completed runs of the case."""
    of_cases: int = 1
    """The number of cases of the results."""


def sources(folder: Path, cases: list[str], seed: int | None, *, every_seed: bool = False) -> list[Source]:
    """The selected recordings in the order of `cases`.

    Without `cases`, those of all cases. Without `seed`, the first one of each case. Raises `UserError`.

    `folder` is a recording or the results of a plan; in the latter, a prefix of an id selects a case.
    """
    if (folder / "recording.json").exists():
        if cases:
            raise UserError(
                f"`{cases[0]}`: this is the folder of one recording, which has no other cases", Place(folder)
            )
        recording = Recording.open(folder)
        if seed not in {None, recording.header.get("seed")}:
            raise UserError(f"it is of seed {recording.header.get('seed')}, not {seed}", Place(folder))
        return [Source(folder.name, recording, (recording,))]
    results = load(folder)
    kept = [run for run in results.runs if run.get("recording")]
    if not kept:
        why = 'no run left a recording; with `recordings = "all"` in [keep] of the plan all do'
        raise UserError(why, Place(folder))
    wanted = [results.case(case) for case in cases] or list(dict.fromkeys(str(run["case"]) for run in kept))
    runs = Counter(str(run["case"]) for run in results.runs if run.get("outcome") == Outcome.DONE)
    made = []
    for case in wanted:
        of_case = [run for run in kept if run["case"] == case and seed in {None, run["seed"]}]
        if not of_case and cases:
            # Reports whether the seed or the recording is missing.
            recording = results.recording(case, seed)
            made.append(Source(case, recording, (recording,)))
        elif of_case:
            varied = {name: as_text(value) for name, value in (of_case[0].get("varied") or {}).items()}
            label = heading({name: text for name, text in varied.items() if text is not None}) or case
            opened = [
                results.recording(case, run["seed"]) for run in (of_case if every_seed else of_case[:1])
            ]
            made.append(Source(label, opened[0], tuple(opened), runs[case], len(runs)))
    if not made:
        raise UserError(f"no run with seed {seed} left a recording", Place(folder))
    return made


def source(folder: Path, case: str | None, seed: int | None) -> Source:
    """The selected recording. Raises `UserError`."""
    found = sources(folder, [case] if case else [], seed)
    if len(found) > 1:
        some = ", ".join(one.recording.folder.name for one in found[:3])
        raise UserError(f"it has {len(found)} recordings ({some}, ...); name a case", Place(folder))
    return found[0]
