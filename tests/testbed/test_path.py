"""When a measured path is not that of the case."""

import pytest

from tcpassay.testbed import messages, wire
from tcpassay.testbed.session import path_problem


@pytest.mark.parametrize(
    ("measured", "lossy", "words"),
    [
        (20_000_000, "false", ""),
        # Queues of other traffic make a path longer.
        (500_000_000, "false", ""),
        (17_100_000, "false", ""),
        (16_900_000, "false", "its round-trip time is 16.900 ms instead of 20.000 ms"),
        (None, "false", "no packet of 1500 B came back"),
        (None, "true", ""),
    ],
)
def test_a_path_is_wrong_if_nothing_passes_or_its_delay_is_missing(
    measured: int | None, lossy: str, words: str
) -> None:
    number = "null" if measured is None else str(measured)
    path = (
        '{"sender": "a", "receiver": "b", "size": 1500, "asked": 20000000, '
        f'"measured": {number}, "lossy": {lossy}}}'
    )
    message = wire.parse(f'{{"kind": "probed", "paths": [{path}]}}'.encode())
    assert isinstance(message, messages.Probed)
    said = path_problem(message.paths[0])
    assert said == (words and f"the path from `a` to `b` is not that of the case: {words}")
