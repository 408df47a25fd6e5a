"""One self-contained HTML file that shows a result folder, and opens offline.

    write_report(Path("results/plan"), Path("results/plan/report.html"))

`model.py` computes the data of the page, `curves.py` the curves of single runs, which `thin.py` reduces; `pack.py`
encodes numbers in HTML, and `page.py` writes the file. The page itself consists of `page.html.jinja`, `style.css` and
the scripts in `js/`, which need no build step; `vendor/` contains the chart library. The package reads result folders
through `tcpassay.results` only and does not depend on running plans.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay import output
from tcpassay.errors import Place, UserError
from tcpassay.finding import Finding
from tcpassay.owner import BusyError
from tcpassay.recording import DamagedError
from tcpassay.report import curves, model
from tcpassay.report.page import page
from tcpassay.report.page_data import WholePage
from tcpassay.results import Results, load
from tcpassay.run.folder import own

NAME: Final = "report.html"
MOST_CURVES: Final = 48_000_000
"""Maximum bytes of curves in a file: about 300 runs with full event logs, or thousands with series only."""

MANY: Final = 10_000
"""Number of runs above which a report is an overview: the limits of curves are those below, and metrics are rounded."""
FEW_CURVES: Final = 4_000_000
"""Maximum bytes of curves in the report of many runs."""
FEW_DRAWN: Final = 500
"""Maximum number of recordings in the report of many runs."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a report."""

    file: Path
    runs: int
    drawn: int
    """Number of runs whose curves are in the file."""
    recorded: int
    """Number of runs with a recording."""
    findings: int
    problems: list[str]


def write_report(
    folder: Path, out: Path | None = None, *, most_curves: int = MOST_CURVES, progress: Progress | None = None
) -> Written:
    """Writes the report of a result folder completely or not at all; by default into the folder itself.

    Raises `UserError` if the folder contains no results or the file cannot be written. Damaged files are listed in the
    report and in the return value.
    """
    target = out or folder / NAME
    if not target.parent.exists() or not target.parent.samefile(folder):
        return _write(folder, target, most_curves, progress)
    load(folder)  # a folder without results is not locked
    output.check(target, "the report")
    try:
        owner = own(folder)
    except BusyError as busy:
        message = f"{busy.problems[0].message}, or write the report elsewhere with --out"
        raise UserError(message, Place(folder)) from None
    try:
        return _write(folder, target, most_curves, progress)
    finally:
        owner.release()


def _write(folder: Path, target: Path, most_curves: int, progress: Progress | None) -> Written:
    results = load(folder)
    output.check(target, "the report")
    report = model.build(results, rounded=len(results.runs) > MANY)
    many = len(results.runs) > MANY
    most = min(most_curves, FEW_CURVES) if many else most_curves
    drawing = _Drawing(results, most, FEW_DRAWN if many else None, progress)

    def data() -> WholePage:
        known = report.data["problems"]
        problems = known + [problem for problem in drawing.problems if problem not in known]
        return {**report.data, "problems": problems, "recorded": len(drawing.order), "drawn": drawing.drawn}

    def chunks() -> Iterator[tuple[str, str]]:
        yield "runs", report.runs
        yield from drawing.chunks()

    with output.opened(target, "the report") as file:
        for piece in page(report.data["plan"]["name"], chunks(), data):
            file.write(piece.encode(errors="replace"))
    return Written(
        target, len(results.runs), drawing.drawn, len(drawing.order), len(results.found), data()["problems"]
    )


def _watched(finding: Finding) -> curves.Watched:
    """The time window of the first occurrence, extended by its length on both sides, so that it includes the cause."""
    start, end = finding.start_ns, model.first_end(finding)
    margin = max(end - start, 10_000_000)
    return curves.Watched(finding.flow, start - margin, end + margin)


class _Drawing:
    """Reads recordings one after the other, those with findings first, until the file is full."""

    def __init__(
        self, results: Results, most: int, recordings: int | None, progress: Progress | None
    ) -> None:
        self.results = results
        self.most = most
        self.recordings = recordings
        self.progress = progress
        self.problems: list[str] = []
        self.drawn = 0
        self.watched: dict[tuple[str, int], list[curves.Watched]] = {}
        for one in results.found:
            if one.seed is not None:
                self.watched.setdefault((one.case, one.seed), []).append(_watched(one))
        recorded = [n for n, run in enumerate(results.runs) if run.get("recording")]
        self.order = sorted(recorded, key=lambda n: self._run(n) not in self.watched)

    def _run(self, place: int) -> tuple[str, int]:
        run = self.results.runs[place]
        return str(run["case"]), int(run["seed"])

    def chunks(self) -> Iterator[tuple[str, str]]:
        size = 0
        for number, place in enumerate(self.order):
            if size > self.most or self.drawn == self.recordings:
                break
            case, seed = self._run(place)
            try:
                text = curves.pack(
                    self.results.recording(case, seed), watched=self.watched.get((case, seed), ())
                )
            except DamagedError as error:
                self.problems += map(str, error.problems)
                continue
            size += len(text)
            self.drawn += 1
            yield f"curves-{place}", text
            if self.progress:
                self.progress(number + 1, len(self.order))
