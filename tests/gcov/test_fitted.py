"""Conversion of plans for the model to plans for a kernel. The tests are skipped, with a reason, without an agent."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.gcov.fitted import fit

MODEL = """
name = "made"
seeds = [1, 2]
[fixed]
"nic.rx_cost" = "1us"
"app.duration" = "100ms"
[axes]
"stack.profile" = ["linux", "freebsd", "rfc"]
"link.loss" = ["0", "1%"]
"""


pytestmark = pytest.mark.usefixtures("agent")


def plan(folder: Path, text: str) -> Path:
    file = folder / "plan.toml"
    file.write_text(text)
    return file


def test_what_a_kernel_does_not_support_is_at_its_default_and_equal_cases_are_one(tmp_path: Path) -> None:
    fitted = fit(plan(tmp_path, MODEL), "kernel:any")
    cases = [case.triples for case in fitted.plan.cases]
    assert (len(cases), fitted.changed, fitted.omitted) == (4, 4, 2)
    assert {case["link.loss"] for case in cases} == {"0", "1%"}
    assert all("nic.rx_cost" not in case and case.get("stack.profile") != "freebsd" for case in cases)
    assert {case.substrate for case in fitted.plan.cases} == {"kernel:any"}
    assert fitted.plan.spec.seeds == [1, 2]


def test_a_plan_that_a_kernel_can_run_stays_as_it_is(tmp_path: Path) -> None:
    fitted = fit(plan(tmp_path, 'name = "made"\n[axes]\n"link.loss" = ["0", "1%"]\n'), "kernel:any")
    assert (len(fitted.plan.cases), fitted.changed, fitted.omitted) == (2, 0, 0)


def test_an_error_in_a_plan_for_kernels_is_reported(tmp_path: Path) -> None:
    text = 'name = "made"\nsubstrates = ["kernel"]\n[fixed]\n"nic.rx_cost" = "1us"\n'
    with pytest.raises(UserError, match=r"nic\.rx_cost"):
        fit(plan(tmp_path, text), "kernel:any")


def test_one_case_is_a_plan_without_groups(tmp_path: Path) -> None:
    fitted = fit(
        plan(tmp_path, 'name = "made"\n[fixed]\n"nic.rx_cost" = "1us"\n"link.loss" = "1%"\n'), "kernel:any"
    )
    (case,) = fitted.plan.cases
    assert case.triples == {"link.loss": "1%"}
