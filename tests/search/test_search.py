"""The strategy `search`: results, cost and refused plans."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

import folders
import searches
from tcpassay.errors import UserError
from tcpassay.plan import read
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session

FILE = Path("plan.toml")


def begin(folder: Path, text: str) -> Session:
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    plan = read.read_file(folder / "plan.toml")
    return Session.begin(plan, folder / "out", Beginning(), replace_=True)


def result(folder: Path, text: str) -> dict[str, Any]:
    """`result.json` of a plan."""
    with begin(folder, text) as session:
        return finished(session)


def finished(session: Session) -> dict[str, Any]:
    execute(session, Local(1))
    made: dict[str, Any] = folders.result(session.folder.path)
    assert made["status"] == "complete"
    return made


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        read.read(text, FILE)
    return str(caught.value)


def test_the_best_case_is_the_worst_of_all_runs_and_the_path_leads_to_it(tmp_path: Path) -> None:
    made = result(tmp_path, searches.LOSSES)
    values = [one["metrics"]["goodput"] for one in made["runs"]]
    assert len(values) == 60
    search = made["search"]
    assert search["best"][0]["value"] == min(values)
    assert [one["value"] for one in search["best"]] == sorted(set(values))[:3]
    alone = read.read_file(tmp_path / "out" / "search" / f"best-1-{search['best'][0]['case']}.toml")
    assert [case.id for case in alone.cases] == [search["best"][0]["case"]]
    assert search["ended"] == "the budget of 60 runs is used up"
    path = [one["value"] for one in search["path"]]
    assert path == sorted(path, reverse=True)
    assert path[-1] == min(values)
    for one in search["path"]:
        assert min(values[: one["runs"]]) == one["value"]
    # The search makes progress: the last generations have worse values than the first one.
    assert statistics.median(values[-20:]) < statistics.median(values[:20]) * 0.8


def test_another_end_of_the_metric_is_searched_where_the_plan_says_so(tmp_path: Path) -> None:
    text = searches.LOSSES.replace('metric = "goodput"', 'metric = "goodput"\nworst = "greatest"')
    made = result(tmp_path, text)
    assert made["search"]["best"][0]["value"] == max(one["metrics"]["goodput"] for one in made["runs"])


def test_random_search_begins_with_the_same_generation_and_does_not_learn(tmp_path: Path) -> None:
    evolved = result(tmp_path, searches.LOSSES)
    drawn = result(tmp_path, searches.LOSSES + 'method = "random"\n')
    cases = [[one["case"] for one in made["runs"]] for made in (evolved, drawn)]
    assert cases[0][:8] == cases[1][:8]
    assert set(cases[0][8:16]) != set(cases[1][8:16])
    assert len(set(cases[1])) == 60


def test_a_larger_budget_goes_on_and_begins_with_the_cases_of_the_smaller_one(tmp_path: Path) -> None:
    fewer = result(tmp_path, searches.LOSSES.replace("runs = 60", "runs = 27"))
    assert len(fewer["runs"]) == 27
    plan = read.read(searches.LOSSES, tmp_path / "plan.toml")
    with Session.extend(plan, tmp_path / "out", Beginning(), force=False) as session:
        cases = [one["case"] for one in finished(session)["runs"]]
    assert cases[:27] == [one["case"] for one in fewer["runs"]]
    assert len(cases) == 60


def test_a_search_that_goes_on_with_another_space_is_refused(tmp_path: Path) -> None:
    result(tmp_path, searches.LOSSES.replace("runs = 60", "runs = 8"))
    other = searches.LOSSES.replace('"200KB"', '"300KB"')
    plan = read.read(other, tmp_path / "plan.toml")
    with pytest.raises(UserError, match="`axes` differs from the plan with which the search began"):
        Session.extend(plan, tmp_path / "out", Beginning(), force=True)


def test_a_search_for_a_finding_ends_with_the_first(tmp_path: Path) -> None:
    text = searches.LOSSES.replace("oracles = false\n", "").replace(
        'metric = "goodput"', 'finding = "needless-fast-retransmit"'
    )
    text = text.replace(
        "[axes]",
        """[axes]
