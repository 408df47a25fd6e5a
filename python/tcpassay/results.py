"""A result folder for notebooks, as polars frames; `tcpassay.load` is its entry.

    results = tcpassay.load("results/rate-limiter-fixed")
    results.data                                              # one row per run: parameters and metrics
    results.cases, results.metrics, results.findings         # one row per run, or per finding
    results.events("1a2b"), results.series("1a2b3c4d5e", seed=2)   # a prefix of a case's id suffices
    results.problems                                          # damaged files, and the data used instead

Files are read at the first access. A damaged file becomes a line of `problems`, and the other files are used.
"""

import contextlib
import hashlib
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Final, Literal, cast

import polars as pl

from tcpassay import regular, seal
from tcpassay.errors import Place, Problem, UserError
from tcpassay.finding import Finding
from tcpassay.judge.store import NAME as FINDINGS
from tcpassay.judge.store import read_findings
from tcpassay.messages import Answer, Outcome
from tcpassay.metric_table import MetricTable
from tcpassay.owner import INSIDE
from tcpassay.plan.quantity import quantity
from tcpassay.recording import (
    WRONG,
    DamagedError,
    Recording,
    parsed,
    read_bytes,
    read_json,
    read_table,
    schema,
    understood,
)
from tcpassay.result_format import FORMAT, NOT_RUN, PlanRow, ResultIndex, RunKey, RunRow, WorkDone
from tcpassay.run.answers import answer_of, row_of
from tcpassay.run.folder import UNPLANNED, is_run, is_unplanned
from tcpassay.run.journal import NAME as JOURNAL
from tcpassay.run.journal import Journal
from tcpassay.run_table import NAME as RUNS
from tcpassay.run_table import rows_of

RESULT: Final = "result.json"
METRICS: Final = "metrics.parquet"
RECORDINGS: Final = "recordings"
_INLINE: Final = (1, 2)
"""The formats of `result.json` that contain the runs with their metrics."""
_INDEX: Final = {
    "environment": dict,
    "plan": dict,
    "files": dict,
    "checks": list,
    "status": str,
    "undetermined": list,
}
_RUN_KEYS: Final = {
    "outcome": str,
    "message": str,
    "varied": dict,
    "triples": dict,
    "metrics": dict,
    "unjudged": dict,
}
_RUN: Final = {"case": pl.String(), "seed": pl.Int64()}
_FINDING: Final = {
    "oracle": pl.String(), "severity": pl.String(), "title": pl.String(), "case": pl.String(), "seed": pl.Int64(),
    "host": pl.String(), "flow": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64(), "count": pl.Int64(),
    "text": pl.String(), "replay": pl.String(),
}  # fmt: skip

Table = Literal["events", "series", "deliveries", "latency", "completions"]


def load(folder: str | PathLike[str]) -> "Results":
    """Reads the results in `folder`. Raises `UserError` if there are none; damage is listed in `Results.problems`."""
    path = Path(folder)
    if is_unplanned(path):
        raise UserError(UNPLANNED, Place(path))
    if not any((path / name).exists() for name in (RESULT, JOURNAL, METRICS, RECORDINGS)):
        raise UserError(f"there are no results: neither {RESULT} nor {RECORDINGS}", Place(path))
    return Results(path)


