"""A comparison as JUnit XML: a test for each compared metric, each oracle with new findings, and each broken run."""

from xml.etree import ElementTree as ET

from tcpassay.compare.comparison import Comparison
from tcpassay.compare.effect import Verdict, describe, undecided
from tcpassay.plural import plural


def junit(comparison: Comparison) -> str:
    """JUnit XML: regressions are failures; what the runs cannot decide is skipped, with the reason."""
    root = ET.Element("testsuites", name="tcpassay compare")
    suite = ET.SubElement(root, "testsuite", name="metrics")
    for effect in comparison.effects:
        case = ET.SubElement(suite, "testcase", classname="compare.metrics", name=effect.metric)
        if effect.regressed:
            ET.SubElement(case, "failure", message=f"{effect.verdict}: {describe(effect)}")
        elif effect.verdict is Verdict.UNDECIDED:
            ET.SubElement(case, "skipped", message=undecided(effect))
    others = ET.SubElement(root, "testsuite", name="runs")
    _runs(comparison, others)
    for one in (suite, others):
        one.set("tests", str(len(one)))
        for kind, plural_ in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            one.set(plural_, str(len(one.findall(f"testcase/{kind}"))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _runs(comparison: Comparison, others: ET.Element) -> None:
    for change in comparison.findings:
        case = ET.SubElement(others, "testcase", classname="compare.findings", name=change.oracle)
        if change.new:
            ET.SubElement(case, "failure", message=f"new in {plural(len(change.new), 'run')}")
    for name, seed, outcome in comparison.broken:
        case = ET.SubElement(others, "testcase", classname="compare.runs", name=f"case {name} seed {seed}")
        ET.SubElement(case, "error", message=outcome)
    if comparison.exact is not None and not comparison.exact.expected:
        case = ET.SubElement(others, "testcase", classname="compare.runs", name="identical")
        if comparison.differs and comparison.options.identical:
            ET.SubElement(case, "failure", message=comparison.differs)
