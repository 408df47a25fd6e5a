"""Runs packetdrill scripts on the model or another TCP, in this process."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay import _native
from tcpassay.errors import Place, UserError
from tcpassay.script.files import PLACES, profile_of, read, shell_options
from tcpassay.script.report import Packetdrill, Report
from tcpassay.script.results import Result
from tcpassay.stacks.build import command

MEMORY: Final = 1 << 30
"""Memory limit of a script on the model in bytes."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings of a run."""

    profile: str | None
    """The profile of the model; `None` uses the first line of the script."""
    loose: bool
    options: tuple[tuple[str, str], ...]
    on: str = "model"
    kernel: str | None = None

    @property
    def stack(self) -> str | None:
        """The value of `stack.implementation`, if the script runs on another TCP."""
        return None if self.on in PLACES else self.on


_OLDER = {
    "freebsd": ("as freebsd-12", "freebsd-12", ()),
    "linux": (
        "with --sysctl net.ipv4.tcp_syn_linear_timeouts=0",
        "linux",
        (("sysctl", "net.ipv4.tcp_syn_linear_timeouts=0"),),
    ),
}
"""Older versions and settings for which public scripts may have been written: description, profile, options."""


def run(file: Path, wanted: Wanted) -> Result:
    """Runs one script in virtual time. If it fails on the model, the reason has the settings with which it passes."""
    asked = request(file, wanted)
    return Result.of(file, asked.profile, answer(asked))


def request(file: Path, wanted: Wanted) -> Packetdrill:
    """The script of a file. Raises `UserError` for an unreadable file or an unknown profile."""
    text = read(file)
    place = None
    if (profile := wanted.profile) is None:
        profile, place = profile_of(file), Place(file, 1)
    options = (*wanted.options, *shell_options(text, file))
    with _told(place):
        _native.run_script("", profile, wanted.loose, [])
    with _told(None):
        _native.run_script("", profile, wanted.loose, [list(pair) for pair in options])
    return Packetdrill(text, profile, wanted.loose, options, wanted.stack)


@contextlib.contextmanager
def _told(place: Place | None) -> Iterator[None]:
    """An error of the data plane about a request, with its position."""
    try:
        yield
    except ValueError as error:
        raise UserError(str(error), place) from error


def answer(asked: Packetdrill) -> Report:
    """The report of a script on the model or on another TCP."""
    options = [list(pair) for pair in asked.options]
    if asked.stack is not None:
        return _report(_native.run_script_on_stack(asked.text, command(asked.stack), asked.loose, options))
    report = _on_model(asked, asked.profile, asked.options)
    if report["status"] not in {"time", "fail"} or asked.profile not in _OLDER:
        return report
    how, older, more = _OLDER[asked.profile]
    if _on_model(asked, older, (*asked.options, *more))["status"] != "pass":
        return report
    return report | {"reason": f"{report['reason']}; passes {how}"}


def _on_model(asked: Packetdrill, profile: str, options: Sequence[tuple[str, str]]) -> Report:
    return _report(_native.run_script(asked.text, profile, asked.loose, [list(pair) for pair in options]))


def _report(text: str) -> Report:
    report: Report = json.loads(text)
    return report