"stack.profile" = ["rfc", "linux", "freebsd"]
"link.reorder" = ["off", "reverse-burst:3", "reverse-burst:5"]
"app.flow_size" = ["1KB", "2KB", "4KB", "endless"]""",
    )
    made = result(tmp_path, text)
    search = made["search"]
    assert search["ended"] == "the finding is found"
    assert search["best"][0]["found_with_seed"] == 1
    found = [
        one["case"]
        for one in made["runs"]
        if any(f["oracle"] == "needless-fast-retransmit" for f in findings(tmp_path, one["case"]))
    ]
    assert found[0] == search["path"][0]["case"]
    # Its generation ends, and no other one begins.
    assert {one["case"] for one in made["runs"][-8:]} >= set(found)
    assert len(made["runs"]) < 60


def findings(folder: Path, case: str) -> list[dict[str, Any]]:
    text = (folder / "out" / "findings.json").read_text(encoding="utf-8")
    return [one for one in json.loads(text)["findings"] if one["case"] == case]


def test_constraints_hold_in_every_case_and_what_the_data_plane_refuses_is_left_out(tmp_path: Path) -> None:
    text = searches.LOSSES.replace(
        "[fixed]", 'constraints = [\'IF [stack.cc] = "reno" THEN [queue.limit] > "50KB"\']\n[fixed]'
    ).replace('["reno", "cubic"]', '["reno", "cubic", "dctcp"]')
    made = result(tmp_path, text)
    assert {one["outcome"] for one in made["runs"]} == {"done"}
    assert {one["triples"]["stack.cc"] for one in made["runs"]} == {"reno", "cubic"}
    notes = read.read(text, FILE).notes
    assert any("the data plane refuses" in note and "dctcp needs stack.ecn = dctcp" in note for note in notes)


def test_the_budget_counts_the_runs_of_every_seed(tmp_path: Path) -> None:
    text = searches.LOSSES.replace("oracles = false", "oracles = false\nseeds = [1, 2, 3]")
    made = result(tmp_path, text.replace("runs = 60", "runs = 32"))
    assert len(made["runs"]) == 30
    first = [one for one in made["runs"] if one["case"] == made["search"]["best"][0]["case"]]
    mean = sum(one["metrics"]["goodput"] for one in first) / 3
    assert made["search"]["best"][0]["value"] == pytest.approx(mean)


def test_a_metric_that_no_run_has_is_reported_after_the_first_generation(tmp_path: Path) -> None:
    message = "`strategy.metric` = `completion_p99`: none of the 8 runs of the first generation has it"
    text = searches.LOSSES.replace('"goodput"', '"completion_p99"')
    with begin(tmp_path, text) as session, pytest.raises(UserError, match=message):
        execute(session, Local(1))


# Each row: the replaced text, its replacement, and the message.
BAD = {
    "no budget": (
        "budget = { runs = 60 }",
        "",
        "plan.toml:15: `strategy.budget` is missing; it is needed: Limits of the cost of the search",
    ),
    "an empty budget": (
        "{ runs = 60 }",
        "{}",
        "plan.toml:19: `strategy.budget` is empty; allowed is a number of `runs`",
    ),
    "a budget of 0": (
        "runs = 60",
        "runs = 0",
        "plan.toml:19: `strategy.budget.runs` = `0`: allowed is a whole number from 1 to 1000000",
    ),
    "no CPU time": (
        "runs = 60",
        'cpu_time = "0s"',
        "plan.toml:19: `strategy.budget.cpu_time` = `0s`: allowed is a length of time above 0",
    ),
    "a word for a budget": (
        "{ runs = 60 }",
        '"60"',
        "plan.toml:19: `strategy.budget` = `60`: allowed is a table, as in `{ runs = 500 }`",
    ),
    "a metric that there is not": (
        '"goodput"',
        '"goodputt"',
        "plan.toml:17: `strategy.metric` = `goodputt`: no such metric; did you mean `goodput`?",
    ),
    "a metric without a worse end": (
        '"goodput"',
        '"acks_per_segment"',
        "plan.toml:17: `strategy.metric` = `acks_per_segment`: the metric has no preferred direction",
    ),
    "an end that there is not": (
        '"goodput"',
        '"goodput"\nworst = "best"',
        "plan.toml:18: `strategy.worst` = `best`: allowed is one of least, greatest",
    ),
    "a metric that is not recorded": (
        '"goodput"',
        '"throughput_cv_1us"',
        ("plan.toml:17: `strategy.metric` = `throughput_cv_1us` requires the log of deliveries: "
         "`deliveries = true` in [collect]"),
    ),
    "neither metric nor finding": (
        'metric = "goodput"',
        "",
        "`strategy.metric` or `strategy.finding` is needed",
    ),
    "an oracle that there is not": (
        'metric = "goodput"',
        'finding = "late-akc"',
        "plan.toml:17: `strategy.finding` = `late-akc`: no such oracle; allowed are any, ",
    ),
    "an oracle that does not judge": (
        'metric = "goodput"',
        'finding = "late-ack"',
        "plan.toml:17: `strategy.finding` = `late-ack`: `oracles` excludes this oracle",
    ),
    "losses of another parameter": (
        '"link.loss_model" =',
        '"link.reorder" =',
        ("plan.toml:11: `axes.link.reorder.sequence` = `losses`: these are values of "
         "`link.loss_model`, not of `link.reorder`"),
    ),
    "a sequence that there is not": (
        '"losses", most = 6',
        '"loses", most = 6',
        "plan.toml:11: `axes.link.loss_model.sequence` = `loses`: allowed are losses, rates; did you mean `losses`?",
    ),
    "more losses than packets": (
        "most = 6, among = 500",
        "most = 6, among = 5",
        "plan.toml:11: `axes.link.loss_model.most` = `6` packets cannot be lost among `among` = `5`",
    ),
    "losses in a plan that does not search": (
        'kind = "search"\nmetric = "goodput"\npopulation = 8\nbudget = { runs = 60 }',
        'kind = "full"',
        ("plan.toml:11: `axes.link.loss_model.sequence` = `losses`: only the strategy `search` "
         "has sequences, and this is `full`"),
    ),
    "ends that are of different kinds": (
        '"200KB"',
        '"200ms"',
        "plan.toml:12: `axes.queue.limit.to` = `200ms` is a length of time, and `from` is a number of bytes",
    ),
    "a search among scripts": (
        "[strategy]",
        '[[scripts]]\nfiles = ["x.pkt"]\n[strategy]',
        "`scripts`: `search` cannot change a script",
    ),
    "a figure of cases that are not known": (
        "[strategy]",
        '[[figure]]\nkind = "sequence"\nfile = "x"\n[strategy]',
        "`figure`: the cases of `search` are not known before it runs",
    ),
    "values that must be refused": (
        "[strategy]",
        '[negative]\n"link.loss" = [2]\n[strategy]',
        "`negative`: a search has no cases that must be refused",
    ),
    "a budget below the runs of a case": (
        "oracles = false",
        "oracles = false\nrepetitions = 100",
        "`strategy.budget.runs` = `60`: less than the 100 runs of a case",
    ),
    "constraints that nothing meets": (
        "[fixed]",
        "constraints = ['[queue.limit] > \"1GB\"']\n[fixed]",
        "none of 1000 random combinations is a valid case: 1000 violate `constraints`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_one_message(name: str) -> None:
    old, new, message = BAD[name]
    assert old in searches.LOSSES
    said = refused(searches.LOSSES.replace(old, new))
    assert message in said
    # A plan that does not search cannot have any of its axes.
    assert len(said.splitlines()) == (2 if "and this is `full`" in message else 1)


def test_a_plan_without_free_parameters_is_refused() -> None:
    start, end = searches.LOSSES.index("[axes]"), searches.LOSSES.index("[strategy]")
    said = refused(searches.LOSSES[:start] + searches.LOSSES[end:])
    assert "the plan has no free parameters; it needs an axis with several values" in said
    one = searches.LOSSES[:start] + '[axes]\n"stack.cc" = ["reno"]\n' + searches.LOSSES[end:]
    assert refused(one) == said.replace("plan.toml:10", "plan.toml:12")


def test_a_range_without_steps_is_for_searches_only() -> None:
    text = 'name = "x"\n[axes]\n"link.delay" = { from = "1ms", to = "10ms" }\n'
    assert refused(text).startswith(
        "plan.toml:3: `axes.link.delay.steps` is missing; it is needed: how many values"
    )
