"""The explanation of a finding: its run with the event log, compared with a run with one triple of its cause reset."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tcpassay import isolate, scratch
from tcpassay.errors import Place, UserError
from tcpassay.explain.arrows import Arrow, arrows
from tcpassay.explain.difference import Difference, first_difference
from tcpassay.explain.lines import Line, Shown, lines, shortened, with_gaps
from tcpassay.explain.moments import RST, SYN, Connection, End, connection
from tcpassay.interface import EventKind
from tcpassay.isolate.cause import CauseRow, ResetRow, TripleRow
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.symptoms import chosen, effect_of, symptoms
from tcpassay.judge import Finding
from tcpassay.judge.log import LogFile
from tcpassay.judge.registry import logged
from tcpassay.messages import Outcome, Triples
from tcpassay.recording import Recording
from tcpassay.result_format import RunRow
from tcpassay.results import Results, load
from tcpassay.run.replay import again, changed_commands, spec_of

LEAD: Final = 6
"""Number of displayed segments before the first row of the evidence."""
TAIL: Final = 3
"""Number of displayed segments after the last row of the evidence."""
MOST: Final = 60
"""Default number of displayed lines."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The same run with one triple of the cause reset."""

    path: str
    reset_to: str
    difference: Difference | None
    """The first difference; `None` if the logs are identical."""
    finds: bool
    """Whether the oracle has a finding in this run."""

    @property
    def rank(self) -> tuple[bool, int]:
        """Sort key, higher for a better comparison: without the finding, and identical for a longer time."""
        return not self.finds, 0 if self.difference is None else self.difference.same


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a report needs of the displayed run besides its log."""

    versions: tuple[tuple[str, str], ...]
    """Each host with its TCP."""
    settings: Triples
    seed: int
    mss_bytes: int
    capture: bytes | None
    """`packets.pcapng`, if the plan collects packets."""


@dataclass(frozen=True)
class Explanation:
    """What happened on the connection of a finding, from the first deviation to the effect."""

    name: str
    finding: Finding
    """The finding in the displayed run."""
    of: Finding
    """The finding in the plan's results."""
    isolated: bool
    """The displayed run sets only the cause; otherwise it is the plan's run."""
    connection: Connection
    arrows: tuple[Arrow, ...]
    base: int
    """Position of the data that is displayed as 1."""
    shown: tuple[Shown, ...]
    cause: tuple[TripleRow, ...]
    """Triples of the isolated cause; empty if the finding was not isolated."""
    neighbour: Neighbour | None
    evidence: Evidence
    isolation: CauseRow | None = None
    """The cause as `isolate` stored it, with what was proven."""
    notes: tuple[str, ...] = ()

    @property
    def written(self) -> list[Line]:
        """The displayed lines."""
        return [one for one in self.shown if isinstance(one, Line)]

    def as_json(self) -> dict[str, object]:
        """The explanation as a JSON object."""
        return {
            "finding": self.name,
            "title": self.finding.title,
            "text": self.finding.text,
            "isolated_run": self.isolated,
            "cause": [{"path": one["path"], "value": one["value"]} for one in self.cause],
            "neighbour": None if self.neighbour is None else asdict(self.neighbour),
            "ends": list(self.connection.names),
            "flow": self.connection.flow,
            "positions_from": self.base,
            "lines": [{"is": type(one).__name__.lower(), **asdict(one)} for one in self.shown],
            "notes": list(self.notes),
        }


def explain(folder: Path, finding: str, *, most: int = MOST) -> Explanation:
    """Explains a finding of a result folder, named as `isolate` names it. Raises `UserError`."""
    results = load(folder)
    symptom, effect = chosen(symptoms(results), finding, results)
    run = next(one for one in results.runs if one["case"] == symptom.case and one["seed"] == symptom.seed)
    cause = _cause(folder, symptom.case, symptom.seed, effect.oracle)
    work = _Work(results, run, cause)
    with scratch.folder() as place:
        told = work.shows(effect, place)
        if told is None:
            why = f"`tcpassay isolate {folder} {finding}` reports the reason"
            raise UserError(f"the finding does not occur when the run is repeated: {why}", Place(folder))
        recording = Recording.open(place / "here")
        log = LogFile(recording)
        here = connection(recording, log, told.flow, timers_known=EventKind.TIMER_SET in logged(recording))
        neighbour = work.neighbour((recording, log), told, place)
        evidence = _evidence(recording, place / "here", told, work.triples)
    if cause is None:
        work.notes.append(f"its cause has not been isolated: `tcpassay isolate {folder} {finding}` does it")
    elif neighbour is None:
        work.notes.append("no run with one triple of the cause reset was completed")
    name = f"{symptom.case}-{symptom.seed}/{effect.oracle}"
    difference = neighbour.difference.here if neighbour and neighbour.difference else None
    first = None if difference is None else difference.row
    base, found, shown = _diagram(here, told, first, most)
    return Explanation(
        name,
        told,
        next(one for one in symptom.findings if effect_of(one) == effect),
        work.isolated,
        here,
        found,
        base,
        shown,
        () if cause is None else tuple(cause["cause"]),
        neighbour,
        evidence,
        cause,
        tuple(work.notes),
    )