class Results:
    """The results of a plan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._problems: dict[Path, Problem] = {}

    @property
    def problems(self) -> list[Problem]:
        """Files that could not be used; checks all files except the tables of recordings."""
        _ = self.metrics, self.findings, self.plan
        for name, said in self._sums.items():
            if name not in {METRICS, RUNS}:
                self._look(self.folder / name, said)
        for run in self.runs:
            if run.get("recording") is not None:
                self._open(run)
        return self.noted

    @property
    def noted(self) -> list[Problem]:
        """Files that could not be used, among those read so far."""
        return [self._problems[file] for file in sorted(self._problems)]

    def _look(self, file: Path, checksum: str) -> None:
        try:
            read_bytes(file, checksum)
        except DamagedError as error:
            self._note(error)

    def _note(self, error: DamagedError) -> None:
        self._problems.setdefault(error.file, error.problems[0])

    def place_of(self, run: RunRow) -> Path:
        """The folder of a run's recording. Raises `DamagedError` if its path contains a link."""
        folder = self.folder / str(run["recording"])
        for part in (folder.parent, folder):
            if part.is_symlink():
                raise DamagedError(part, "it is a symbolic link, which is not followed here")
        return folder

    def _open(self, run: RunRow) -> Recording | None:
        try:
            return Recording.open(self.place_of(run))
        except DamagedError as error:
            self._note(error)
            return None

    @cached_property
    def index(self) -> ResultIndex:
        """`result.json`; empty if it is missing or damaged.

        If the creation of the folder was interrupted before it was written, its content follows from the journal.
        """
        if self._begun is not None:
            return self._begun[0]
        try:
            index = read_json(self.folder / RESULT, (2, FORMAT))
        except DamagedError as error:
            self._note(error)
            return {}
        if index.get("format") not in {*_INLINE, FORMAT}:
            why = f"its format is {index.get('format')}; this version reads 1 to {FORMAT}"
            self._note(DamagedError(self.folder / RESULT, why))
            return {}
        for name, kind in _INDEX.items():
            if not isinstance(index.get(name, kind()), kind):
                self._note(DamagedError(self.folder / RESULT, f"`{name}` has a wrong type"))
                return {}
        return cast("ResultIndex", index)

    @cached_property
    def _begun(self) -> tuple[ResultIndex, str] | None:
        """The index and the plan of a folder that has a journal and no result yet; `None` for other folders.

        `result.json` is written before the first run. A folder with results of runs in the journal has therefore lost
        it, unless the process was killed that replaced the results: its lock is still there.
        """
        if (self.folder / RESULT).exists() or not (self.folder / JOURNAL).exists():
            return None
        try:
            with Journal.peek(self.folder) as journal:
                if journal.counts().finished and not (self.folder / INSIDE).exists():
                    return None
                notes = journal.notes
                runs: list[RunRow] = [
                    {"case": key.case, "seed": key.seed, "outcome": NOT_RUN, "varied": {}, "triples": {}}
                    for key in (RunKey.of(entry.case) for entry in journal.entries() if _is_first(entry.case))
                ]
        except UserError:
            return None  # a damaged journal is reported where its results are read
        text = notes.get("plan", "")
        plan: PlanRow = {
            "file": notes.get("file", ""),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
        return {"format": FORMAT, "status": "interrupted", "plan": plan, "runs": runs}, text

    @property
    def _sums(self) -> dict[str, str]:
        """Checksums of files by their names in the folder; names outside the folder are omitted."""
        return {
            name: said
            for name, said in self.index.get("files", {}).items()
            if isinstance(said, str)
            and (name in {METRICS, RUNS} or name.startswith("inputs/"))
            and ".." not in name
        }

    @property
    def environment(self) -> WorkDone:
        """The environment in which the plan was run."""
        return self.index.get("environment", {})

    @cached_property
    def plan(self) -> str:
        """The plan as written; empty if it is missing or damaged."""
        file = self.folder / "plan.toml"
        if self._begun is not None and not file.exists():
            return self._begun[1]
        try:
            raw = regular.read_bytes(file, links=False)
            text = raw.decode()
        except (OSError, UnicodeDecodeError) as error:
            self._note(DamagedError(file, f"it cannot be read: {error}"))
            return ""
        said = self.index.get("plan", {}).get("sha256")
        if said is not None and hashlib.sha256(raw).hexdigest() != said:
            self._note(DamagedError(file, f"it is damaged: its SHA-256 is not the one in {RESULT}"))
            return ""
        return text

    @cached_property
    def runs(self) -> list[RunRow]:
        """Each case with each seed.

        `case`, `seed`, `triples`, `varied`, `outcome`, `message`, `recording`, `metrics`.

        The data comes from `runs.parquet`, in folders of formats 1 and 2 from `result.json`, or from the recordings if
        that is missing.
        """
        runs = self.listed
        if runs is not None:
            return self._so_far(runs) if self._goes_on else runs
        if (self.folder / RECORDINGS).is_symlink():
            return []
        return [
            run for folder in sorted((self.folder / RECORDINGS).glob("*-*")) for run in self._found(folder)
        ]

    @cached_property
    def listed(self) -> list[RunRow] | None:
        """The runs according to the files of the result; `None` if these do not say."""
        if self._begun is None and self.index.get("format") == FORMAT:
            return self._tabled()
        runs = self.index.get("runs")
        if isinstance(runs, list):
            return self._good(self.folder / RESULT, runs)
        if self.index:
            self._note(DamagedError(self.folder / RESULT, "it does not list the runs"))
        return None

    def _good(
        self, file: Path, runs: list[RunRow], is_good: Callable[[RunRow], bool] | None = None
    ) -> list[RunRow]:
        good = [run for run in runs if (is_good or _is_good)(run)]
        if len(good) < len(runs):
            self._note(DamagedError(file, f"{len(runs) - len(good)} of its runs have a wrong form"))
        return good

    def _tabled(self) -> list[RunRow] | None:
        """The runs of `runs.parquet`."""
        file = self.folder / RUNS
        try:
            raw = read_bytes(file)
            whole = seal.checksum(raw) in self._sums_of_runs()
            with understood(file):
                rows = rows_of(parsed(file, raw, needed=("case", "seed"))) if whole else None
        except DamagedError as error:
            self._note(error)
            return None
        if rows is None:
            self._note(DamagedError(file, WRONG))
            return None
        good = self._good(file, rows, _is_placed)
        if not self._goes_on:
            numbers = {
                run: number for number, run in enumerate(self.metrics.select("case", "seed").iter_rows())
            }
            table = self._metric_table
            for run in good:
                number = numbers.get((run["case"], run["seed"]))
                run["metrics"] = {} if number is None else table.row(number)
        return good

    def _sums_of_runs(self) -> set[str | None]:
        """The checksums that the table of runs may have: of the recorded one, and of one that is just written."""
        sums = {self._sums.get(RUNS)}
        if self._goes_on:
            with contextlib.suppress(UserError), Journal.peek(self.folder) as journal:
                sums.add(journal.notes.get("runs"))
        return sums - {None}

    @cached_property
    def _metric_table(self) -> MetricTable:
        """The columns of `metrics`, copied when the metrics of a run are read: `compare` reads the frame only."""

        def copied() -> "dict[str, array[float]]":
            columns = {}
            for column in self.metrics.drop(_RUN).iter_columns():
                columns[column.name] = array("d")
                columns[column.name].frombytes(column.fill_null(math.nan).to_numpy().tobytes())
            return columns

        return MetricTable(copied)

    @property
    def _goes_on(self) -> bool:
        """Whether runs may have ended since the result was written."""
        return self.index.get("status") != "complete" and (self.folder / JOURNAL).exists()

    @cached_property
    def _ended(self) -> dict[tuple[str, int], Answer]:
        """The ended runs according to the journal."""
        try:
            with Journal.peek(self.folder) as journal:
                ended, table = {}, MetricTable()
                for entry in journal.entries():
                    if entry.damaged:
                        why = f"the result of its case {entry.number} is damaged"
                        self._note(DamagedError(self.folder / JOURNAL, why))
                    elif entry.outcome is not None and entry.payload and entry.case.get("repetition") == 1:
                        answer = answer_of(entry.outcome, entry.payload)
                        if answer is None or not is_run(entry.case.get("case"), entry.case.get("seed")):
                            why = f"its case {entry.number} has an inconsistent result"
                            self._note(DamagedError(self.folder / JOURNAL, why))
                            continue
                        key = RunKey.of(entry.case)
                        ended[key.case, key.seed] = replace(answer, metrics=table.add(answer.metrics))
                return ended
        except UserError as error:
            self._note(DamagedError(self.folder / JOURNAL, error.problems[0].message))
            return {}

    def _so_far(self, runs: list[RunRow]) -> list[RunRow]:
        """The runs, updated from the journal."""
        made = []
        for run in runs:
            answer = self._ended.get((run["case"], run["seed"]))
            place = f"{RECORDINGS}/{run['case']}-{run['seed']}"
            made.append({**run, **row_of(answer, place)} if answer else run)
        return made

    def _found(self, folder: Path) -> list[RunRow]:
        """The runs of a folder without a result file, from their recordings."""
        case, _, text = folder.name.rpartition("-")
        seed = int(text) if text.isascii() and text.isdigit() else None
        if seed is None or not is_run(case, seed) or f"{case}-{seed}" != folder.name:
            return []
        run: RunRow = {"case": case, "seed": seed, "outcome": "done"}
        run["recording"] = f"{RECORDINGS}/{folder.name}"
        recording = self._open(run)
        if recording is None:
            return []
        try:
            with understood(folder / "recording.json"):
                said = recording.case
        except DamagedError as error:
            self._note(error)
            return []
        run["triples"] = run["varied"] = {**said}
        return [run]

    @cached_property
    def cases(self) -> pl.DataFrame:
        """One row per run: `case`, `seed`, `outcome`, `message`, `recording`, and the value of each factor.

        A parameter is a column of numbers in the unit of `tcpassay params` (seconds, bytes, bit/s, packets or 1) if all
        its values are of one kind, of Booleans if all are switches, and of texts otherwise.
        """
        varied = list(dict.fromkeys(name for run in self.runs for name in run.get("varied") or {}))
        own = _RUN | {"outcome": pl.String(), "message": pl.String(), "recording": pl.String()}
        rows = [[run.get(name) for name in own] for run in self.runs]
        frame = pl.DataFrame(rows, schema=own, orient="row")
        values = ([(run.get("varied") or {}).get(name) for run in self.runs] for name in varied)
        return frame.with_columns(typed(name, column) for name, column in zip(varied, values, strict=True))

    @cached_property
    def data(self) -> pl.DataFrame:
        """One row per run: the columns of `cases`, then those of `metrics`; null if a run was not measured."""
        metrics = self.metrics
        clash = [name for name in metrics.columns if name in self.cases.columns and name not in _RUN]
        return self.cases.join(metrics.drop(clash), on=list(_RUN), how="left", maintain_order="left")

    @cached_property
    def parameters(self) -> pl.DataFrame:
        """All settings of the cases: `case`, `parameter`, `value`."""
        rows = {
            (run["case"], name): as_text(value)
            for run in self.runs
            for name, value in (run.get("triples") or {}).items()
        }
        schema = {"case": pl.String(), "parameter": pl.String(), "value": pl.String()}
        return pl.DataFrame([(*key, value) for key, value in rows.items()], schema=schema, orient="row")

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """One row per completed run: `case`, `seed`, and each metric in its unit; null if it has none."""
        if self._goes_on:
            return self._measured()
        file = self.folder / METRICS
        if self.index.get("format") == FORMAT and METRICS not in self._sums and not file.exists():
            return pl.DataFrame(schema=_RUN)  # no run completed
        try:
            frame = read_table(file, needed=("case", "seed"), checksum=self._sums.get(METRICS))
            _check_keys(file, frame)
        except DamagedError as error:
            measured = self._measured()
            # No case completed.
            if len(measured) or (self.folder / METRICS).exists():
                self._note(error)
            return measured
        numbers = [
            name
            for name, kind in frame.schema.items()
            if (kind.is_numeric() or kind == pl.Null) and name not in {"case", "seed", "cpu_s"}
        ]
        return frame.select(pl.col("case"), pl.col("seed").cast(pl.Int64), pl.col(numbers).cast(pl.Float64))

    def _measured(self) -> pl.DataFrame:
        """The metrics stored with the runs: in the journal, or in `result.json` of formats 1 and 2."""
        stored: dict[tuple[str, int], Mapping[str, float | None]] = {}
        if self._goes_on or self.index.get("format") in _INLINE:
            stored = {(run["case"], run["seed"]): run.get("metrics") or {} for run in self.runs}
        elif (self.folder / JOURNAL).exists():
            stored = {key: answer.metrics for key, answer in self._ended.items()}
        table = MetricTable()
        keys = [key for key, metrics in stored.items() if table.add(metrics)]
        frame = pl.DataFrame(keys, schema=_RUN, orient="row")
        return frame.with_columns(
            pl.Series(name, memoryview(column).tolist(), pl.Float64).fill_nan(None)
            for name, column in table.full().items()
        )

    @cached_property
    def found(self) -> list[Finding]:
        """The findings with all their evidence."""
        if self._goes_on:
            return [
                one.of(case, seed) for (case, seed), answer in self._ended.items() for one in answer.findings
            ]
        if not (self.folder / FINDINGS).exists():
            return []
        try:
            return read_findings(self.folder)
        except DamagedError as error:
            self._note(error)
            return []

    @cached_property
    def findings(self) -> pl.DataFrame:
        """One row per finding; `found` contains the evidence."""
        rows = [[getattr(one, name) for name in _FINDING] for one in self.found]
        return pl.DataFrame(rows, schema=_FINDING, orient="row")

    def recording(self, case: str, seed: int | None = None) -> Recording:
        """The recording of a run; without `seed`, that of the first seed.

        An unambiguous prefix of a case's id is sufficient. Raises `UserError`.
        """
        run = self._run(case, seed)
        place = run.get("recording")
        if place is None:
            raise UserError(
                f"case `{case}` has no recording: {_why_not(run)}; one is made by "
                f"`tcpassay replay {self.folder} {case} --out NEW`"
            )
        return Recording.open(self.place_of(run))

    def case(self, text: str) -> str:
        """The id of the case with this id or unambiguous prefix. Raises `UserError`."""
        ids = sorted({str(run["case"]) for run in self.runs})
        meant = [text] if text in ids else [one for one in ids if text and one.startswith(text)]
        if not meant:
            raise UserError(
                f"there is no case `{text}`; `tcpassay table --cases` lists them", Place(self.folder)
            )
        if len(meant) > 1:
            some = ", ".join(meant[:3]) + (", ..." if len(meant) > 3 else "")  # noqa: PLR2004 - more would not be read
            raise UserError(f"`{text}` is the beginning of {len(meant)} cases: {some}", Place(self.folder))
        return meant[0]

    def _run(self, case: str, seed: int | None) -> RunRow:
        case = self.case(case)
        of_case = [run for run in self.runs if run["case"] == case]
        wanted = [run for run in of_case if seed in {None, run["seed"]}]
        if not wanted:
            seeds = ", ".join(str(run["seed"]) for run in of_case)
            raise UserError(f"case `{case}` has no seed {seed}; it has {seeds}", Place(self.folder))
        return wanted[0]

    def table(self, table: Table, case: str, seed: int | None = None) -> pl.DataFrame:
        """A table of a run; empty if it was not collected or is damaged (see `problems`)."""
        try:
            recording = self.recording(case, seed)
            with understood(recording.folder / "recording.json"):
                return recording.table(table)
        except DamagedError as error:
            self._note(error)
            return pl.DataFrame(schema=schema(table))

    def events(self, case: str, seed: int | None = None) -> pl.DataFrame:
        """The event log of a run."""
        return self.table("events", case, seed)

    def series(self, case: str, seed: int | None = None) -> pl.DataFrame:
        """The time series of a run: one row per interval and entity."""
        return self.table("series", case, seed)

    def deliveries(self, case: str, seed: int | None = None) -> pl.DataFrame:
        """The arrival of each packet in a run."""
        return self.table("deliveries", case, seed)

    def latency(self, case: str, seed: int | None = None) -> pl.DataFrame:
        """The distributions of latency of a run."""
        return self.table("latency", case, seed)

    def completions(self, case: str, seed: int | None = None) -> pl.DataFrame:
        """The completions of a run: flows, requests, barrier rounds."""
        return self.table("completions", case, seed)

    def __repr__(self) -> str:
        done = sum(run.get("outcome") == Outcome.DONE for run in self.runs)
        return (
            f"Results({str(self.folder)!r}: {len(self.runs)} runs, {done} done, {len(self.found)} findings)"
        )


def _is_first(case: Mapping[str, object]) -> bool:
    """Whether an entry of a journal is the first repetition of a run."""
    return case.get("repetition") == 1 and is_run(case.get("case"), case.get("seed"))


def _check_keys(file: Path, frame: pl.DataFrame) -> None:
    if frame.schema["case"] != pl.String() or not frame.schema["seed"].is_integer():
        raise DamagedError(file, "its columns `case` and `seed` are missing or have a wrong type")


def _is_good(run: object) -> bool:
    """Whether a run in `result.json` has valid fields; its recording must have the path that follows from its name."""
    if not isinstance(run, dict) or not is_run(run.get("case"), run.get("seed")):
        return False
    place = run.get("recording")
    typed = all(run.get(name) is None or isinstance(run[name], kind) for name, kind in _RUN_KEYS.items())
    placed = place is None or place == f"{RECORDINGS}/{run['case']}-{run['seed']}"
    return typed and placed and all(map(_is_number, (run.get("metrics") or {}).values()))


def _is_placed(run: RunRow) -> bool:
    """The same for a run of `runs.parquet`, whose columns have the types of the fields."""
    place = run.get("recording")
    named = is_run(run["case"], run["seed"])
    return named and (place is None or place == f"{RECORDINGS}/{run['case']}-{run['seed']}")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _why_not(run: RunRow) -> str:
    """The reason why a run has no recording."""
    outcome = run.get("outcome")
    if outcome == Outcome.DONE:
        return "the plan did not keep that of this run ([keep])"
    return f"its outcome is `{outcome}`" if outcome else "it was not run"


_SI: Final = {"a length of time": Fraction(1, 10**9)}
"""The displayed unit of a kind of value, in the unit of `quantity`; 1 for the others."""


def typed(name: str, values: Sequence[object]) -> pl.Series:
    """The column of a parameter: numbers if all values are of one kind, Booleans if all are switches."""
    said = [as_text(value) for value in values]
    meanings = {text: quantity(text) for text in dict.fromkeys(said) if text is not None}
    known = list(meanings.values())
    kinds = {one.kind for one in known}
    if known and all(isinstance(value, bool) for value in values if value is not None):
        return pl.Series(name, values, pl.Boolean)
    if len(kinds) != 1 or not all(one.ordered for one in known):
        return pl.Series(name, said, pl.String)
    scale = _SI.get(kinds.pop(), Fraction(1))
    numbers = {text: Fraction(meaning.amount) * scale for text, meaning in meanings.items()}
    if scale == 1 and all(number.denominator == 1 for number in numbers.values()):
        whole = {text: int(number) for text, number in numbers.items()}
        return pl.Series(name, [None if text is None else whole[text] for text in said], pl.Int64)
    real = {text: float(number) for text, number in numbers.items()}
    return pl.Series(name, [None if text is None else real[text] for text in said], pl.Float64)


def as_text(value: object) -> str | None:
    """A value in the format of the data plane."""
    if value is None:
        return None
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
