"""packetdrill scripts on a real Linux: in a guest in virtual time, or as root on the kernel of this host.

One guest runs all scripts one after the other, each in its own process and network namespace. Its time is virtual, so
that only the kernel's ticks are uncertain. A script that ends the guest is `crashed`, and the others run in another
guest. On the host time is real: a failed script is repeated, and the result contains the number of attempts.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypedDict

from tcpassay.errors import UserError
from tcpassay.kernel import store
from tcpassay.scratch import folder as scratch_folder
from tcpassay.script import model
from tcpassay.script.report import Report, crashed
from tcpassay.script.results import Result
from tcpassay.substrate import kernel as guest
from tcpassay.substrate.agent import PATIENCE_S, agent_program

# Attempts on a host, where time is real, and for guests that another process kills.
ATTEMPTS: Final = 3
# Time limits of a script, by the guest's clock and by the host's.
VIRTUAL_LIMIT_S: Final = 100_000
REAL_LIMIT_S: Final = 100
# Seed of the guest's random numbers.
SEED: Final = 1


class Request(TypedDict):
    """A script in the format of the agent (`crates/agent/src/script`)."""

    text: str
    loose: bool
    options: list[list[str]]
    limit_s: int


class Said(Report, total=False):
    """The agent's answer: a report, or only `wrong` when a script ended its process."""

    wrong: str


def run(files: Sequence[Path], wanted: model.Wanted, covered: list[str] | None = None) -> Iterator[Result]:
    """Runs scripts in a guest (`on` is `kernel`) or on this host (`host`), in this order. Raises `UserError`.

    `covered` receives what each guest reached in the code of its kernel, if this has counters.
    """
    limit = VIRTUAL_LIMIT_S if wanted.on == "kernel" else REAL_LIMIT_S
    requests = []
    for file in files:
        asked = model.request(file, replace(wanted, profile="linux"))
        requests.append(request(asked.text, loose=wanted.loose, options=asked.options, limit_s=limit))
    if wanted.on == "kernel":
        kernel = store.find(wanted.kernel)
        reports: Iterable[Report] = on_kernel(requests, kernel=kernel.name, covered=covered)
        release = kernel.release
    else:
        reports, release = on_host(requests), os.uname().release
    for file, report in zip(files, reports, strict=True):
        yield Result.of(file, release, report)


def request(text: str, *, loose: bool, options: Iterable[tuple[str, str]], limit_s: int) -> Request:
    """The request to the agent."""
    return {"text": text, "loose": loose, "options": [list(pair) for pair in options], "limit_s": limit_s}


def on_kernel(
    requests: list[Request], *, kernel: str | None = None, covered: list[str] | None = None
) -> list[Report]:
    """The reports of scripts that ran in a guest. Raises `UserError` if there is no guest or if it does not start.

    A script during which the guest ended is `crashed`; another guest runs the remaining ones. If an unrelated process
    killed a guest, its scripts are repeated, up to three times.
    """
    chosen = store.find(kernel)
    reports: list[Report] = []
    killed = 0
    while len(reports) < len(requests):
        try:
            reports += _in_guest(chosen, requests[len(reports) :], covered)
        except _KilledError as error:
            killed += 1
            if killed == ATTEMPTS:
                raise UserError(f"somebody killed the guest {ATTEMPTS} times\n{error}") from error
    return reports


class _KilledError(Exception):
    """An unrelated process killed the guest or one of its processes."""


def _in_guest(kernel: store.Kernel, requests: list[Request], covered: list[str] | None) -> list[Report]:
    """The reports of the scripts that one guest processed, at least one."""
    with scratch_folder() as place:
        (place / "init").symlink_to(agent_program())
        (place / "scripts.json").write_text(json.dumps(requests), encoding="utf-8")
        ended = guest.boot(kernel.image, place, SEED, PATIENCE_S)
        end = ended.console.strip()[-guest.LAST_WORDS :]
        if ended.outside:
            raise _KilledError(end)
        try:
            answer = json.loads((place / "answer.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            begun = _lines(place / "reports.jsonl")
            how = "had to be ended" if ended.late else "left no answer"
            why = f"the guest {how}\n{end}"
            if begun is None:
                raise UserError(why) from error
            return [*map(_checked, begun), crashed(why)][: len(requests)]
        if covered is not None and kernel.notes is not None:
            covered.append(guest.covered(kernel, place))
    if "Ok" not in answer:
        raise UserError(f"the guest: {answer.get('Err', answer)}")
    return [_checked(report) for report in answer["Ok"]]


def _lines(file: Path) -> list[Said] | None:
    """The reports that a guest wrote before it ended; `None` if it ended before the first script."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one may be truncated
            break
    return found


def on_host(requests: list[Request]) -> Iterator[Report]:
    """The reports of scripts on this host's kernel, each tried up to three times. Raises `UserError`."""
    if os.geteuid() != 0:
        raise UserError("`--on host` needs root: a network namespace, a TUN device and real-time priority")
    for one in requests:
        for attempt in range(1, ATTEMPTS + 1):
            report = _host_once(one)
            report["attempts"] = attempt
            if report["status"] not in {"fail", "time"}:
                break
        yield report


def _host_once(one: Request) -> Report:
    try:
        ran = subprocess.run(  # noqa: S603 - our own program
            [agent_program(), "script"],
            input=json.dumps(one),
            capture_output=True,
            text=True,
            timeout=2 * REAL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return crashed(f"its process was ended after {2 * REAL_LIMIT_S} s")
    try:
        return _checked(json.loads(ran.stdout))
    except ValueError as error:
        if ran.returncode == 1:
            raise UserError(ran.stderr.strip()) from error
        return crashed(f"its process ended with {ran.returncode}: {ran.stderr.strip()}")


def _checked(said: Said) -> Report:
    return crashed(said["wrong"]) if "wrong" in said else said
