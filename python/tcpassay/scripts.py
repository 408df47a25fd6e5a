"""packetdrill scripts: which files, running them, and the results as a table, JSON, JUnit XML and Markdown.

A script that ends the process that runs it, or takes too much time or memory, is `crashed`; the others go on.
"""

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from tcpassay import _native, regular
from tcpassay.errors import Place, Problem, UserError
from tcpassay.kernel import scripts as real
from tcpassay.kernel import store

STATUSES: Final = ("pass", "time", "fail", "unsupported", "syntax", "crashed")

LONGEST: Final = 4 << 20
"""Bytes of a script; the runner refuses longer ones."""
SECONDS: Final = 120.0
"""What a script may take on the model by the clock of the machine; the longest public one takes less than one."""
MEMORY: Final = 1 << 30
"""Bytes that a script may take on the model."""
_SHELL_FILE: Final = 1 << 16
"""Bytes of a shell script that a script calls."""
_COMMANDS: Final = re.compile(r"`([^`]*)`")
_CALLED: Final = re.compile(r"(?:^|[\s;&|])([\w.][\w./-]*\.sh)(?=[\s;&|]|$)")

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
            inside = sorted(each for each in path.rglob("*.pkt") if each.is_file())
            if not inside:
                problems.append(Problem("no *.pkt file in this folder", Place(path)))
            found += inside
        elif path.is_file():
            found.append(path)
        elif path.exists():
            problems.append(Problem("neither a file nor a folder", Place(path)))
        else:
            problems.append(Problem("no such file or folder", Place(path)))
    if problems:
        raise UserError.several(problems)
    return found


_OLDER = {
    "freebsd": ("as freebsd-12", "freebsd-12", ()),
    "linux": (
        "with --sysctl net.ipv4.tcp_syn_linear_timeouts=0",
        "linux",
        (("sysctl", "net.ipv4.tcp_syn_linear_timeouts=0"),),
    ),
}
"""Other versions and settings, which public scripts may have been written for: what to say, profile, options."""


def run(file: Path, wanted: Wanted) -> Result:
    """Runs one script against the model, in this process. Where it does not pass, the reason says with what it does."""
    request = _request(file, wanted)
    return _result(file, request["profile"], answer(request))


def _request(file: Path, wanted: Wanted) -> dict[str, Any]:
    """What `answer` needs. Raises `UserError` for a file that cannot be read and a profile that there is not."""
    text = _read(file)
    place = None
    if (profile := wanted.profile) is None:
        from tcpassay.plan.scripted import profile_of  # noqa: PLC0415 - who runs a case of a plan has been told

        profile, place = profile_of(file), Place(file, 1)
    options = [*wanted.options, *_shell_options(text, file)]
    with _told(place):
        _native.run_script("", profile, wanted.loose, [])
    with _told(None):
        _native.run_script("", profile, wanted.loose, [list(pair) for pair in options])
    return {"text": text, "profile": profile, "loose": wanted.loose, "options": options}


@contextlib.contextmanager
def _told(place: Place | None) -> Iterator[None]:
    """What the data plane finds wrong with a request is told with its place."""
    try:
        yield
    except ValueError as error:
        raise UserError(str(error), place) from error


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The report of a script on the model."""
    profile, options = request["profile"], [tuple(pair) for pair in request["options"]]
    report = _on_model(request, profile, options)
    if report["status"] not in {"time", "fail"} or profile not in _OLDER:
        return report
    how, older, more = _OLDER[profile]
    if _on_model(request, older, [*options, *more])["status"] != "pass":
        return report
    return report | {"reason": f"{report['reason']}; passes {how}"}


def _on_model(request: dict[str, Any], profile: str, options: Sequence[tuple[str, str]]) -> dict[str, Any]:
    made = _native.run_script(request["text"], profile, request["loose"], [list(pair) for pair in options])
    found: dict[str, Any] = json.loads(made)
    return found


def shell_files(text: str, file: Path) -> dict[str, Path]:
    """The shell scripts beside `file` that its commands call, by the relative name that they call them by."""
    called = {name for command in _COMMANDS.findall(text) for name in _CALLED.findall(command)}
    found = {name: file.parent / name for name in sorted(called)}
    return {name: path for name, path in found.items() if path.is_file()}


def _shell_options(text: str, file: Path) -> Iterator[tuple[str, str]]:
    for name, path in shell_files(text, file).items():
        with contextlib.suppress(OSError), path.open("rb") as opened:
            body = opened.read(_SHELL_FILE + 1)
            if len(body) <= _SHELL_FILE:
                yield "shell-file", f"{name}\n{body.decode('utf-8', errors='replace')}"


def run_all(files: Sequence[Path], wanted: Wanted) -> Iterator[Result]:
    """Runs scripts where they are wanted, in this order: against the model, in a guest, or on this host's kernel."""
    if wanted.on == "model" and ("allow-shell", "") in wanted.options:
        # Its commands talk to the user, whose terminal a worker process does not have.
        yield from (run(file, wanted) for file in files)
        return
    if wanted.on == "model":
        yield from _apart(files, wanted)
        return
    limit = real.VIRTUAL_LIMIT_S if wanted.on == "kernel" else real.REAL_LIMIT_S
    requests = []
    for file in files:
        one = _request(file, replace(wanted, profile="linux"))
        requests.append(real.request(one["text"], loose=wanted.loose, options=one["options"], limit_s=limit))
    if wanted.on == "kernel":
        kernel = store.find(wanted.kernel)
        reports: Iterable[real.Report] = real.on_kernel(requests, kernel=kernel.name)
        release = kernel.release
    else:
        reports, release = real.on_host(requests), os.uname().release
    for file, report in zip(files, reports, strict=True):
        yield _result(file, release, report)


def _apart(files: Sequence[Path], wanted: Wanted) -> Iterator[Result]:
    """Each script in a worker process; one that ends badly costs its own result and no other."""
    from tcpassay.run.pool import Limits, Pool  # noqa: PLC0415 - it imports this module in its processes

    requests = [_request(file, wanted) for file in files]
    pool = Pool(max(1, min(os.cpu_count() or 1, len(files) // 8)), Limits(SECONDS, MEMORY))
    ready: dict[int, Result] = {}
    following = 0
    with contextlib.closing(pool.run({"packetdrill": request} for request in requests)) as answers:
        for some in answers:
            for index, found in some:
                report = found.get("report") or real.crashed(found["message"].strip())
                ready[index] = _result(files[index], requests[index]["profile"], report)
            while following in ready:
                yield ready.pop(following)
                following += 1


def _read(file: Path) -> str:
    try:
        regular.check(file.stat().st_mode)  # a pipe might never end, or never begin
        with file.open("rb") as opened:
            return opened.read(LONGEST + 1).decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"cannot be read: {(error.strerror or type(error).__name__).lower()}", Place(file)
        ) from error


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
    """JUnit XML, a suite a folder: unsupported scripts are skipped, syntax errors and crashes are errors."""
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
    """A text without control characters, which a terminal would obey and XML does not allow."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def markdown(results: Sequence[Result]) -> str:
    """A table: script, profile, result, reason."""
    lines = ["| script | profile | result | reason |", "| --- | --- | --- | --- |"]
    for result in results:
        where = f"line {result.line}: " if result.line else ""
        reason = shown(where + result.reason).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {result.file} | {result.profile} | {result.status} | {reason} |")
    return "\n".join(lines) + "\n"
