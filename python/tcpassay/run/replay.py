"""Repeats a run from its result folder and compares it with the original."""

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tcpassay import load, regular, scratch
from tcpassay._native import __version__
from tcpassay.errors import Place, UserError
from tcpassay.finding import Finding
from tcpassay.messages import Answer, CaseRequest, Outcome, Script, Triples, Value
from tcpassay.plan.model import PlanFile
from tcpassay.result_format import RunRow
from tcpassay.results import Results
from tcpassay.run import inputs
from tcpassay.run.environment import table_version
from tcpassay.run.pool import Pool
from tcpassay.run.settings import limits_of, oracles_of, wanted_of
from tcpassay.substrate import release, substrate_of
from tcpassay.substrate.base import without_events
from tcpassay.trust import consent

INDEX = "recording.json"
_DIGITS = 12
"""Digits of a digest in a note."""
_SHOWN = 3
"""Maximum number of listed ids if a prefix is ambiguous."""


@dataclass(slots=True)
class Replayed:
    """A repeated run."""

    case: str
    seed: int
    varied: dict[str, Value]
    outcome: str
    message: str
    trace: str
    recorded_outcome: str
    recorded_trace: str | None
    """The trace of the original run in the result; `None` if it has none."""
    files: dict[str, bool]
    """The files of the kept recording, and whether the repeated files are identical."""
    digest: bool | None
    """Whether all originally collected data is identical according to the checksums; `None` if unknown."""
    findings: list[Finding]
    folder: Path | None
    """The folder of the new recording, if requested."""
    notes: list[str] = field(default_factory=list)
    other_version: bool = False
    """Whether another version of tcpassay or of a command of `exec:` made the run."""

    @property
    def same(self) -> bool:
        """Whether the run is identical, as far as it can be compared."""
        told = self.recorded_trace in {None, self.trace} and self.outcome == self.recorded_outcome
        return told and all(self.files.values()) and self.digest is not False

    @property
    def differing(self) -> list[str]:
        """Files of the kept recording that differ although the runs are identical."""
        told = self.recorded_trace == self.trace and self.outcome == self.recorded_outcome
        return [name for name, same in self.files.items() if not same] if told else []

    @property
    def damaged(self) -> list[str]:
        """The same if this version made them: they were changed afterwards."""
        return [] if self.other_version else self.differing

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "case": self.case,
            "seed": self.seed,
            "same": self.same,
            "outcome": self.outcome,
            "message": self.message,
            "trace": self.trace,
            "recorded_outcome": self.recorded_outcome,
            "recorded_trace": self.recorded_trace,
            "files": self.files,
            "checksums_same": self.digest,
            "damaged": self.damaged,
            "folder": None if self.folder is None else str(self.folder),
            "notes": self.notes,
            "findings": [one.as_json() for one in self.findings],
        }


def replay(path: Path, case: str, seed: int | None, out: Path | None, *, packets: bool = False) -> Replayed:
    """Repeats a run of the results in `path`; `case` may be a prefix of an id.

    The recording is written to `out` with the event log, and with packets if requested. Raises `UserError`.
    """
    results = load(path)
    run = _run(results, case, seed)
    spec, notes = spec_of(results)
    other_version = _versions(results, run, notes)
    within(run, results)
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("it exists already; name a folder that does not with --out", Place(out))
    collect = wanted_of(spec)
    more = packets and not collect["packets"]
    with _place(out) as place:
        answer = again(path, run, spec, place, packets=packets)
        kept = None if run.get("recording") is None else results.place_of(run)
        files = {} if kept is None or answer.outcome != Outcome.DONE else _compared(kept, place, more=more)
    before, now = run.get("digest"), answer.digest
    return Replayed(
        run["case"],
        run["seed"],
        run.get("varied") or {},
        answer.outcome,
        answer.message,
        answer.trace,
        run["outcome"],
        run.get("trace"),
        files,
        None if more or not before or not now else before == now,
        [one.of(run["case"], run["seed"]) for one in answer.findings],
        out if answer.kept else None,
        notes,
        other_version,
    )


