"""`tcpassay ask`: a question is answered with as many seeds as it needs, at the confidence of all looks together."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from folders import folder, run
from tcpassay import asking, conditions, levels
from tcpassay.asking import Ending, Question
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.plan import read
from tcpassay.plan.read import Plan
from tcpassay.results import Results, load

PLAN = """
name = "made"
metrics = ["goodput"]
[fixed]
"app.duration" = "20ms"
[axes]
"stack.cc" = ["reno", "cubic", "bbr"]
"""
WISH = Question((), "", 0.95, 0.01, 2000, 600.0)


def plan_of(tmp_path: Path, text: str = PLAN) -> Plan:
    file = tmp_path / "plan.toml"
    file.write_text(text, encoding="utf-8")
    return read.read_file(file)


class Made:
    """Results whose values a function of controller and seed makes."""

    def __init__(self, tmp_path: Path, value: object) -> None:
        self.tmp_path = tmp_path
        self.value = value
        self.batches: list[int] = []

    def run(self, seeds: int, stopped: Mapping[str, int]) -> Results:
        self.batches.append(seeds)
        self.stopped = dict(stopped)
        runs = [
            run(f"{cc}0000000", seed, {"goodput": self.value(cc, seed)}, stack__cc=cc)  # type: ignore[operator]
            for cc in ("reno", "cubic", "bbr")
            for seed in range(1, stopped.get(f"{cc}0000000", seeds) + 1)
        ]
        return load(folder(self.tmp_path / f"batch{len(self.batches)}", runs))


def asked(tmp_path: Path, value: object, wish: Question = WISH) -> tuple[asking.Answered, Made]:
    plan = plan_of(tmp_path)
    made = Made(tmp_path, value)
    question = asking.understood(plan, [], None, wish)
    return asking.answered(plan, question, made.run, lambda: 0.0), made


def test_looks_spend_no_more_than_the_whole_error() -> None:
    question = Question(("stack.cc",), "goodput", 0.95, 0.01, 1, 1)
    assert asking.share(question, 1) == pytest.approx(0.025)
    assert math.fsum(asking.share(question, look) for look in range(1, 10_000)) < 0.05


def test_a_clear_difference_is_decided_at_the_first_look(tmp_path: Path) -> None:
    rates = {"reno": 100, "cubic": 200, "bbr": 150}
    answer, made = asked(tmp_path, lambda cc, seed: rates[cc] + seed / 10)
    # Three pairs at 0.025: 2 / 2^n <= 0.00833 for n = 8.
    assert made.batches == [2, 8]
    assert (answer.ending, answer.seeds, answer.runs, answer.looks) == (Ending.DECIDED, 8, 24, 1)
    assert answer.text.startswith("goodput is best with cubic: 200.4 bit/s (median of the seeds).")
    assert "With a confidence of 95 % for all statements together, it is better than bbr" in answer.text


def test_a_difference_that_does_not_matter_ends_the_runs(tmp_path: Path) -> None:
    rates = {"reno": 100, "cubic": 200, "bbr": 200.2}
    answer, _ = asked(tmp_path, lambda cc, seed: rates[cc] + seed / 10)
    assert answer.ending is Ending.ALIKE
    assert "It differs by less than 1 % from cubic." in answer.text


def test_noise_is_not_decided_and_the_budget_ends_the_runs(tmp_path: Path) -> None:
    def noise(cc: str, seed: int) -> float:
        return 100 + ((seed * 7919 + len(cc) * 104729) % 1000) / 10

    answer, made = asked(tmp_path, noise, Question((), "", 0.95, 0.01, 100, 600.0))
    assert answer.ending is Ending.BUDGET
    assert made.batches[:3] == [2, 8, 12]
    assert made.batches[-1] * 3 <= 100
    assert "It is not decided whether it is better than" in answer.text
    assert answer.text.endswith("; the next look needs 123 runs, more than --budget 100.")


def test_a_lost_candidate_runs_no_further_and_the_correction_still_covers_it(tmp_path: Path) -> None:
    def value(cc: str, seed: int) -> float:
        # Against bbr, cubic wins by one seed in four more; reno loses always.
        return {"reno": 100, "bbr": 200, "cubic": 212 if seed % 4 else 196}[cc] + seed / 100

    answer, made = asked(tmp_path, value, Question((), "", 0.95, 0.01, 2000, 600.0))
    assert made.batches[:2] == [2, 8]
    assert len(made.batches) > 2
    assert made.stopped == {"reno0000000": 8}
    (reno, bbr) = answer.dropped
    assert (reno.value, reno.better, reno.seeds, reno.look) == ("reno", "cubic", 8, 1)
    assert (bbr.value, bbr.better, bbr.look) == ("bbr", "cubic", answer.looks)
    assert answer.ending is Ending.DECIDED
    assert answer.runs == 2 * answer.seeds + 8
    # Three pairs of values at each look.
    assert answer.rankings.tests == 3
    assert "reno was dropped after 8 seeds: cubic is better (" in answer.text


def test_the_budget_counts_the_runs_that_lost_candidates_do_not_make(tmp_path: Path) -> None:
    def value(cc: str, seed: int) -> float:
        return 1.0 if cc == "reno" else 100 + seed * {"cubic": 7919, "bbr": 6607}[cc] % 1000 / 10

    # 8 seeds of three, then 12 of two: 32 runs; with 12 of three it would be 36.
    answer, made = asked(tmp_path, value, Question((), "", 0.95, 0.01, 32, 600.0))
    assert made.batches == [2, 8, 12]
    assert (answer.ending, answer.runs) == (Ending.BUDGET, 32)


def test_equal_runs_of_all_seeds_are_facts_without_a_test(tmp_path: Path) -> None:
    class Same(Made):
        def run(self, seeds: int, stopped: Mapping[str, int]) -> Results:
            results = super().run(seeds, stopped)
            for one in results.runs:
                one["trace"] = str(one["case"])
            return results

    plan = plan_of(tmp_path)
    made = Same(tmp_path, lambda cc, _: {"reno": 100.0, "cubic": 200.0, "bbr": 150.0}[cc])
    answer = asking.answered(plan, asking.understood(plan, [], None, WISH), made.run)
    assert made.batches == [2]
    assert answer.ending is Ending.DETERMINISTIC
    assert "All seeds give the same runs, so that the differences are facts" in answer.text


@pytest.mark.parametrize(
    ("text", "choose", "metric", "message"),
    [
        (PLAN, ["link.rate"], None, "`--choose link.rate`: the plan varies `stack.cc`"),
        (PLAN, [], "goodputt", "`--metric goodputt`: no such metric; did you mean `goodput`?"),
        (PLAN, [], "oscillation_period", "neither large nor small values of it are better"),
        (PLAN, [], "completion_p99", "`completion_p99` is never measured: the flows of all cases are endless"),
        (PLAN.replace('metrics = ["goodput"]', ""), [], None, "name the metric with --metric"),
        (PLAN.replace("[axes]", '[axes]\n"queue.limit" = [1, 2]\n').replace("[1, 2]", '["1MB", "2MB"]').replace(
            '"stack.cc" = ["reno", "cubic", "bbr"]', '"link.delay" = ["1ms", "2ms"]'), [], None,
         "say with --choose what to choose: the plan varies `queue.limit`, `link.delay`"),
        (PLAN, [], "round_p99", "`round_p99` is never measured: no case has rounds; set `app.workload` to `incast`"),
        (PLAN.replace('"stack.cc" = ["reno", "cubic", "bbr"]', '"queue.ecn_threshold" = ["20KB", "40KB"]'), [], None,
         "`--choose queue.ecn_threshold`: no value is better than another: `queue.ecn_threshold` has no effect in any"),
    ],
)  # fmt: skip
def test_a_wish_that_contradicts_the_plan_is_named_before_anything_runs(
    text: str, choose: list[str], metric: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refused:
        asking.understood(plan_of(tmp_path, text), choose, metric, WISH)
    assert message in str(refused.value)


def test_a_budget_with_which_nothing_can_be_decided_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        asking.understood(plan_of(tmp_path), [], None, Question((), "", 0.95, 0.01, 20, 600.0))
    assert "`--budget 20`: 3 candidates at 95 % need 8 seeds before anything can be decided" in str(
        refused.value
    )


def test_a_time_in_which_nothing_can_be_decided_is_named_before_anything_runs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, PLAN.replace("20ms", "2s").replace(', "bbr"', ""))
    plan = replace(plan, spec=plan.spec.model_copy(update={"substrates": ["host"]}))
    # Two values: one pair at 0.025 takes 7 seeds, of two runs of 2 s each.
    with pytest.raises(UserError) as refused:
        asking.understood(plan, [], None, Question((), "", 0.95, 0.01, 2000, 27.0))
    assert (
        "`--time 27`: nothing can be decided before 7 seeds of each case, which take 28 s in real time"
        in str(refused.value)
    )
    asking.understood(plan, [], None, Question((), "", 0.95, 0.01, 2000, 28.0))


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_writes_the_plan_answers_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(
        """name = "limits"
