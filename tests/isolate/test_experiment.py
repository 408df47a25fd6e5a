"""Whether a candidate shows the effect: seeds, repetitions, refused and failed runs, and the confidence."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpassay.errors import UserError
from tcpassay.isolate import search
from tcpassay.isolate.experiment import Experiment, Rate, Trials, miss, request_of
from tcpassay.isolate.ran import Effect, Ran
from tcpassay.isolate.runner import Budget, ExhaustedError, Job
from tcpassay.isolate.symptoms import Suspicion
from tcpassay.isolate.triples import Setting, Triple, Triples, triples_of
from tcpassay.messages import CaseRequest
from tcpassay.plan.constraint_parser import parse
from tcpassay.plan.model import Collect, PlanFile

EFFECT = Effect("late-ack", "error", "ACK later than its limit")
NOTHING: frozenset[Effect] = frozenset()
YES, NO = "shown", ""
Answers = Callable[[dict[str, Any], int], Ran]


def ran(shows: object, trace: str = "", outcome: str = "done") -> Ran:
    return Ran(outcome, "", trace, frozenset({EFFECT}) if shows else NOTHING, 0.0)


class Pretended:
    """A runner whose results are computed by a function."""

    def __init__(self, answer: Answers, jobs: int = 1, most: int | None = None) -> None:
        self.jobs = jobs
        self.answer = answer
        self.most = most
        self.made: dict[str, Ran] = {}

    def known(self, key: str) -> Ran | None:
        return self.made.get(key)

    def run(self, jobs: Sequence[Job]) -> list[Ran]:
        for job in jobs:
            if job.key not in self.made:
                if self.most is not None and len(self.made) >= self.most:
                    raise ExhaustedError
                self.made[job.key] = self.answer(dict(job.request.triples), job.request.seed)
        return [self.made[job.key] for job in jobs]


def experiment(runner: Pretended, trials: Trials, setting: Setting | None = None) -> Experiment:
    made: Any = runner
    return Experiment(
        made, setting or Setting("model", "."), trials, EFFECT, CaseRequest(substrate="model", collect={})
    )


LOSS = triples_of({"link.loss": "1%"})
SLOW = triples_of({"link.rate": "10Mbit"})
SEEDS = Trials.of(7, 3, real_time=False)


def test_the_seed_of_the_finding_comes_first_and_no_seed_twice() -> None:
    assert Trials.of(7, 3, real_time=False).seeds == (7, 1, 2)
    assert Trials.of(2, 4, real_time=False).seeds == (2, 1, 3, 4)
    assert Trials.of(2, 1, real_time=False).seeds == (2,)


def test_where_time_is_real_the_same_seed_is_repeated_under_names_of_its_own() -> None:
    trials = Trials.of(7, 2, real_time=True)
    assert trials.seeds == (7, 7)
    assert [trials.name(0), trials.name(1)] == ["7-r1", "7-r2"]


def test_a_set_that_shows_the_finding_with_the_first_seed_needs_no_other_seed() -> None:
    runner = Pretended(lambda _, seed: ran(YES, str(seed)))
    assert experiment(runner, SEEDS).first([LOSS]) == 0
    assert len(runner.made) == 1


def test_a_set_that_shows_the_finding_with_one_of_the_seeds_has_the_effect() -> None:
    runner = Pretended(lambda _, seed: ran(seed == 2, str(seed)))
    tried = experiment(runner, SEEDS)
    assert tried.first([LOSS]) == 0
    (rate,) = tried.rates([LOSS])
    assert (rate.shown, rate.runs, rate.alike) == (1, 3, False)


def test_where_two_seeds_take_the_same_steps_a_third_is_not_run_nor_a_second_of_a_subset() -> None:
    runner = Pretended(lambda said, _: ran(NO, str(sorted(said))))
    tried = experiment(runner, SEEDS)
    assert tried.first([LOSS | SLOW]) is None
    assert len(runner.made) == 2
    assert tried.first([LOSS, SLOW]) is None
    assert len(runner.made) == 4
    assert tried.rates([LOSS])[0] == Rate(0, 1, alike=True)


def test_repetitions_in_real_time_are_all_made_also_when_they_are_alike() -> None:
    runner = Pretended(lambda _, __: ran(NO, "same"))
    tried = experiment(runner, Trials.of(1, 5, real_time=True))
    assert tried.first([LOSS]) is None
    assert len(runner.made) == 5


@pytest.mark.parametrize("outcome", ["timeout", "memory", "crashed", "path", "failed"])
def test_a_run_that_does_not_end_neither_shows_nor_excludes_the_effect(
    outcome: str,
) -> None:
    tried = experiment(Pretended(lambda _, __: ran(NO, outcome=outcome)), SEEDS)
    (rate,) = tried.rates([LOSS])
    assert (rate.present, rate.absent) == (False, False)
    assert rate.problem.startswith(outcome)


def test_cases_that_the_data_plane_refuses_are_not_run() -> None:
    runner = Pretended(lambda _, __: ran(YES))
    marks = triples_of({"queue.ecn_mark": "data"})
    tried = experiment(runner, SEEDS)
    assert tried.first([marks]) is None
    assert "marking needs ECN at both ends" in tried.rates([marks])[0].problem
    assert runner.made == {}


def test_what_the_plan_excludes_is_not_run_also_where_it_excludes_a_default() -> None:
    runner = Pretended(lambda _, __: ran(YES))
    rule = parse('IF [stack.min_rto] = "10ms" THEN [stack.delayed_ack] = "off"')
    tried = experiment(runner, SEEDS, Setting("model", ".", (rule,)))
    assert tried.first([triples_of({"stack.min_rto": "10ms"})]) is None
    assert tried.first([triples_of({"stack.min_rto": "10ms", "stack.delayed_ack": "off"})]) == 0
    assert len(runner.made) == 1


def test_a_constraint_on_a_group_knows_its_level_by_what_the_level_sets() -> None:
    groups = {"marking": {"none": {}, "step": {"queue.ecn_mark": "data"}}}
    rule = parse('IF [marking] = "step" THEN [stack.ecn] = "dctcp"')
    setting = Setting("model", ".", (rule,), groups)
    assert setting.refusal(triples_of({"queue.ecn_mark": "data", "stack.ecn": "dctcp"})) == ""
    assert "the plan excludes it" in setting.refusal(
        triples_of({"queue.ecn_mark": "data", "stack.ecn": "classic"})
    )
    assert setting.refusal(triples_of({"stack.ecn": "classic"})) == ""


def test_triples_that_need_others_are_closed_and_completed() -> None:
    setting = Setting("model", ".")
    whole = triples_of(
        {"stack.cc": "dctcp", "stack.ecn": "dctcp", "queue.ecn_mark": "data", "link.loss": "1%"}
    )
    assert setting.close(whole - triples_of({"stack.ecn": "dctcp"})) == LOSS
    assert setting.complete(triples_of({"stack.cc": "dctcp"}), whole) == triples_of(
        {"stack.cc": "dctcp", "stack.ecn": "dctcp"}
    )
    assert setting.complete(triples_of({"stack.cc": "dctcp"}), LOSS) is None


def test_a_triple_is_removed_that_requires_a_parameter_which_is_not_set() -> None:
    """The refusal names the missing parameter only: a paced workload needs a rate, arrivals need flows that end."""
    setting = Setting("model", ".")
    assert setting.close(LOSS | triples_of({"app.workload": "paced", "app.duration": "1s"})) == (
        LOSS | triples_of({"app.duration": "1s"})
    )
    assert setting.close(LOSS | triples_of({"app.arrival": "poisson:100/s"})) == LOSS


def test_a_triple_at_its_default_is_none_in_whatever_units() -> None:
    setting = Setting("model", ".")
    said = triples_of({"link.rate": "1000Mbit", "link.delay": "0.05ms", "link.loss": "1%", "nic.tso": False})
    assert setting.beyond_defaults(said) == LOSS


# Six independent settings.
MANY = triples_of(
    {
        "link.loss": "1%",
        "link.delay": "5ms",
        "nic.tso": True,
        "app.flows": 3,
        "stack.cc": "cubic",
        "stack.sack": "off",
    }
)
names = st.sampled_from(sorted(one.path for one in MANY))


def smallest(answer: Answers, jobs: int = 1) -> Triples:
    tried = experiment(Pretended(answer, jobs), SEEDS)
    return frozenset(search.smallest_set(tried, MANY, Suspicion(frozenset(), {})))


@given(st.frozensets(names, max_size=4), st.integers(1, 4))
def test_a_cause_that_shows_with_one_seed_in_three_is_found_whatever_the_number_of_jobs(
    cause: frozenset[str], jobs: int
) -> None:
    def answer(said: dict[str, Any], seed: int) -> Ran:
        return ran(cause <= said.keys() and seed == SEEDS.seeds[len(said) % 3], f"{sorted(said)} {seed}")

    assert {one.path for one in smallest(answer, jobs)} == cause


@given(st.frozensets(names, min_size=1, max_size=3), names)
def test_sets_that_never_end_are_no_part_of_the_search(cause: frozenset[str], endless: str) -> None:
    """Without one of the settings a run takes too long: that setting stays, and the rest of the answer is right."""

    def answer(said: dict[str, Any], seed: int) -> Ran:
        if endless not in said:
            return ran(NO, str(seed), "timeout")
        return ran(cause <= said.keys(), f"{sorted(said)} {seed}")

    assert {one.path for one in smallest(answer)} == cause | {endless}


@given(st.integers(1, 30))
def test_a_budget_leaves_the_smallest_set_so_far_which_has_the_effect(most: int) -> None:
    cause = {"link.loss", "nic.tso"}
    tried = experiment(
        Pretended(lambda said, seed: ran(cause <= said.keys(), f"{sorted(said)} {seed}"), most=most), SEEDS
    )
    try:
        found = frozenset(search.smallest_set(tried, MANY, Suspicion(frozenset(), {})))
        assert {one.path for one in found} == cause
    except ExhaustedError:
        assert tried.smallest is not None
        assert cause <= {one.path for one in tried.smallest}


def test_a_proof_resets_each_triple_and_names_what_had_to_go_with_it() -> None:
    cause = ("queue.ecn_mark", "stack.ecn", "stack.dctcp_receiver")
    triples = [
        Triple("queue.ecn_mark", "data"), Triple("stack.ecn", "dctcp"), Triple("stack.dctcp_receiver", "rearm"),
    ]  # fmt: skip
    tried = experiment(Pretended(lambda said, _: ran(set(cause) <= said.keys(), "same")), SEEDS)
    rows = [
        (row.triple.path, row.value, [one.path for one in row.also], row.gone)
        for row in search.proof(tried, triples)
    ]
    assert rows == [
        ("queue.ecn_mark", "off", [], True),
        ("stack.ecn", "off", ["queue.ecn_mark", "stack.dctcp_receiver"], True),
        ("stack.dctcp_receiver", "profile", [], True),
    ]


@pytest.mark.parametrize(
    ("shown", "runs", "again", "most"),
    [
        (5, 5, 5, 0.0185),  # the frequency is at least 0.05^(1/5) = 0.549; 0.451^5
        (3, 3, 3, 0.2520),  # at least 0.3684; 0.6316^3
        (1, 5, 5, 0.9500),  # at least 1 - 0.95^(1/5); by definition
        (10, 10, 1, 0.2589),  # 1 - 0.05^(1/10)
    ],
)
def test_the_probability_of_a_wrong_reset_result_is_bounded_by_clopper_and_pearson(
    shown: int, runs: int, again: int, most: float
) -> None:
    assert miss(Rate(shown, runs), again) == pytest.approx(most, abs=5e-4)


def test_without_randomness_nothing_is_missed() -> None:
    assert miss(Rate(1, 1, alike=True), 1) == 0.0


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("60s", Budget(seconds=60.0)),
        ("10min", Budget(seconds=600.0)),
        ("200", Budget(runs=200)),
        ("0", Budget(runs=0)),
    ],
)
def test_a_budget_is_read(text: str, budget: Budget) -> None:
    assert Budget.of(text) == budget


def test_a_budget_in_bytes_is_refused() -> None:
    with pytest.raises(UserError, match="give a time"):
        Budget.of("10MB")


@pytest.mark.parametrize(
    ("oracle", "captured", "packets"),
    [
        ("timestamp-missing", True, True),
        ("sack-permitted", True, True),
        ("late-ack", True, False),
        ("timestamp-missing", False, False),
    ],
)
def test_reduced_runs_capture_the_packets_that_an_oracle_reads(
    oracle: str, *, captured: bool, packets: bool
) -> None:
    spec = PlanFile(name="p", collect=Collect(events=True, packets=captured))
    request = request_of(spec, "model", ".", [oracle, "delivery"])
    assert request.collect["packets"] is packets
    assert request.collect["events"] is True
