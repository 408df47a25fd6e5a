"""The common values of the runs with a finding, in the summary of a run."""

from tcpassay.plan.expand import Case
from tcpassay.run.found import shared
from tcpassay.run.result import Run


def run(cc: str, mtu: str, outcome: str = "done") -> Run:
    values = {"stack.cc": cc, "stack.mtu": mtu}
    return Run(outcome, case=Case(f"{cc}{mtu}", values, values), seed=1)  # type: ignore[arg-type]


def test_values_that_all_runs_with_a_finding_have_and_not_all_others_are_named() -> None:
    having = [run("reno", "1500B"), run("reno", "9000B")]
    others = [run("cubic", "1500B"), run("cubic", "9000B")]
    assert shared(having, having + others) == "stack.cc=reno (2 of 2 runs with that)"


def test_a_value_that_is_there_to_be_refused_does_not_make_all_others_common() -> None:
    having = [run("reno", "1500B"), run("reno", "9000B"), run("reno", "1500B")]
    others = [run("cubic", "1500B"), run("cubic", "9000B"), run("cubic", "100B", "refused")]
    assert shared(having, having + others) == "stack.cc=reno (3 of 3 runs with that)"


def test_a_few_values_that_no_other_run_has_are_named_although_each_has_one_run() -> None:
    having = [run("reno", "300B"), run("cubic", "536B")]
    others = [run(cc, mtu) for cc in ("reno", "cubic") for mtu in ("1500B", "9000B")]
    assert shared(having, having + others) == "stack.mtu=300B|536B (2 of 2 runs with that)"
    # A value that another run has without the finding is no condition.
    assert shared(having, [*having, *others, run("reno", "536B")]) == (
        "no parameter value is specific to these runs"
    )
