"""Results of packetdrill scripts as a table, JSON, JUnit XML and Markdown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args
from xml.etree import ElementTree as ET

from tcpassay.script.report import Report, Status

STATUSES: Final[tuple[Status, ...]] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a script."""

    file: Path
    profile: str
    """The profile of the model, or the release of the kernel."""
    status: Status
    line: int | None
    column: int | None
    reason: str
    details: tuple[str, ...]
    drift_usecs: int
    error_usecs: int
    virtual_time_usecs: int
    events: int
    printed: tuple[str, ...]
    attempts: int = 1

    @property
    def place(self) -> str:
        """`file:line:column`, or the file if no position in it is involved."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else str(self.file)

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "file": str(self.file),
            "profile": self.profile,
            "status": self.status,
            "line": self.line,
            "column": self.column,
            "reason": self.reason,
            "details": list(self.details),
            "drift_usecs": self.drift_usecs,
            "error_usecs": self.error_usecs,
            "virtual_time_usecs": self.virtual_time_usecs,
            "events": self.events,
            "printed": list(self.printed),
            "attempts": self.attempts,
        }

    @staticmethod
    def of(file: Path, profile: str, report: Report) -> "Result":
        """The result from a report of the runner."""
        return Result(
            file,
            profile,
            report["status"],
            report["line"],
            report["column"],
            report["reason"],
            tuple(report["details"]),
            report["drift_usecs"],
            report["error_usecs"],
            report["virtual_time_usecs"],
            report["events"],
            tuple(report["printed"]),
            report.get("attempts", 1),
        )


def counts(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """The number of scripts with each status, by folder."""
    made: dict[str, Counter[str]] = {}
    for result in results:
        made.setdefault(str(result.file.parent), Counter())[result.status] += 1
    return dict(sorted(made.items()))


def as_json(results: Sequence[Result]) -> dict[str, object]:
    """For `--json`."""
    total = Counter(result.status for result in results)
    return {
        "summary": {status: total[status] for status in STATUSES},
        "folders": {
            folder: {status: found[status] for status in STATUSES}
            for folder, found in counts(results).items()
        },
        "scripts": [result.as_json() for result in results],
    }


def junit(results: Sequence[Result]) -> str:
    """JUnit XML with one suite per folder: unsupported scripts are skipped, syntax errors and crashes are errors."""
    root = ET.Element("testsuites", name="tcpassay script")
    for folder, found in counts(results).items():
        suite = ET.SubElement(
            root,
            "testsuite",
            name=folder,
            tests=str(found.total()),
            failures=str(found["fail"] + found["time"]),
            errors=str(found["syntax"] + found["crashed"]),
            skipped=str(found["unsupported"]),
        )
        for result in results:
            if str(result.file.parent) != folder:
                continue
            case = ET.SubElement(
                suite,
                "testcase",
                classname=folder,
                name=result.file.name,
                time=f"{result.virtual_time_usecs / 1e6:.6f}",
            )
            kind = {
                "fail": "failure",
                "time": "failure",
                "syntax": "error",
                "crashed": "error",
                "unsupported": "skipped",
            }
            if result.status in kind:
                what = ET.SubElement(
                    case, kind[result.status], message=shown(f"{result.place}: {result.reason}")
                )
                what.text = "\n".join(map(shown, result.details))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def shown(text: str) -> str:
    """A text without control characters, which terminals interpret and XML forbids."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def markdown(results: Sequence[Result]) -> str:
    """A table with script, profile, result and reason."""
    lines = ["| script | profile | result | reason |", "| --- | --- | --- | --- |"]
    for result in results:
        where = f"line {result.line}: " if result.line else ""
        reason = shown(where + result.reason).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {result.file} | {result.profile} | {result.status} | {reason} |")
    return "\n".join(lines) + "\n"