def again(  # noqa: PLR0913 - what identifies a run, and two switches
    path: Path,
    run: RunRow,
    spec: PlanFile,
    place: Path,
    *,
    packets: bool = False,
    triples: Triples | None = None,
) -> Answer:
    """Repeats a run of the results in `path` with the event log; its recording is written to `place`.

    `triples` replaces the settings of the case. Raises `UserError` if the substrate is not available or if the
    recording cannot be written.
    """
    return _ask(request_again(path, run, spec, place, packets=packets, triples=triples), spec)


def request_again(  # noqa: PLR0913 - see `again`
    path: Path,
    run: RunRow,
    spec: PlanFile,
    place: Path,
    *,
    packets: bool = False,
    triples: Triples | None = None,
) -> CaseRequest:
    """The request of `again`, for a pool. Raises `UserError` if the substrate is not available."""
    collect = wanted_of(spec)
    substrate = run.get("substrate", "model")
    substrate_of(substrate).ready()
    return CaseRequest(
        script=_script(run, path),
        triples=run["triples"] if triples is None else dict(triples),
        substrate=substrate,
        seed=run["seed"],
        base=str(inputs.base_of(path)),
        collect=collect | {"events": True, "packets": packets or collect["packets"]},
        expect=run.get("expect", "done"),
        oracles=oracles_of(spec),
        keep=True,
        keep_found=True,
        keep_events=True,
        memory=limits_of(spec).memory,
        seconds=None if substrate == "model" else limits_of(spec).seconds,
        folder=str(place),
    )


def _script(run: RunRow, path: Path) -> Script | None:
    """The script of a run. Raises `UserError` for a damaged one."""
    if not run.get("script"):
        return None
    try:
        return TypeAdapter(Script).validate_python(run["script"])
    except ValidationError as error:
        said = error.errors()[0]
        message = (
            f"case {run['case']}: its script is damaged: {'.'.join(map(str, said['loc']))}: {said['msg']}"
        )
        raise UserError(message, Place(path / "result.json")) from None


def _run(results: Results, case: str, seed: int | None) -> RunRow:
    place = Place(results.folder)
    ids = sorted({str(run["case"]) for run in results.runs if str(run["case"]).startswith(case)})
    if len(ids) != 1:
        more = ", ..." if len(ids) > _SHOWN else ""
        what = f"several cases begin so: {', '.join(ids[:_SHOWN])}{more}" if ids else "no case has this id"
        raise UserError(f"`{case}`: {what}", place)
    runs = [run for run in results.runs if run["case"] == ids[0]]
    seeds = [run["seed"] for run in runs]
    if seed is None and len(runs) > 1:
        raise UserError(
            f"case {ids[0]} ran with seeds {', '.join(map(str, seeds))}; choose one by --seed", place
        )
    chosen = next((run for run in runs if seed in {None, run["seed"]}), None)
    if chosen is None:
        raise UserError(f"case {ids[0]} has no seed {seed}; it has {', '.join(map(str, seeds))}", place)
    return chosen


def spec_of(results: Results) -> tuple[PlanFile, list[str]]:
    """The plan's settings for running, without generating its cases. Defaults if it cannot be read."""
    keys = ("name", "collect", "oracles", "limits")
    try:
        data = tomllib.loads(results.plan)
        return PlanFile.model_validate({key: data[key] for key in keys if key in data}), []
    except ValueError:
        note = "plan.toml cannot be read: what it collected is not known, so that only the trace is compared"
        return PlanFile(name="unknown"), [note]


def _versions(results: Results, run: RunRow, notes: list[str]) -> bool:
    """Adds notes about other versions; whether another version of tcpassay made the run."""
    other = False
    for name, here in (("tcpassay", __version__), ("tables", table_version())):
        there = results.environment.get(name, here)
        if there != here:
            notes.append(f"the run was made with {name} {there}; this is {here}")
            other = True
    substrate = run.get("substrate", "model")
    made_by = results.environment.get("substrates", {}).get(substrate)
    ours = release(substrate)
    if made_by != ours:
        notes.append(f"on the substrate `{substrate}` the run was made by Linux {made_by}; this is {ours}")
    changed = changed_commands(results, [run])
    notes += changed
    return other or bool(changed)