class _Work:
    """Performs the runs of an explanation."""

    def __init__(self, results: Results, run: RunRow, cause: CauseRow | None) -> None:
        self._results = results
        self._run = run
        self._cause = cause
        self._spec, self.notes = spec_of(results)
        self.notes += changed_commands(results, [run])
        self.isolated = False
        self.triples: Triples = run["triples"]
        """The settings of the displayed run."""

    def shows(self, effect: Effect, place: Path) -> Finding | None:
        """Runs the case that shows the effect: the cause alone if it has the effect, otherwise the plan's case."""
        if self._cause is not None and effect.oracle in {one["oracle"] for one in self._cause["produces"]}:
            triples = {one["path"]: one["value"] for one in self._cause["cause"]} | self._cause["run"]
            found = self._make(place / "here", triples, effect)
            if found is not None:
                self.isolated, self.triples = True, triples
                return found
            shutil.rmtree(place / "here", ignore_errors=True)
        return self._make(place / "here", None, effect)

    def _make(self, place: Path, triples: Triples | None, effect: Effect) -> Finding | None:
        answer = again(self._results.folder, self._run, self._spec, place, triples=triples)
        return next((one for one in answer.findings if effect_of(one) == effect), None)

    def neighbour(self, here: tuple[Recording, LogFile], told: Finding, folder: Path) -> Neighbour | None:
        """The best comparison among the runs with one triple of the cause reset."""
        made: list[Neighbour] = []
        for number, (path, value, triples) in enumerate(self._resets()):
            place = folder / f"there-{number}"
            answer = again(self._results.folder, self._run, self._spec, place, triples=triples)
            if answer.outcome == Outcome.DONE:
                there = Recording.open(place)
                finds = any(found.oracle == told.oracle for found in answer.findings)
                made.append(Neighbour(path, value, first_difference(here, (there, LogFile(there))), finds))
            shutil.rmtree(place, ignore_errors=True)
        return max(made, key=lambda one: one.rank, default=None)

    def _resets(self) -> Iterator[tuple[str, str, Triples]]:
        """Path, value and the whole case of each reset."""
        if self._cause is None:
            return
        for row in self._cause["proof"]:
            if not row["gone"]:
                continue
            if self.isolated:
                yield row["path"], str(row["reset_to"]), row["triples"]
            else:
                yield from self._of_the_plan(row)

    def _of_the_plan(self, row: ResetRow) -> Iterator[tuple[str, str, Triples]]:
        """Resets of triples of the plan's run, to the values of the proof and to those of other runs of the plan."""
        path, ours = row["path"], self._run["triples"]
        if path not in ours:
            return
        rest = {name: value for name, value in ours.items() if name not in {path, *row["also_reset"]}}
        proven = row["triples"].get(path)
        yield path, str(row["reset_to"]), rest if proven is None else rest | {path: proven}
        if row["also_reset"]:
            return
        there = (one.get("triples") or {} for one in self._results.runs)
        others = {str(triples[path]): triples[path] for triples in there if path in triples}
        for text, value in others.items():
            if value not in (ours[path], proven):
                yield path, text, rest | {path: value}


def _evidence(recording: Recording, folder: Path, told: Finding, triples: Triples) -> Evidence:
    header = recording.header
    others = {one["host"]: f"{one['name']} {one['version']}" for one in header.get("stacks", [])}
    own = header.get("system") or f"the model of tcpassay {header['version']}"
    versions = tuple((host, others.get(number, own)) for number, host in enumerate(recording.hosts))
    flow = next(one for one in recording.flows if one["name"] == told.flow)
    capture = folder / "packets.pcapng"
    content = capture.read_bytes() if capture.is_file() else None
    return Evidence(versions, triples, header["seed"], int(flow["mss_bytes"]), content)


def _diagram(
    here: Connection, told: Finding, difference: int | None, most: int
) -> tuple[int, tuple[Arrow, ...], tuple[Shown, ...]]:
    """Position 1, the arrows, and the displayed moments; `difference` is the row of the first event that differs."""
    first = next((place for place, one in enumerate(here.moments) if one.row == difference), None)
    start, end = _window(here, told, first)
    base = _base(here, start, end)
    found = arrows(here)
    evidence = {row.index for row in told.events}
    keep = frozenset(place for place, one in enumerate(here.moments) if one.row in evidence)
    some = with_gaps(here, lines(here, found, (start, end), base, first), base)
    return base, tuple(found), tuple(shortened(some, most, keep))


def _window(here: Connection, told: Finding, difference: int | None) -> tuple[int, int]:
    """From some segments before the evidence, or before the first difference when that is near, to some after it."""
    times = [row.time_ns for row in told.events] or [told.start_ns, told.end_ns]
    first, last = min(times), max(times)
    segments = [one.time_ns for one in here.moments if one.segment]
    before = [time for time in segments if time < first]
    if difference is not None:
        moment = here.moments[difference].time_ns
        since = sum(1 for time in before if time >= moment)
        if moment < first and since <= 4 * LEAD:
            first = moment
            before = [time for time in segments if time < first]
    after = [time for time in segments if time > last]
    return (before[-LEAD:] or [first])[0], (after[:TAIL] or [max(last, told.end_ns)])[-1]


def _base(here: Connection, start_ns: int, end_ns: int) -> int:
    """The lowest stream position that the segments of a time range carry or acknowledge."""
    said = []
    for one in here.between(start_ns, end_ns):
        if one.segment and not one.flags & (SYN | RST):
            of_data = one.sent == (one.end == End.SENDER)
            said.append(one.start if of_data else one.number("ack") or 0)
    return max(min(said, default=1), 1)


def _cause(folder: Path, case: str, seed: int, oracle: str) -> CauseRow | None:
    for cause in isolate.causes(folder):
        if (case, seed, oracle) in ((one["case"], one["seed"], one["oracle"]) for one in cause["explains"]):
            return cause
    return None
