"""Findings and failed checks in a report in a real browser: how they are grouped, and where their links lead."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pages
from pages import MS
from views import View

from tcpassay.judge import Finding, Severity, write_findings
from tcpassay.report import write_report

Open = Callable[[Path], View]


def incident(oracle: str, flow: str, start: int, end: int, **more: Any) -> Finding:
    said = {"severity": Severity.ERROR, "case": pages.WATCHED, "seed": 1} | more
    return Finding(oracle, said.pop("severity"), oracle, "h", flow, start, end, 1, "text", (), (), **said)


def test_findings_of_one_cause_are_one_entry_and_errors_come_first(view: Open, tmp_path: Path) -> None:
    folder = pages.folder(tmp_path / "made")
    write_findings(folder, [
        incident("warned", "flow.0", 90 * MS, 95 * MS, severity=Severity.WARNING),
        incident("cause", "flow.0", 40 * MS, 60 * MS),
        incident("effect", "flow.1", 50 * MS, 70 * MS),
        incident("elsewhere", "flow.2", 50 * MS, 70 * MS),
    ])  # fmt: skip
    page = view(write_report(folder).file).open()
    entries = page.page.locator("#findings details.group > summary").all_inner_texts()
    assert [entry.split("\n")[0].strip() for entry in entries] == ["error", "error", "warning"]
    assert "cause" in entries[0]
    assert "At the same time: effect (1)" in entries[0]
    assert "elsewhere" in entries[1]


def test_a_link_to_a_finding_opens_its_flow_and_shades_it_alone(view: Open, tmp_path: Path) -> None:
    folder = pages.folder(tmp_path / "made")
    write_findings(
        folder, [incident("a", "flow.0", 10 * MS, 20 * MS), incident("b", "flow.2", 50 * MS, 70 * MS)]
    )
    page = view(write_report(folder).file).open()
    link = page.page.locator("#findings .group", has_text="flow.2").locator(".where a").get_attribute("href")
    assert link is not None
    assert "flow=flow.2" in link
    page = view(page.file).open(link)
    shaded = page.chart("timeline", "o.series.filter((one) => one.markArea).map((one) => one.markArea.data)")
    assert shaded
    assert {(low["xAxis"], high["xAxis"]) for data in shaded for low, high in data} == {(50, 70)}
    assert page.page.locator(".finding.selected").count() == 1
    assert "flow.0" in page.text(".legend")


def test_a_failed_check_leads_to_its_run(view: Open, tmp_path: Path) -> None:
    folder = pages.folder(tmp_path / "made")
    index = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    index["checks"][0] |= {"case": pages.WATCHED, "seed": 1}
    (folder / "result.json").write_text(json.dumps(index), encoding="utf-8")
    page = view(write_report(folder).file).open()
    page.after(page.page.locator("#checks tbody a").first.click)
    assert page.text("h2") == f"Case {pages.WATCHED} seed 1"
