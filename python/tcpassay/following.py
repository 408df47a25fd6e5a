"""The model follows the recordings of a folder: how far, and what differs first.

The data plane (`crates/follow`) follows. A result folder is followed run by run, and the first differences are grouped
by cause.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, TypedDict

from tcpassay import _native
from tcpassay.errors import Place, UserError
from tcpassay.first_difference import FirstDifference
from tcpassay.recording import DamagedError, Recording
from tcpassay.result_format import RunRow
from tcpassay.results import load

FIELDS: Final = (
    "sequence number",
    "length",
    "acknowledgment number",
    "FIN",
    "PSH",
    "ECE",
    "CWR",
    "AE",
    "flags",
    "window",
    "timestamps",
    "TSval",
    "TSecr",
    "SACK blocks",
    "options of the SYN",
    "ECN field",
)
"""The fields of a segment that are compared."""
EXACT_NS: Final = 1000
"""The tolerance of times of a log with exact times."""


class _FirstData(TypedDict):
    """A first difference of the data plane."""

    row: int
    time_ns: int
    kind: str
    sent: str
    expected: str
    why: str
    source: str
    cause: str


class _EndData(TypedDict):
    """An end that the data plane followed."""

    flow: int
    host: int
    rows: int
    followed: int
    segments: int
    candidates: int
    counted: dict[str, int]
    first: _FirstData | None


@dataclass(frozen=True, slots=True)
class FollowedEnd:
    """How far one end was followed."""

    run: str
    host: str
    flow: str
    rows: int
    followed: int
    segments: int
    """Segments that left and agree."""
    counted: dict[str, int]
    """How often each field differed that does not end the following."""
    first: FirstDifference | None
    substrate: str = ""
    same: str = ""
    """Equal for the runs of one case and seed on all substrates and in all folders."""


@dataclass(frozen=True, slots=True)
class Cause:
    """First differences with one cause."""

    cause: str
    source: str
    count: int
    ends: list[str]
    """Run, host and flow of each."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The result of following a folder."""

    ends: list[FollowedEnd]
    unfollowed: dict[str, int]
    """Why ends or recordings were not followed, and how many."""
    problems: list[str] = field(default_factory=list)
    """Files that could not be read."""

    @property
    def whole(self) -> int:
        """Number of ends that the model follows to the end."""
        return sum(one.first is None for one in self.ends)

    @property
    def causes(self) -> list[Cause]:
        """The first differences by cause, the most frequent first."""
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for one in self.ends:
            if one.first is not None:
                found[one.first.cause, one.first.source].append(f"{one.run} {one.host} {one.flow}".strip())
        made = [Cause(cause, source, len(ends), ends) for (cause, source), ends in found.items()]
        return sorted(made, key=lambda cause: (-cause.count, cause.cause))

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "ends": [asdict(one) for one in self.ends],
            "followed_to_the_end": self.whole,
            "causes": [asdict(one) for one in self.causes],
            "unfollowed": self.unfollowed,
            "problems": self.problems,
        }


def follow_folder(
    folder: Path, counted: Iterable[str] = (), jobs: int = 1, only: Container[str] | None = None
) -> Followed:
    """Follow the ends of a recording, or of every recording of a result folder.

    `counted` are fields whose differences are counted and end nothing; `only` names the cases of a result folder that
    are followed. Raises `UserError` for a folder that is neither, or for an unknown field.
    """
    fields = list(counted)
    if unknown := [name for name in fields if name not in FIELDS]:
        raise UserError(f"`{unknown[0]}` is not a field of a segment; allowed are {', '.join(FIELDS)}")
    if (folder / "recording.json").exists():
        return _joined([_recording(folder, _Run(), fields)], [])
    if not folder.is_dir():
        raise UserError("it is not the folder of a recording or of results", Place(folder))
    results = load(folder)
    wanted = [run for run in results.runs if only is None or run["case"] in only]
    runs = [run for run in wanted if run.get("recording") is not None]
    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda run: _recording(results.place_of(run), _Run.of(run), fields), runs))
    without = len(wanted) - len(runs)
    return _joined(done, [str(problem) for problem in results.noted], without)


@dataclass(frozen=True, slots=True)
class _One:
    """A recording: its ends, why others were not followed, and why it could not be read."""

    ends: list[FollowedEnd]
    unfollowed: list[str]
    problem: str = ""


def _joined(done: list[_One], problems: list[str], without: int = 0) -> Followed:
    reasons = Counter(why for one in done for why in one.unfollowed)
    if without:
        reasons["the run has no recording"] = without
    problems = [*problems, *(one.problem for one in done if one.problem)]
    return Followed([end for one in done for end in one.ends], dict(reasons), problems)


@dataclass(frozen=True, slots=True)
class _Run:
    """What results tell about the run of a recording."""

    name: str = ""
    substrate: str = ""
    same: str = ""

    @staticmethod
    def of(run: RunRow) -> "_Run":
        triples = sorted((path, str(value)) for path, value in run["triples"].items())
        return _Run(
            f"{run['case']}-{run['seed']}", str(run.get("substrate", "")), json.dumps([triples, run["seed"]])
        )


def _recording(folder: Path, run: _Run, counted: list[str]) -> _One:
    try:
        recording = Recording.open(folder)
        try:
            told = json.loads(_native.follow_folder(str(folder), str(folder), EXACT_NS, counted))
        except ValueError as error:
            raise DamagedError(folder, str(error)) from error
    except DamagedError as error:
        return _One([], [], str(error))
    ends = [_end(recording, run, one) for one in told["ends"]]
    return _One(ends, [str(one["why"]) for one in told["unfollowed"]])


def _end(recording: Recording, run: _Run, one: _EndData) -> FollowedEnd:
    return FollowedEnd(
        run.name,
        recording.hosts[one["host"]],
        str(recording.flows[one["flow"]]["name"]),
        one["rows"],
        one["followed"],
        one["segments"],
        dict(one["counted"]),
        None if one["first"] is None else FirstDifference(**one["first"]),
        run.substrate,
        run.same,
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """First differences of a stack under test that its baseline does not have."""

    new: list[FollowedEnd]
    """Ends that the model follows to the end on the baseline."""
    earlier: list[FollowedEnd]
    """Ends whose first difference comes earlier than on the baseline."""


def split(done: Followed, base: str) -> tuple[Followed, Followed]:
    """The ends on the substrate `base` and those on the others, of the results of a plan that runs on several.

    Raises `UserError` if the results have no such substrate, or no other one.
    """
    known = sorted({one.substrate for one in done.ends})
    if base not in known or len(known) == 1:
        named = ", ".join(f"`{name}`" for name in known) or "none"
        raise UserError(
            f"`{base}` is no folder, and not one of several substrates of the results; those are {named}"
        )
    one, other = ([end for end in done.ends if (end.substrate == base) is own] for own in (True, False))
    return replace(done, ends=one), replace(done, ends=other)


def compare(base: Followed, head: Followed) -> Compared:
    """What `head` has and `base` has not; the ends are the same flows of the same runs."""
    before: Mapping[tuple[str, str, str], FollowedEnd] = {
        (one.same, one.host, one.flow): one for one in base.ends
    }
    new, earlier = [], []
    for one in head.ends:
        other = before.get((one.same, one.host, one.flow))
        if one.first is None or other is None:
            continue
        if other.first is None:
            new.append(one)
        elif one.first.time_ns < other.first.time_ns:
            earlier.append(one)
    return Compared(new, earlier)
