"""The strategy `guided`: a covering array, further cases that reach more, and a corpus that reaches all of it."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import searches
from tcpassay.errors import UserError
from tcpassay.plan import read
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session
from tcpassay.search.feedback import Rarity, bucket

FILE = Path("plan.toml")


def result(folder: Path, file: Path) -> dict[str, Any]:
    with Session.begin(read.read_file(file), folder, Beginning(), replace_=True) as session:
        execute(session, Local(1))
    made: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert made["status"] == "complete"
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("guided")
    (made / "plan.toml").write_text(searches.GUIDED, encoding="utf-8")
    result(made / "out", made / "plan.toml")
    return made


def of(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "out" / "result.json").read_text(encoding="utf-8"))
    return made


def names(runs: list[dict[str, Any]]) -> set[str]:
    return {name for run in runs for name in run["reached"]}


def pairs(runs: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {pair for run in runs for pair in combinations(sorted(run["reached"]), 2)}


def test_it_begins_with_the_cases_of_the_covering_array(folder: Path) -> None:
    array = searches.GUIDED.replace('kind = "guided"\ngeneration = 8\nbudget = { runs = 40 }\n', "")
    array = array.replace('{ sequence = "losses", most = 4, among = 100 }', '["bernoulli", "list:5"]')
    plan = read.read(array + 'kind = "t-way"\n', FILE)
    mine = read.read(searches.GUIDED, FILE)
    assert len(mine.cases) == len(plan.cases)
    assert [run["case"] for run in of(folder)["runs"]][: len(plan.cases)] == [case.id for case in mine.cases]


def test_it_counts_what_the_runs_reached_after_each_generation(folder: Path) -> None:
    made = of(folder)
    runs, search = made["runs"], made["search"]
    assert len(runs) == search["runs"] == 40
    for one in search["path"]:
        so_far = runs[: one["runs"]]
        assert (one["behaviours"], one["pairs"]) == (len(names(so_far)), len(pairs(so_far)))
    assert search["path"][-1]["behaviours"] > search["path"][0]["behaviours"]
    assert search["ended"] == "the budget of 40 runs is used up"


def test_values_between_the_levels_are_tried_in_later_generations_only(folder: Path) -> None:
    runs = of(folder)["runs"]
    first = of(folder)["search"]["path"][0]["runs"]
    levels = {"link.delay": {"1ms", "20ms"}, "queue.limit": {"10KB", "1MB"}}

    def between(some: list[dict[str, Any]]) -> int:
        return sum(run["varied"][name] not in known for run in some for name, known in levels.items())

    assert between(runs[:first]) == 0
    assert between(runs[first:]) >= 3


def test_the_corpus_is_a_plan_of_fewer_runs_that_reaches_the_same(folder: Path) -> None:
    made = of(folder)
    again = result(folder / "again", folder / "out" / "search" / "corpus.toml")
    assert [run["case"] for run in again["runs"]] == made["search"]["corpus"]
    assert len(again["runs"]) < 40
    assert names(again["runs"]) == names(made["runs"])
    assert pairs(again["runs"]) == pairs(made["runs"])


def test_a_budget_within_the_covering_array_is_reported(folder: Path) -> None:
    text = (folder / "plan.toml").read_text(encoding="utf-8").replace("runs = 40", "runs = 3")
    plan = read.read(text, FILE)
    assert len(plan.cases) == 3
    assert any("the budget ends within the covering array: only 3 of its " in note for note in plan.notes)


def test_a_guided_plan_without_oracles_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        read.read("oracles = false\n" + searches.GUIDED, FILE)
    assert str(caught.value) == (
        "plan.toml:1: `oracles`: `guided` needs the behaviours that runs reach, which only judged "
        "runs have; enable them"
    )


def test_a_behaviour_that_fewer_cases_reached_has_a_larger_weight() -> None:
    rarity = Rarity()
    assert rarity.add(frozenset({"a", "b"})) == {"a", "b"}
    assert rarity.add(frozenset({"a", "c"})) == {"c"}
    assert rarity.of(frozenset({"a", "b"})) == 1.5
    assert rarity.of(frozenset({"a"})) == 0.5


def test_counts_are_told_apart_by_their_order() -> None:
    assert [bucket(count) for count in (1, 2, 3, 4, 7, 8, 31, 32, 1000)] == [1, 2, 3, 4, 4, 8, 16, 32, 128]


def test_a_part_of_the_covering_array_leaves_the_budget_to_further_generations() -> None:
    whole = read.read(searches.GUIDED, FILE)
    part = read.read(searches.GUIDED.replace("generation = 8", "generation = 8\narray = 3"), FILE)
    assert [case.id for case in part.cases] == [case.id for case in whole.cases[:3]]
    assert f"only the first 3 of the {len(whole.cases)} cases of the covering array run" in part.notes
    few = searches.GUIDED.replace("runs = 40", "runs = 2").replace(
        "generation = 8", "generation = 8\narray = 3"
    )
    assert (
        f"the budget ends within the covering array: only 2 of its {len(whole.cases)} cases run"
        in read.read(few, FILE).notes
    )