metrics = ["rtt_p99"]
oracles = false
[fixed]
"link.rate" = "10Mbit"
"link.delay" = "2ms"
"link.jitter" = "200us"
"app.duration" = "300ms"
[axes]
"queue.limit" = ["10KB", "100KB"]
""",
        encoding="utf-8",
    )
    done = invoke("ask", "plan.toml", "--json", "--jobs", 1)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["ending"] == "decided"
    assert said["best"] == ["10KB"]
    assert (said["seeds"], said["runs"], said["looks"]) == (7, 14, 1)
    assert (
        (tmp_path / "plan-ask.toml").read_text(encoding="utf-8").endswith("seeds = [1, 2, 3, 4, 5, 6, 7]\n")
    )
    for suffix in ("svg", "pdf", "png"):
        assert (tmp_path / "results" / "limits-ask" / "figures" / f"answer.{suffix}").is_file()


def test_a_file_in_the_place_of_the_written_plan_is_not_replaced(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert asking.plan_text(plan, 2).startswith("# Written by `tcpassay ask plan.toml`: ")
    (tmp_path / "plan-ask.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="it was not written by `tcpassay ask`; rename it"):
        asking.plan_file(plan)


class Rated(Made):
    """Results with a rate that `value` makes, and a saturation that `used` makes, of controller and seed."""

    used: dict[str, object]

    def run(self, seeds: int, stopped: Mapping[str, int]) -> Results:
        self.batches.append(seeds)
        runs = [
            run(
                f"{cc}0000000",
                seed,
                {"goodput": self.value(cc, seed), "saturation": self.used[cc](seed)},  # type: ignore[operator]
                stack__cc=cc,
            )
            for cc in ("reno", "cubic", "bbr")
            for seed in range(1, stopped.get(f"{cc}0000000", seeds) + 1)
        ]
        return load(folder(self.tmp_path / f"batch{len(self.batches)}", runs))


def required(tmp_path: Path, condition: str, used: dict[str, object], budget: int = 2000) -> asking.Answered:
    plan = plan_of(tmp_path)
    made = Rated(tmp_path, lambda cc, seed: {"reno": 100, "cubic": 200, "bbr": 150}[cc] + seed / 10)
    made.used = used
    wish = replace(WISH, conditions=conditions.parsed([condition], plan), budget=budget)
    return asking.answered(plan, asking.understood(plan, [], None, wish), made.run, lambda: 0.0)


def constant(value: float) -> object:
    return lambda seed: value + seed / 10_000


def test_the_best_value_that_breaks_a_condition_is_not_the_answer(tmp_path: Path) -> None:
    used = {"reno": constant(0.95), "cubic": constant(0.5), "bbr": constant(0.93)}
    answer = required(tmp_path, "saturation >= 90%", used)
    # Three pairs and three conditions at 0.025: 2 / 2^n <= 0.00417 for n = 9.
    assert (answer.ending, answer.seeds, answer.looks) == (Ending.DECIDED, 9, 1)
    assert next(iter(answer.ranking.medians)) == "bbr"
    assert "goodput is best with bbr" in answer.text
    assert "It meets saturation >= 0.9" in answer.text
    assert "cubic was dropped after 9 seeds: it breaks saturation >= 0.9" in answer.text
    assert [(one.value, one.better) for one in answer.dropped] == [("cubic", ""), ("reno", "bbr")]
    assert answer.dropped[0].text == (
        "cubic was dropped after 9 seeds: it breaks saturation >= 0.9 (median 0.5005)"
    )


def test_if_no_value_meets_a_condition_the_answer_says_so(tmp_path: Path) -> None:
    answer = required(tmp_path, "saturation >= 90%", dict.fromkeys(("reno", "cubic", "bbr"), constant(0.5)))
    assert answer.ending is Ending.NONE
    assert answer.text.startswith("No value meets saturation >= 0.9. reno was dropped after 9 seeds")


def test_one_value_that_meets_a_condition_is_the_answer(tmp_path: Path) -> None:
    used = {"reno": constant(0.95), "cubic": constant(0.5), "bbr": constant(0.5)}
    answer = required(tmp_path, "saturation >= 90%", used)
    assert (answer.ending, list(answer.ranking.medians)) == (Ending.DECIDED, ["reno"])


def test_a_condition_that_is_not_decided_keeps_the_runs_going_and_excludes_no_other_value(
    tmp_path: Path,
) -> None:
    def around(seed: int) -> float:
        return 0.9 + (0.01 if seed % 2 else -0.01) * (1 + seed / 100)

    used = {"reno": constant(0.95), "cubic": around, "bbr": constant(0.93)}
    answer = required(tmp_path, "saturation >= 90%", used, budget=60)
    assert answer.ending is Ending.BUDGET
    assert "It is not decided whether it meets saturation >= 0.9" in answer.text
    # Cubic is better than bbr, but may break the condition.
    assert [(one.value, one.better) for one in answer.dropped] == [("reno", "bbr")]


@pytest.mark.parametrize(
    ("wished", "message"),
    [
        (["saturation"], "`--require saturation`: write a metric, >= or <=, and a value"),
        (["saturatio >= 90%"], "no such metric; did you mean `saturation`?"),
        (["goodput >= 3ms"], "`--require goodput >= 3ms`: `goodput` is a rate, unit bit/s"),
        (["saturation >= 120%"], "saturation >= 1.2 is out of reach: saturation is 1 at most"),
        (["rtt_p99 <= -1ms"], "out of reach: no metric is below 0"),
        (
            ["goodput >= 2Gbit"],
            "goodput >= 2 Gbit/s is out of reach: the link of no case carries more than 1 Gbit/s",
        ),
        (
            ["goodput >= 9Mbit", "goodput <= 8Mbit"],
            "goodput >= 9 Mbit/s and goodput <= 8 Mbit/s exclude each other",
        ),
    ],
)
def test_a_condition_that_nothing_can_meet_is_named_before_anything_runs(
    tmp_path: Path, wished: list[str], message: str
) -> None:
    with pytest.raises(UserError) as refused:
        conditions.parsed(wished, plan_of(tmp_path))
    assert message in str(refused.value)


def test_a_condition_of_a_metric_that_is_never_measured_is_named_before_anything_runs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    wish = replace(WISH, conditions=conditions.parsed(["completion_p99 <= 1ms"], plan))
    with pytest.raises(UserError, match="`completion_p99` is never measured"):
        asking.understood(plan, [], None, wish)


def test_a_condition_needs_a_value_in_every_environment(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    wished = conditions.parsed(["saturation >= 60%"], plan)
    runs = [
        levels.Measured("a", 1, {"path": "constant"}, {"saturation": 0.9}),
        levels.Measured("b", 1, {"path": "varying"}, {"saturation": None}),
    ]
    with pytest.raises(UserError, match="`saturation` has no value where path = varying"):
        conditions.held(runs, {"a": "reno", "b": "reno"}, ["reno"], wished, 0.05, facts=False)


def test_a_rate_that_varies_has_a_saturation_too(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    varying = replace(plan, cases=[replace(plan.cases[0], triples={"link.rate": "steps:1,10Mbit;2,20Mbit"})])
    assert conditions.parsed(["saturation >= 60%"], varying) == (
        conditions.Condition(metric="saturation", at_least=True, limit=0.6),
    )
