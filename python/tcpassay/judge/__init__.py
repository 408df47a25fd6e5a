"""Judging: oracles look at a recording, and what they find becomes findings with evidence.

    findings = judge(Path("results/plan/recordings/1a2b3c4d5e-1"), replay="tcpassay replay ...")

An oracle needs no expected values: it asserts rules that hold for every TCP on every path, and reads the event log. A
recording without an event log has no findings, which is no result; see `can_judge`.

`tcpassay.finding` is what comes out, `trace.py` what oracles read, `registry.py` which there are, `session.py` judges
one recording and `folders.py` all of a plan, `store.py` is the file in which their findings stand, `show.py` prints.
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