def changed_commands(results: Results, runs: Iterable[RunRow]) -> list[str]:
    """A sentence for each command of these runs that is not the one with which the results were made."""
    before = results.environment.get("commands") or {}
    now = consent.command_digests(run.get("triples") or {} for run in runs)
    return [
        f"`{name}` was changed after the results were made (SHA-256 {before[name][:_DIGITS]} then, {digest[:_DIGITS]} "
        "now): this is another program"
        for name, digest in now.items()
        if name in before and before[name] != digest
    ]


def within(run: RunRow, results: Results) -> None:
    """Checks the files and the parameters of a run.

    Raises `UserError` if the run needs a damaged or missing file of the folder, or a file outside of it, and if its
    parameters are not known.
    """
    sums = results.index.get("files", {})
    copied = {name: said for name, said in sums.items() if name.startswith(f"{inputs.FOLDER}/")}
    for name in inputs.damaged(copied, results.folder):
        message = "it is damaged or missing: its checksum is not that in result.json"
        raise UserError(message, Place(results.folder / name))
    script = run.get("script")
    if script:
        file = script.get("file") if isinstance(script, dict) else None
        place = None if not isinstance(file, str) else os.path.normpath(inputs.base_of(results.folder) / file)
        inside = os.path.normpath(results.folder / inputs.FOLDER)
        if place is None or not (Path(str(file)).is_absolute() or place.startswith(inside + os.sep)):
            raise UserError(f"`{file}` is not a script of this folder", Place(results.folder / "result.json"))
    if not isinstance(run.get("triples"), dict):
        raise UserError(f"case {run['case']}: its parameters are not known", Place(results.folder))


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    if out is not None:
        if out.is_dir():
            out.rmdir()
        yield out
        return
    with scratch.folder() as folder:
        yield folder / "recording"


def _ask(request: CaseRequest, spec: PlanFile) -> Answer:
    ((answered,),) = Pool(1, limits_of(spec)).run([request])
    answer = answered[1]
    if answer.outcome == "unwritable":
        raise UserError(f"the recording cannot be written: {answer.message}", Place(Path(request.folder)))
    return answer


def _compared(kept: Path, made: Path, *, more: bool) -> dict[str, bool]:
    """For each kept file, whether the repeated file is identical."""
    same = {}
    try:
        files = sorted(kept.iterdir())
    except OSError as error:
        raise UserError(f"the recording cannot be read: {error.strerror}", Place(kept)) from None
    for file in files:
        if file.name == INDEX:
            if not more:
                same[file.name] = _index(file, made / INDEX, whole=(kept / "events.parquet").exists())
        else:
            other = made / file.name
            try:
                same[file.name] = regular.read_bytes(file, links=False) == regular.read_bytes(other)
            except OSError:
                same[file.name] = False
    return same


def _index(kept: Path, made: Path, *, whole: bool) -> bool:
    """The new index lists an event log; the old one may not."""
    new = made.read_text(encoding="utf-8")
    try:
        return regular.read_bytes(kept, links=False) == (new if whole else without_events(new)).encode()
    except OSError:
        return False


def words(done: Replayed) -> str:  # noqa: PLR0911 - one sentence for each case
    """The result of the comparison in one line."""
    if done.recorded_trace is None:
        return f"trace {done.trace}; the trace of the original run is unknown"
    if not done.same:
        wrong = [name for name, same in done.files.items() if not same]
        if done.differing:
            these = "these files of the kept recording have other bytes than the run makes"
            if done.other_version:
                these = "this version writes other bytes in these files of the recording"
            return f"trace {done.trace} as before, but {these}: {', '.join(wrong)}"
        what = [f"trace {done.recorded_trace or '-'} before, {done.trace or '-'} now"]
        if done.outcome != done.recorded_outcome:
            what.insert(0, f"{done.recorded_outcome} before, {done.outcome} now")
        return "; ".join([*what, *([f"other bytes in {', '.join(wrong)}"] if wrong else [])])
    if done.outcome != Outcome.DONE:
        return f"{done.outcome}, as before"
    if done.files:
        return f"trace {done.trace} as before, and the same bytes in {len(done.files)} files of the recording"
    if done.digest:
        return f"trace {done.trace} as before, and all tables with the same checksums (no recording was kept)"
    return f"trace {done.trace} as before"
