"""packetdrill scripts: which files, running them, and the results as a table, JSON, JUnit XML and Markdown."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from tcpassay import _native
from tcpassay.errors import Place, Problem, UserError
from tcpassay.kernel import scripts as real
from tcpassay.kernel import store

STATUSES: Final = ("pass", "time", "fail", "unsupported", "syntax")

# Options of the original that take no value; every other one does.
FLAGS: Final = frozenset(
    (
        "strict_segments",
        "verbose",
        "debug",
        "dry_run",
        "no_cleanup",
        "is_anyip",
        "send_omit_free",
        "use_expect",
        "allow-shell",
    )
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is made with."""

    profile: str | None
    """Of the model; nothing for what the first line of a script says."""
    loose: bool
    options: tuple[tuple[str, str], ...]
    on: str = "model"
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one script."""

    file: Path
    profile: str
    """Of the model; or the release of the kernel that it ran on."""
    status: str
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
        """`file:line:column`, or the file when nothing in it is to blame."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else str(self.file)

    def as_json(self) -> dict[str, Any]:
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


def arguments(words: Sequence[str]) -> tuple[list[Path], list[tuple[str, str]]]:
    """Files and folders, and the options of packetdrill among them: `--name=value`, `--name value`, `-D name=value`."""
    files: list[Path] = []
    options: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        if word == "-D":
            options.append(("define", _value(word, rest)))
        elif word.startswith("-D"):
            options.append(("define", word.removeprefix("-D")))
        elif word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            options.append((name, value if equals or name in FLAGS else _value(word, rest)))
        elif word.startswith("-"):
            raise UserError(f"`{word}` is not an option; see `tcpassay script --help`")
        else:
            files.append(Path(word))
    return files, options


def _value(option: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise UserError(f"`{option}` needs a value")
    return value


def find(paths: Iterable[Path]) -> list[Path]:
    """The scripts: files as given, and the `*.pkt` files of folders."""
    found: list[Path] = []
    problems = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.pkt"))
            if not inside:
                problems.append(Problem("no *.pkt file in this folder", Place(path)))
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            problems.append(Problem("no such file or folder", Place(path)))
    if problems:
        raise UserError.several(problems)
    return found


_OLDER = {
    "freebsd": ("as freebsd-12", "freebsd-12", ()),
    "linux": (
        "as Linux before 6.5: --sysctl net.ipv4.tcp_syn_linear_timeouts=0",
        "linux",
        (("sysctl", "net.ipv4.tcp_syn_linear_timeouts=0"),),
    ),
}
"""Older versions of a stack, which public scripts may have been written for: what to say, profile, options."""


def run(file: Path, wanted: Wanted) -> Result:
    """Runs one script against the model. Where it does not pass, the reason says whether it does on an older one."""
    text = _read(file)
    if (profile := wanted.profile) is None:
        from tcpassay.plan.scripted import profile_of  # noqa: PLC0415 - who runs a case of a plan has been told

        profile = profile_of(file)
    result = _result(file, profile, _on_model(text, wanted, profile, wanted.options))
    if result.status not in ("time", "fail") or profile not in _OLDER:
        return result
    how, older, options = _OLDER[profile]
    if _on_model(text, wanted, older, (*wanted.options, *options))["status"] != "pass":
        return result
    return replace(result, reason=f"{result.reason}; passes {how}")


def _on_model(text: str, wanted: Wanted, profile: str, options: Sequence[tuple[str, str]]) -> dict[str, Any]:
    try:
        made = _native.run_script(text, profile, wanted.loose, [list(pair) for pair in options])
    except ValueError as error:
        raise UserError(str(error)) from error
    found: dict[str, Any] = json.loads(made)
    return found


def run_all(files: Sequence[Path], wanted: Wanted) -> Iterator[Result]:
    """Runs scripts where they are wanted: against the model, in a guest, or on this host's kernel."""
    if wanted.on == "model":
        for file in files:
            yield run(file, wanted)
        return
    limit = real.VIRTUAL_LIMIT_S if wanted.on == "kernel" else real.REAL_LIMIT_S
    requests = [
        real.request(_read(file), loose=wanted.loose, options=wanted.options, limit_s=limit) for file in files
    ]
    if wanted.on == "kernel":
        kernel = store.find(wanted.kernel)
        reports: Iterable[real.Report] = real.on_kernel(requests, kernel=kernel.name)
        release = kernel.release
    else:
        reports, release = real.on_host(requests), os.uname().release
    for file, report in zip(files, reports, strict=True):
        yield _result(file, release, report)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", Place(file)) from error


def _result(file: Path, profile: str, made: dict[str, Any]) -> Result:
    made = made | {name: tuple(made[name]) for name in ("details", "printed")}
    return Result(file=file, profile=profile, **made)


def counts(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """How often each status came, by folder."""
    made: dict[str, Counter[str]] = {}
    for result in results:
        made.setdefault(str(result.file.parent), Counter())[result.status] += 1
    return dict(sorted(made.items()))


def as_json(results: Sequence[Result]) -> dict[str, Any]:
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
    """JUnit XML, a suite a folder: unsupported scripts are skipped, syntax errors are errors."""
    root = ET.Element("testsuites", name="tcpassay script")
    for folder, found in counts(results).items():
        suite = ET.SubElement(
            root,
            "testsuite",
            name=folder,
            tests=str(found.total()),
            failures=str(found["fail"] + found["time"]),
            errors=str(found["syntax"]),
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
            kind = {"fail": "failure", "time": "failure", "syntax": "error", "unsupported": "skipped"}
            if result.status in kind:
                what = ET.SubElement(case, kind[result.status], message=f"{result.place}: {result.reason}")
                what.text = "\n".join(result.details)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(results: Sequence[Result]) -> str:
    """A table: script, profile, result, reason."""
    lines = ["| script | profile | result | reason |", "| --- | --- | --- | --- |"]
    for result in results:
        where = f"line {result.line}: " if result.line else ""
        reason = (where + result.reason).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {result.file} | {result.profile} | {result.status} | {reason} |")
    return "\n".join(lines) + "\n"
