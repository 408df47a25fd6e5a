"""The result of a plan as JUnit XML for continuous integration: a test for each run and for each check."""

import re
from typing import Final
from xml.etree import ElementTree as ET

from tcpassay.finding import Severity
from tcpassay.run.checks import Verdict
from tcpassay.run.result import Result, Run

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


def junit(result: Result) -> str:
    """JUnit XML: runs with an unexpected outcome are errors.

    Findings that violate a rule and failed checks are failures.

    Runs that were not made are skipped. The text of a failure contains the command that repeats its run.
    """
    name = result.plan.spec.name
    root = ET.Element("testsuites", name=f"tcpassay run {name}")
    runs = ET.SubElement(root, "testsuite", name="runs", tests=str(len(result.runs)))
    for run in result.runs:
        case = _case(runs, f"{name}.runs", _named(run), f"{run.cpu_s:.3f}")
        _run(case, run, result.replay(run))
    checks = ET.SubElement(root, "testsuite", name="checks", tests=str(len(result.verdicts)))
    made = {(run.case.id, run.seed): run for run in result.runs}
    for verdict in result.verdicts:
        said = f"{verdict.check.metric} {verdict.check.op} {verdict.check.value}"
        case = _case(checks, f"{name}.checks", f"{said}: {verdict.subject}")
        if not verdict.holds:
            decides = made.get((verdict.case, verdict.seed or 0))
            _check(case, verdict, result.replay(decides) if decides else "")
    for suite in (runs, checks):
        for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(plural, str(len(suite.findall(f"testcase/{kind}"))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, group: str, name: str, time: str | None = None) -> ET.Element:
    case = ET.SubElement(suite, "testcase", classname=_clean(group), name=_clean(name))
    if time is not None:
        case.set("time", time)
    return case


def _run(case: ET.Element, run: Run, replay: str) -> None:
    if not run.begun:
        ET.SubElement(case, "skipped", message="not run")
        return
    if not run.as_expected:
        first = run.message.splitlines()[0] if run.message else ""
        said = f"{run.outcome}: {first}" if first else run.outcome
        ET.SubElement(case, "error", message=_clean(said)).text = _clean(f"{run.message}\n{replay}")
        return
    if broken := [one for one in run.findings if one.severity is Severity.ERROR]:
        titles = ", ".join(dict.fromkeys(one.title for one in broken))
        texts = [f"{one.title}: {one.text}" for one in broken]
        ET.SubElement(case, "failure", message=_clean(titles)).text = _clean("\n".join([*texts, replay]))


def _check(case: ET.Element, verdict: Verdict, replay: str) -> None:
    observed = "no value" if verdict.observed is None else f"{verdict.observed:.6g}"
    said = f"observed {observed}, must be {verdict.check.op} {verdict.limit}: {' '.join(verdict.check.why.split())}"
    failure = ET.SubElement(case, "failure", message=_clean(said))
    failure.text = _clean("\n".join(filter(None, [verdict.note, replay])))


def _named(run: Run) -> str:
    label = f": {run.case.label}" if run.case.label else ""
    return f"case {run.case.id} seed {run.seed}{label}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
