"""Runs a packetdrill script as a case; an unmet expectation of the script is a finding.

| result of the script | of the run |
| --- | --- |
| pass | `done` |
| fail, time | `done`, with a finding of the oracle `script` |
| unsupported | `unsupported`, which is never as expected |
| syntax | `failed` |
| crashed (on a real kernel) | `crashed` |
"""

import hashlib
import json
import resource
import time
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.finding import Finding, Severity
from tcpassay.messages import Answer, CaseRequest, Outcome, Script
from tcpassay.script import linux, model
from tcpassay.script.files import ALLOW_SHELL
from tcpassay.script.report import Status
from tcpassay.script.results import Result

ORACLE: Final = "script"
_OUTCOMES: Final[dict[Status, str]] = {
    "pass": "done",
    "time": "done",
    "fail": "done",
    "unsupported": "unsupported",
    "syntax": "failed",
    "crashed": "crashed",
}
_TITLES: Final = {
    "fail": "the script expects a different behaviour",
    "time": "only the times differ from the script",
}
# Real time varies from run to run and is excluded from the comparison of runs.
_OF_THE_MACHINE: Final = ("attempts",)


def run(request: CaseRequest, script: Script) -> Answer:
    """Runs the script of a case; its file is relative to the `base` of the request."""
    if any(name == ALLOW_SHELL for name, _ in script.options):
        return Answer("failed", f"`{ALLOW_SHELL}`: a case never executes shell commands")
    place = Path(request.base) / script.file
    kind, _, which = request.substrate.partition(":")
    stack = which if kind == "model" else ""
    wanted = model.Wanted(script.profile, script.loose, script.options, stack or kind, which or None)
    covered: list[str] = []
    started, elsewhere = time.process_time(), _children()
    try:
        # On the model it runs in this process, which is a worker process.
        result = model.run(place, wanted) if kind == "model" else next(linux.run([place], wanted, covered))
    except UserError as error:
        return Answer("failed", str(error))
    took = time.process_time() - started + _children() - elsewhere
    said = {name: value for name, value in result.as_json().items() if name not in _OF_THE_MACHINE}
    said["file"] = script.file
    sum_ = hashlib.sha256(json.dumps(said, sort_keys=True).encode() + place.read_bytes()).hexdigest()
    outcome = _OUTCOMES[result.status]
    where = f"{script.file}:{result.line}:{result.column}" if result.line else script.file
    if outcome != Outcome.DONE:
        return Answer(outcome, f"{where}: {result.reason}", cpu_s=_children() - elsewhere)
    return Answer(
        outcome,
        trace=sum_[:16],
        digest=sum_[16:32],
        findings=[] if result.status == "pass" else [_finding(result, where)],
        cpu_s=_children() - elsewhere,
        simulation_s=took,
        covered=covered[0] if covered else "",
    )


def _children() -> float:
    """CPU seconds of terminated guests and agents of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _finding(result: Result, where: str) -> Finding:
    """The mismatch with its position in the script and the details that `tcpassay script` prints."""
    at = result.virtual_time_usecs * 1000
    hint = [f"It passes with --tolerance_usecs={result.drift_usecs}."] if result.status == "time" else []
    text = "\n".join([f"{where}: {result.reason}", *hint, *result.printed, *result.details])
    title = _TITLES[result.status]
    return Finding(ORACLE, Severity.ERROR, title, result.profile, where, at, at, 1, text, (), ())
