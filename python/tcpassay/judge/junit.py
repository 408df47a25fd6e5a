"""Findings as JUnit XML: a test for each oracle, which fails with its findings."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from tcpassay.guard import clean
from tcpassay.judge.folders import Judged
from tcpassay.judge.registry import chosen
from tcpassay.judge.words import ms


def junit(judged: Judged, oracles: Iterable[str] | None = None) -> str:
    """JUnit XML; an oracle that could not judge is skipped with the reason, and a damaged file is an error."""
    root = ET.Element("testsuites", name="tcpassay judge")
    suite = ET.SubElement(root, "testsuite", name="oracles")
    for oracle in chosen(oracles):
        case = ET.SubElement(suite, "testcase", classname="judge", name=oracle.name)
        found = [one for one in judged.findings if one.oracle == oracle.name]
        if found:
            failure = ET.SubElement(case, "failure", message=clean(found[0].title))
            failure.text = clean("\n".join(
                f"{one.severity}: {one.title}: {f'case {one.case} seed {one.seed}, ' if one.case else ''}"
                f"{one.host}, {one.flow}, {ms(one.start_ns)} to {ms(one.end_ns)}"
                for one in found
            ))  # fmt: skip
        elif oracle.name in judged.unjudged:
            ET.SubElement(case, "skipped", message=clean(judged.unjudged[oracle.name]))
    for problem in judged.problems:
        case = ET.SubElement(suite, "testcase", classname="judge", name="files")
        ET.SubElement(case, "error", message=clean(problem))
    suite.set("tests", str(len(suite)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
