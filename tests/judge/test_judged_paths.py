"""Which oracles judge a run whose path changes what they suppose."""

from typing import TYPE_CHECKING

import pytest

from tcpassay.judge.registry import ORACLES

if TYPE_CHECKING:
    from tcpassay.recording_format import TripleRow


@pytest.mark.parametrize(
    ("parameter", "value", "unjudged"),
    [
        ("link.rewrite", "sequence", set()),
        ("link.rewrite", "no-ecn-flags", set()),
        ("link.rewrite", "no-ect", {"ecn"}),
        ("link.rewrite", "mss:900B", {"segment-contents"}),
        ("link.rewrite", "window-scale:2", {"segment-contents"}),
        (
            "link.rewrite",
            "sequence+no-sack",
            {"segment-contents", "retransmission-timer"},
        ),
        (
            "link.mtu",
            "1400B",
            {"segment-contents", "window-growth", "window-reduction", "loss-detection"},
        ),
        ("link.delay", "10ms", set()),
    ],
)
def test_only_the_oracles_of_what_the_path_changes_do_not_judge(
    parameter: str, value: str, unjudged: set[str]
) -> None:
    case: list[TripleRow] = [{"entity": "", "parameter": parameter, "value": value}]
    assert {name for name, oracle in ORACLES.items() if oracle.lacks_path(case)} == unjudged
