"""The order of the runs on a testbed."""

from types import SimpleNamespace
from typing import Any

from tcpassay.run.session import Beginning, _order  # the order is what a journal receives


def plan(substrate: str, text: str = "one") -> Any:
    spec = SimpleNamespace(seeds=[1, 2, 3], repetitions=2, substrates=[substrate])
    return SimpleNamespace(spec=spec, cases=list(range(20)), text=text)


def test_runs_on_a_testbed_are_interleaved_in_a_random_order_each_case_once_in_a_block() -> None:
    order = _order(plan("remote:lab"), Beginning())
    assert order is not None
    assert sorted(order) == list(range(20 * 3 * 2))
    for block in range(6):
        runs = order[20 * block : 20 * (block + 1)]
        assert sorted(run // 6 for run in runs) == list(range(20))
        # A block has one seed and one repetition.
        assert len({run % 6 for run in runs}) == 1
        assert runs != sorted(runs)
    assert order == _order(plan("remote:lab"), Beginning())
    assert order != _order(plan("remote:lab", "another plan"), Beginning())


def test_other_substrates_have_the_order_of_the_plan_unless_the_user_asks_for_another() -> None:
    assert _order(plan("host"), Beginning()) is None
    shuffled = _order(plan("remote:lab"), Beginning(shuffle=1))
    assert shuffled == _order(plan("host"), Beginning(shuffle=1)) != _order(plan("remote:lab"), Beginning())
