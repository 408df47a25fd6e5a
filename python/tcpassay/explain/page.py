"""A page about a finding for the maintainers of a TCP: `tcpassay explain --report`.

It states the rule, the settings, what happened, and how to see it without tcpassay: a packetdrill script and a capture.
"""

import io
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from tcpassay import _native, output
from tcpassay.explain import packetdrill
from tcpassay.explain.explanation import Evidence, Explanation
from tcpassay.explain.moments import End
from tcpassay.explain.opening import opening
from tcpassay.explain.packetdrill import Side, Span, UnwritableError
from tcpassay.explain.reproduced import reproduced
from tcpassay.explain.show import diagram
from tcpassay.explain.words import marks, neighbour_words
from tcpassay.isolate.cause import CauseRow
from tcpassay.judge.registry import ORACLES

PAGE: Final = "report.md"
SCRIPT: Final = "script.pkt"
CAPTURE: Final = "packets.pcapng"
_WIDTH: Final = 118
_LENGTHS: Final = (None, 10, 3)
"""Segments before the evidence with which a script is tried: all, then fewer."""
_AFTER_NS: Final = 2_000_000_000
"""Time after the evidence that a script contains at most."""


@dataclass(frozen=True, slots=True)
class Page:
    """The files of a page."""

    text: str
    script: str | None
    capture: bytes | None

    def write(self, folder: Path) -> list[Path]:
        """Writes the files into a folder, which is created. Raises `UserError`."""
        files: dict[str, str | bytes | None] = {PAGE: self.text, SCRIPT: self.script, CAPTURE: self.capture}
        for name, content in files.items():
            if content is not None:
                output.write(folder / name, content)
        return [folder / name for name, content in files.items() if content is not None]


def page(explanation: Explanation) -> Page:
    """The page of an explained finding."""
    finding, evidence = explanation.finding, explanation.evidence
    oracle = ORACLES[finding.oracle]
    versions = [f"* {host}: {name}" for host, name in evidence.versions]
    settings = [f"{json.dumps(path)} = {json.dumps(value)}" for path, value in evidence.settings.items()]
    script, about = _script(explanation, evidence)
    causes = [f"* `{one['path']} = {one['value']}`" for one in explanation.cause]
    parts = [
        f"# {finding.title}",
        finding.text,
        "## The rule",
        f"{_sentence(oracle.why)}\n\nWhat is checked: {_sentence(oracle.asserts)}",
        f"This report is wrong in these cases: {_sentence(oracle.wrong_when)}",
        "## Versions",
        "\n".join([*versions, f"* network, applications and checks: tcpassay {_native.__version__}"]),
        "## Settings",
        "A setting that is not listed has its default. Times are virtual, so that the run can be repeated exactly.",
        _block("toml", [*settings, f"# seed {evidence.seed}"]),
        *([proven(explanation.isolation), "\n".join(causes)] * bool(causes)),
        "## What happened",
        _block("text", [drawn(explanation), marks(explanation)]),
        *(["\n".join(neighbour_words(explanation))] * (explanation.neighbour is not None)),
        "## Without tcpassay",
        *([_capture_words(finding.host)] * (evidence.capture is not None)),
        about,
    ]
    return Page("\n\n".join(parts) + "\n", script, evidence.capture)


def proven(found: CauseRow | None) -> str:
    """What `isolate` showed about the settings of a cause, before their list."""
    if found is not None and found["proven"]:
        return "The smallest set of settings that shows it; it is gone whichever of them is reset:"
    why = f" ({found['why_not']})" if found is not None and found["why_not"] else ""
    if found is not None and found["complete"]:
        gone = {row["path"] for row in found["proof"] if row["gone"]}
        left = ", ".join(f"`{one['path']}`" for one in found["cause"] if one["path"] not in gone)
        return (
            f"A set of settings that shows it, and of which no smaller part was found that does{why}. It is not shown "
            f"that it is gone without {left}:"
        )
    return f"The smallest set so far that shows it{why}. It is not proven that each of them is needed:"


def _capture_words(host: str) -> str:
    return (
        f"`{CAPTURE}` has the packets of the whole run at both ends and in the network, each at every place; "
        f"`tshark -r {CAPTURE} -Y 'frame.interface_name == \"{host}\"'` shows one place."
    )


def _sentence(text: str) -> str:
    return textwrap.fill(text[:1].upper() + text[1:], _WIDTH)


def _block(language: str, lines: list[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def drawn(explanation: Explanation) -> str:
    """The sequence diagram as text."""
    text = io.StringIO()
    Console(file=text, width=_WIDTH, color_system=None).print(diagram(explanation))
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _script(explanation: Explanation, evidence: Evidence) -> tuple[str | None, str]:
    """A script of the end that the finding is about, and what is known of it; or why there is none."""
    finding, here = explanation.finding, explanation.connection
    end = End.SENDER if here.names[End.SENDER] == finding.host else End.RECEIVER
    times = [row.time_ns for row in finding.events] or [finding.start_ns, finding.end_ns]
    last = max(times)
    after = [one.time_ns for one in here.moments if one.end == end and one.segment and one.time_ns > last]
    until = min([*after[:1], here.end_ns, last + _AFTER_NS])
    head = [f"{finding.title} ({finding.oracle}): {finding.text}", f"What {finding.host} received and sent."]
    opened = None if evidence.capture is None else opening(evidence.capture, finding.host)
    if opened is None:
        head.append(
            "The options of the SYNs are those of the script, not of the run, and windows are not expected."
        )
    elif opened.stamps:
        head.append("The timestamps of the run are left out.")
    side = Side(end, evidence.mss_bytes, (), opened, reads=True)
    texts: list[str] = []
    reason = ""
    for segments in _LENGTHS:
        try:
            texts.append(packetdrill.written(here, side, Span(min(times), until, segments), head))
        except UnwritableError as why:
            reason = reason or str(why)
    if not texts:
        return None, f"There is no packetdrill script: {reason}."
    is_ = (
        f"`{SCRIPT}` is a packetdrill script of what {finding.host} received, did and sent until then. It has "
        "the behaviour as it is, not as the rule demands it, and no other settings than those of a socket."
    )
    tried = reproduced(texts, evidence.settings, finding.host)
    if tried.text is None and not tried.ran:
        return texts[0], f"{is_} It was not run: {tried.why}."
    if tried.text is None:
        return None, (
            f"There is no packetdrill script: in a script with what {finding.host} received, its TCP does not do what "
            f"it did in the run ({tried.why}), because that also depends on when the application reads and writes, and "
            "on what came before."
        )
    return tried.text, f"{is_} It passes on this TCP, so that it shows the behaviour:\n\n    {tried.command}"
