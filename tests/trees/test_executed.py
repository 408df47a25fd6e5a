"""The changed lines that the cases of a comparison executed, and the cases that are drawn to execute them."""

from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tcpassay.errors import UserError
from tcpassay.gcov.catalogue import Catalogue, File, Function
from tcpassay.isolate.runner import Budget
from tcpassay.kernel import store
from tcpassay.plan.read import Plan, read
from tcpassay.trees import beyond
from tcpassay.trees.drawn import Draw, draws
from tcpassay.trees.executed import Changes, budget_of, how_to_count, reach
from tcpassay.trees.pairs import TreePair

CATALOGUE = Catalogue((File("net/a.c", (Function("f", 1, 9),), (2, 3, 4), ()),))
LINE_2, LINE_3, LINE_4 = (1 << CATALOGUE.start(CATALOGUE.files[0], "lines") + place for place in range(3))
BASE = "int f(int x)\n{\n\tx++;\n\tg(x);\n}\n"


def kernel(name: str, variant: str = "coverage", series: tuple[str, ...] = ()) -> store.Kernel:
    return store.Kernel(name, "6.1", "source", "key", "", 1.0, [], [], list(series), [], variant)


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changes:
    """Two kernels that differ in the lines 3 and 4, which are one place."""
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path))
    for name, text in (("base", BASE), ("head", BASE.replace("x++", "x--").replace("g(x)", "h(x)"))):
        folder = tmp_path / "kernels" / name / "coverage"
        (folder / "net").mkdir(parents=True)
        (folder / "net/a.c").write_text(text, encoding="utf-8")
        (folder / "catalogue.json").write_text(CATALOGUE.as_text(), encoding="utf-8")
    return Changes((kernel("base"), kernel("head")))


def pair(case: str, base: int, head: int) -> TreePair:
    rows: list[Any] = [{"case": case, "seed": 1, "covered": CATALOGUE.encode(bits)} for bits in (base, head)]
    return TreePair(*rows, packets=False, metrics=(), new=(), gone=())


def test_executed_lines_are_counted_on_both_kernels_and_by_case(changes: Changes) -> None:
    told = changes.executed([pair("a", LINE_2 | LINE_3, LINE_2), pair("b", LINE_2, LINE_2)])
    assert told.lines == ((1, 2), (0, 2))
    assert [line for line, _ in told.lines_of_text()] == [
        "Changed lines: 1 of 4 executed (base 1 of 2, head 0 of 2), in 1 of 1 changed place",
        "   net/a.c:3-4 (f): executed in 1 of 2 cases",
    ]
    assert told.as_json()["base"] == {"executed": 1, "lines": 2}


def test_lines_that_no_case_executed_are_said_with_what_to_do(changes: Changes) -> None:
    told = changes.executed([pair("a", LINE_2, LINE_2)])
    assert [line for line, _ in told.lines_of_text()] == [
        "Changed lines: 0 of 4 executed (base 0 of 2, head 0 of 2), in 0 of 1 changed place",
        "   net/a.c:3-4 (f): never executed",
        "   `--reach 10min` draws further cases until they are executed",
    ]


def test_cases_are_drawn_until_all_changed_places_are_executed(changes: Changes, plan: Plan) -> None:
    made = [pair("a", LINE_2, LINE_2)]

    def more() -> Draw:
        made.append(pair(f"drawn {len(made)}", LINE_2, LINE_4 if len(made) == 3 else LINE_2))
        return Draw(plan, frozenset(), 1, len(made) % 2)

    told = reach(changes, lambda: made, more, Budget(runs=100))
    assert (told.drawn, told.ended, len(made)) == (3, "all changed places are executed", 4)
    assert list(told.lines_of_text())[-1][0] == (
        "   3 further cases drawn (--reach), 1 of them beyond the values of the plan: all changed places are executed"
    )


def test_a_spent_budget_ends_the_draws(changes: Changes, plan: Plan) -> None:
    made = [pair("a", LINE_2, LINE_2)]

    def more() -> Draw:
        made.append(pair("b", LINE_2, LINE_2))
        return Draw(plan, frozenset(), 1)

    assert reach(changes, lambda: made, more, Budget(runs=4)).ended == "the budget is spent"
    assert len(made) == 3
    clock = iter([0.0, 1.0, 61.0])
    assert reach(changes, lambda: made, more, Budget(seconds=60.0), lambda: next(clock)).drawn == 1


