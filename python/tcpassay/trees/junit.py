"""A comparison of two kernels as JUnit XML: a test for each pair of runs, which fails if the runs differ."""

import re
from typing import Final
from xml.etree import ElementTree as ET

from tcpassay.trees.comparison import TreeComparison
from tcpassay.trees.pairs import TreePair

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


def junit(told: TreeComparison) -> str:
    """JUnit XML; the text of a failure contains the cause and the commands that repeat both runs."""
    kind = "kernel" if told.base.substrate.startswith("kernel:") else "stack"
    name = f"{kind} compare {told.base.name} {told.head.name}"
    root = ET.Element("testsuites", name=f"tcpassay {name}")
    suite = ET.SubElement(
        root,
        "testsuite",
        name="pairs",
        tests=str(len(told.pairs)),
        failures=str(len(told.different)),
        errors="0",
    )
    causes = {id(pair): cause.text for cause in told.causes.found for pair in cause.explains}
    kinds = {id(pair): group.words for group in told.groups for pair in group.pairs}
    scripts = {id(one.pair): one.script.file for one in told.examples if one.script is not None}
    for pair in told.pairs:
        said = f"case {pair.head['case']} seed {pair.seed}: {pair.label}"
        case = ET.SubElement(suite, "testcase", classname=clean(name), name=clean(said))
        if pair.differs:
            lines = [
                *([f"cause: {causes[id(pair)]}"] if id(pair) in causes else []),
                *([f"first difference: {kinds[id(pair)]}"] if id(pair) in kinds else []),
                *([f"metrics: {', '.join(pair.metrics)}"] if pair.metrics else []),
                *([f"new findings: {', '.join(pair.new)}"] if pair.new else []),
                *([f"earlier findings: {', '.join(pair.gone)}"] if pair.gone else []),
                *told.command(pair),
                *([f"packetdrill script: {scripts[id(pair)]}"] if id(pair) in scripts else []),
            ]
            failure = ET.SubElement(case, "failure", message=clean(_message(pair)))
            failure.text = clean("\n".join(lines))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _message(pair: TreePair) -> str:
    of_base, of_head = pair.base.get("outcome"), pair.head.get("outcome")
    if of_base != of_head:
        return f"{of_base} on base, {of_head} on head"
    kinds = [
        *(["packets"] if pair.packets else []),
        *(["metrics"] if pair.metrics else []),
        *(["findings"] if pair.new or pair.gone else []),
    ]
    return f"the kernels differ in {' and '.join(kinds)}"


def clean(text: str) -> str:
    """A text with the characters that XML allows."""
    return _FORBIDDEN.sub("\ufffd", text)
