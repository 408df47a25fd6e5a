"""The delay of a queue with CoDel, as segments show it."""

from pathlib import Path

import pytest
from test_traced import kernel, titles

ABOVE = "a queue stays above its target"


@pytest.mark.parametrize(
    ("kind", "queued", "drops", "found"),
    [
        ("codel", 40, 1000, [ABOVE]),
        ("fq_codel", 40, 1000, [ABOVE]),
        # CoDel drops at least once per interval.
        ("codel", 40, 100, []),
        # A queue below the target, and one that does not limit its delay.
        ("codel", 3, 1000, []),
        ("fifo", 40, 1000, []),
    ],
)
def test_a_queue_that_stays_above_its_target_drops_packets(
    kind: str, queued: int, drops: int, found: list[str], folder: Path
) -> None:
    log = kernel(link__rate="10Mbit", link__delay="1ms", queue__kind=kind)
    for i in range(450):
        sent, came = 10 + max(0, i - queued), 14 + i
        log.data(sent, None if i % drops == drops - 1 else came, 1 + 1000 * i)
    assert titles(log.judged(folder, "queue-delay")) == found