PLAN = """
name = "p"
seeds = [1]
[fixed]
"app.duration" = "10ms"
[axes]
"stack.cc" = ["reno", "cubic", "vegas"]
"link.delay" = ["1ms", "2ms", "3ms"]
"queue.limit" = ["50KB", "100KB", "200KB"]
[strategy]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return read(PLAN + 'kind = "t-way"\n', tmp_path / "p.toml", substrates=["kernel:a", "kernel:b"])


def settings(plan: Plan, ids: frozenset[str]) -> list[dict[str, str]]:
    return [
        {path: str(value) for path, value in case.triples.items()} for case in plan.cases if case.id in ids
    ]


def test_an_array_is_continued_by_those_of_higher_strength_and_by_cases_beyond_its_values(plan: Plan) -> None:
    own = {case.id for case in plan.cases}
    assert len(own) == 2 * 13
    found = list(islice(draws(plan, (), 8), 5))
    # All combinations of the three factors with three values are 27.
    assert [(one.new, one.beyond) for one in found] == [(8, 0), (8, 8), (6, 0), (8, 8), (8, 8)]
    assert [len(one.chosen) for one in found] == [2 * n for n in (21, 29, 35, 43, 51)]
    assert all(own <= one.chosen for one in found)
    assert [one.chosen for one in found] == [one.chosen for one in islice(draws(plan, (), 8), 5)]
    values = {"stack.cc": {"reno", "cubic", "vegas"}, "link.delay": {"1ms", "2ms", "3ms"}}
    outside = settings(found[1].plan, found[1].chosen - found[0].chosen)
    assert all(one["app.duration"] == "10ms" for one in outside)
    assert any(set(one) - {"app.duration", "stack.cc", "link.delay", "queue.limit"} for one in outside)
    assert all(one.get("link.delay", "1ms") in values["link.delay"] for one in outside)


def test_each_value_occurs_and_those_of_the_changed_names_come_first(plan: Plan) -> None:
    words = beyond.words_of(["net/ipv4/tcp_bbr.c", "bbr_check_full_bw_reached"])
    assert words == {"bbr", "full", "bw", "reached"}
    first, *others = islice(beyond.draws(plan, plan.cases, words, (), Random(1)), 400)  # noqa: S311 - a test
    assert first[0]["stack.cc"] == "bbr"
    controllers = {made["stack.cc"] for made, _ in others if "stack.cc" in made}
    # dctcp needs another setting, which may not be drawn beside it.
    assert {"htcp", "westwood", "highspeed"} <= controllers
    assert all(case.substrate in {"kernel:a", "kernel:b"} for _, cases in others for case in cases)


def test_the_plan_of_a_draw_is_read_again_with_the_same_cases(plan: Plan) -> None:
    last = list(islice(draws(plan, (), 8), 4))[-1].plan
    again = read(last.text, last.file)
    assert [case.id for case in again.cases] == [case.id for case in last.cases]
    assert len(again.spec.case) == 16
    # A continued comparison draws others.
    further = list(islice(draws(again, (), 8), 2))
    assert all(set(one.chosen) > {case.id for case in again.cases} for one in further)


def test_random_cases_are_continued_by_further_ones_that_fit_the_filters(tmp_path: Path) -> None:
    plan = read(PLAN + 'kind = "random"\ncount = 5\n', tmp_path / "p.toml")
    first, second = islice(draws(plan, ("stack.cc=reno",), 50), 2)
    known = {case.id for case in plan.cases}
    fresh = [case for case in second.plan.cases if case.id in second.chosen - known]
    assert first.new
    assert second.beyond
    assert {case.triples["stack.cc"] for case in fresh} == {"reno"}


def test_without_cases_beyond_the_space_further_seeds_run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beyond, "draws", lambda *_: iter(()))
    found = list(islice(draws(plan, (), 8), 4))
    assert [(one.new, one.plan.spec.seeds) for one in found] == [
        (8, [1]),
        (6, [1]),
        (0, [1, 2]),
        (0, [1, 2, 3]),
    ]


@pytest.mark.parametrize("text", ["0", "-5", "0s", "10", "fast", "10KB"])
def test_a_budget_is_a_time_or_a_number_of_runs(text: str) -> None:
    if text == "10":
        assert budget_of(text) == Budget(runs=10)
        return
    with pytest.raises(UserError, match=f"`--reach {text}`: give a time"):
        budget_of(text)


def test_kernels_without_counters_are_named_with_those_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: list[store.Kernel] = []
    monkeypatch.setattr(store, "kernels", lambda: known)
    both = (kernel("6.1", ""), kernel("fix", "", ("fix",)))
    assert how_to_count(both) == (
        "`6.1` and `fix` have no counters; build both with `tcpassay kernel build ... --coverage` as well (half a "
        "minute after the plain kernel), and compare those"
    )
    known += [kernel("6.1+coverage"), kernel("fix+coverage", series=("fix",))]
    assert how_to_count(both) == (
        "`6.1` and `fix` have no counters; `tcpassay kernel compare 6.1+coverage fix+coverage` counts"
    )
