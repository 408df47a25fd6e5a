"""The smallest settings of a group of pairs whose first differences are of one kind."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_trees import tree_pair

from tcpassay.isolate.ran import Ran
from tcpassay.isolate.runner import Budget, Job
from tcpassay.messages import Answer
from tcpassay.plan.model import PlanFile
from tcpassay.trees import grouping
from tcpassay.trees.causes import Causes, Search, TreeCause
from tcpassay.trees.groups import Group, Kind, groups
from tcpassay.trees.pair_runner import PairRunner, effect_of, effects_of, kind_shown, pair_of
from tcpassay.trees.pairs import TreePair
from tcpassay.trees.smallest import smallest

EARLY, LATE, OTHER = "ACK is sent: time", "data is sent: time", "data is sent: length"
SLOW = {"stack__sack": "off", "link__loss": "1%", "app__duration": "300ms"}


def kinds(said: dict[str, object]) -> str:
    """The first difference: windows at defaults, unless losses without SACK or super-segments come before."""
    if said.get("stack.sack") == "off" and "link.loss" in said:
        return LATE
    return OTHER if "nic.tso" in said else EARLY


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the pairs that were run, of kernels with these differences."""
    made: list[str] = []

    def pairs(_: PairRunner, jobs: Sequence[Job]) -> Iterator[Ran]:
        for job in jobs:
            made.append(job.key)
            kind = Kind(kinds(dict(job.request.triples)), ("advertised windows",))
            yield Ran("done", "", job.key, effects_of(kind), 0.1)

    monkeypatch.setattr(PairRunner, "_pairs", pairs)
    return made


def where(folder: Path, budget: Budget) -> Search:
    return Search(folder, ".", ("model", "model"), PlanFile(name="x"), 1, budget, "metrics")


def grouped(*pairs: TreePair) -> list[Group]:
    return groups([(one, Kind(kinds(dict(one.head["triples"])))) for one in pairs])


def test_pairs_are_run_once_to_be_grouped_and_the_search_uses_their_results(
    tmp_path: Path, runs: list[str]
) -> None:
    pairs = [
        tree_pair(**SLOW, app__flows="4", link__delay="3ms"),
        tree_pair(nic__tso="true", stack__cc="reno"),
        tree_pair(stack__cc="reno", app__flows="2"),
        tree_pair(stack__cc="cubic", app__flows="4"),
    ]
    for number, pair in enumerate(pairs):
        pair.head["case"] = str(number)
    known = Causes()
    made = grouping.grouped(where(tmp_path, Budget()), known, pairs, [], lambda _: None)
    assert {one.kind: [pair.head["case"] for pair in one.pairs] for one in made} == {
        EARLY: ["2", "3"],
        LATE: ["0"],
        OTHER: ["1"],
    }
    assert {one.quiet for one in made} == {("advertised windows",)}
    assert len(runs) == 4
    # A second call, after an interruption, runs none of them again.
    assert grouping.grouped(where(tmp_path, Budget()), known, pairs, [], lambda _: None) == made
    assert len(runs) == 4
    smallest(where(tmp_path, Budget()), made, [], lambda _: None)
    assert len(runs) > 4
    assert len(set(runs)) == len(runs)


def test_a_pair_of_which_no_run_ended_is_a_group_of_its_own_kind() -> None:
    assert kind_shown(Ran("crashed", "panic", "", frozenset(), 0.1)) == Kind("no run ended: crashed")
    assert kind_shown(Ran("done", "", "", frozenset(), 0.1)) is None


def settings(cause: TreeCause | None) -> dict[str, object] | None:
    return None if cause is None else {one.path: one.value for one in cause.triples}


def test_each_group_has_the_settings_that_its_first_difference_needs(tmp_path: Path, runs: list[str]) -> None:
    pairs = (
        tree_pair(**SLOW, app__flows="4", link__delay="3ms"),
        tree_pair(**SLOW, link__delay="7ms", stack__cc="reno", app__flows="2"),
        tree_pair(nic__tso="true", stack__cc="reno"),
        tree_pair(stack__cc="reno", app__flows="2"),
    )
    made = smallest(where(tmp_path, Budget()), grouped(*pairs), [], lambda _: None)
    assert {one.kind: settings(one.smallest) for one in made} == {
        LATE: {"stack.sack": "off", "link.loss": "1%"},
        OTHER: {"nic.tso": "true"},
        EARLY: {},
    }
    late = next(one.smallest for one in made if one.kind == LATE)
    assert late is not None
    assert late.complete
    assert {(row.triple.path, row.value, row.gone) for row in late.proof} == {
        ("stack.sack", "profile", True),
        ("link.loss", "0", True),
    }
    # Stored pairs are not run again.
    count = len(runs)
    assert smallest(where(tmp_path, Budget()), grouped(*pairs), [], lambda _: None) == made
    assert len(runs) == count


def test_the_budget_holds_for_each_group_and_then_the_smallest_settings_so_far_are_shown(
    tmp_path: Path, runs: list[str]
) -> None:
    more = {"app__flows": "4", "link__delay": "3ms", "stack__cc": "reno", "stack__tlp": "off"}
    found = grouped(tree_pair(**SLOW, **more), tree_pair(nic__tso="true", **more))
    # Two runs for each of three pairs, which suffice where a setting is that of one group alone.
    made = smallest(where(tmp_path, Budget(runs=6)), found, [], lambda _: None)
    assert len(runs) == 6
    by_kind = {one.kind: one.smallest for one in made}
    assert settings(by_kind[OTHER]) == {"nic.tso": "true"}
    late = by_kind[LATE]
    assert late is not None
    assert not late.complete
    assert dict(settings(late) or {}).items() >= {("stack.sack", "off"), ("link.loss", "1%")}


@pytest.mark.usefixtures("runs")
def test_a_pair_with_another_first_difference_this_time_has_no_smallest_settings(tmp_path: Path) -> None:
    (group,) = groups([(tree_pair(**SLOW), Kind("unknown"))])
    (made,) = smallest(where(tmp_path, Budget()), [group], [], lambda _: None)
    assert made.smallest is None
    assert smallest(where(tmp_path, Budget(runs=0)), [group], [], lambda _: None) == [group]


def test_pairs_are_run_with_event_logs_and_equal_ones_have_no_difference(tmp_path: Path) -> None:
    # The model takes the place of both kernels.
    group = groups([(tree_pair(app__duration="20ms"), Kind(LATE))])
    (made,) = smallest(where(tmp_path, Budget()), group, [], lambda _: None)
    assert made.smallest is None
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == ["kinds.sqlite"]
    with sqlite3.connect(tmp_path / "differences/kinds.sqlite") as stored:
        ((ran,),) = stored.execute("SELECT answer FROM runs")
    # A pair whose event logs cannot be read has an effect, too.
    assert (Ran.from_text(ran).outcome, Ran.from_text(ran).effects) == ("done", frozenset())


def test_a_pair_of_which_one_run_ended_differs_in_its_outcomes_and_one_without_shows_nothing() -> None:
    done, crashed = Answer("done", trace="a", cpu_s=1.0), Answer("crashed", message="panic", cpu_s=2.0)
    places = Path("base"), Path("head")
    one = pair_of(places, (done, crashed))
    assert one.effects == {effect_of("done on base, crashed on head")}
    assert (one.outcome, one.cpu_s) == ("done", 3.0)
    neither = pair_of(places, (crashed, replace(crashed)))
    assert (neither.outcome, neither.effects, neither.message) == ("crashed", frozenset(), "panic")
