"""Which findings of two kernels count as new: those of other oracles, and first differences that come earlier."""

from dataclasses import replace

from tcpassay.finding import Finding, Severity
from tcpassay.trees.pairs import beside


def found(
    oracle: str, start_ns: int, flow: str = "flow.0", severity: Severity = Severity.DIFFERENCE
) -> Finding:
    return Finding(oracle, severity, "t", "sender", flow, start_ns, start_ns, 1, "", (), ())


def test_a_first_difference_is_new_if_the_plain_kernel_has_none_in_this_flow_or_a_later_one() -> None:
    plain = [found("follow", 500), found("late-ack", 10, severity=Severity.ERROR)]
    assert beside(plain, plain) == ()
    assert beside([found("follow", 600)], plain) == ()
    assert beside([found("follow", 400)], plain) == ("follow",)
    assert beside([found("follow", 900, "flow.1")], plain) == ("follow",)
    assert beside([replace(plain[1], flow="flow.1")], plain) == ()
    assert beside([found("delivery", 1, severity=Severity.ERROR)], plain) == ("delivery",)
