"""Judging: oracles evaluate a recording and report findings with evidence.

    findings = judge(Path("results/plan/recordings/1a2b3c4d5e-1"), replay="tcpassay replay ...")

An oracle reads the event log and needs no expected values: it asserts rules that hold for every TCP on every path. A
recording without an event log cannot be judged (`can_judge`), so that it has no findings.

| module | content |
| --- | --- |
| `tcpassay.finding` | the type of a finding |
| `log` | the event log as columns |
| `registry` | the table of the oracles |
| `session`, `folders` | judges one recording, and all recordings of a plan |
| `frames` | the captured packets of a finding |
| `store`, `show` | findings as a file, and as text |
"""

from tcpassay.finding import Finding, Found, Row, Severity
from tcpassay.judge.registry import ORACLES, Oracle
from tcpassay.judge.session import can_judge, judge, judge_recording, unjudged
from tcpassay.judge.store import read_findings, write_findings

__all__ = [
    "ORACLES",
    "Finding",
    "Found",
    "Oracle",
    "Row",
    "Severity",
    "can_judge",
    "judge",
    "judge_recording",
    "read_findings",
    "unjudged",
    "write_findings",
]
