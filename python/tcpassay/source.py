"""Selection of the recording for a command: the folder of a recording, or a run of a result folder."""

from dataclasses import dataclass
from pathlib import Path

from tcpassay.errors import Place, UserError
from tcpassay.recording import Recording
from tcpassay.results import as_text, load


@dataclass(frozen=True, slots=True)
class Source:
    """A recording and its label."""

    label: str
    recording: Recording


def sources(folder: Path, cases: list[str], seed: int | None) -> list[Source]:
    """The selected recordings in the order of `cases`.

    Without `cases`, all recordings of one seed. Raises `UserError`.

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
        return [Source(folder.name, recording)]
    results = load(folder)
    kept = [run for run in results.runs if run.get("recording")]
    if not kept:
        why = 'no run left a recording; with `recordings = "all"` in [keep] of the plan all do'
        raise UserError(why, Place(folder))
    wanted = [results.case(case) for case in cases] or list(dict.fromkeys(str(run["case"]) for run in kept))
    made = []
    for case in wanted:
        first = next((run for run in kept if run["case"] == case and seed in {None, run["seed"]}), None)
        if first is None and cases:
            # Reports whether the seed or the recording is missing.
            made.append(Source(case, results.recording(case, seed)))
        elif first is not None:
            values = (as_text(value) for value in (first.get("varied") or {}).values())
            label = ", ".join(text for text in values if text is not None) or case
            made.append(Source(label, results.recording(case, first["seed"])))
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
