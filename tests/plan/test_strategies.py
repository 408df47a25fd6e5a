"""Strategies, constraints and negative values of plan files: which cases a plan has, or why it has none."""

import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.plan import coverage, read

FILE = Path("plan.toml")

SWEEP = """\
name = "sweep"
constraints = [
    'IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp"',
    '[link.jitter] <= [link.delay]',
]

[fixed]
"app.duration" = "1s"

[axes]
"stack.cc" = ["reno", "cubic", "dctcp", "vegas"]
"stack.ecn" = ["off", "classic", "dctcp"]
"stack.delayed_ack" = ["off", "2,40ms", "2,200ms"]
"link.delay" = ["1ms", "100us", "10ms"]
"link.jitter" = ["0s", "1ms"]
"link.loss" = ["0", "1%"]
"queue.limit" = ["auto", "30KB", "1MB"]
"app.flows" = [1, 4]

[groups.offload]
none = {}
send = { "nic.tso" = true }
both = { "nic.tso" = true, "nic.gro" = true }

[strategy]
kind = "t-way"
strength = 2
"""


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        read.read(text, FILE)
    return str(caught.value)


def with_strategy(said: str) -> str:
    return SWEEP.replace('kind = "t-way"\nstrength = 2\n', said)


def test_a_t_way_plan_covers_what_it_says_and_no_case_is_against_its_constraints() -> None:
    plan = read.read(SWEEP, FILE)
    report = coverage.coverage(plan)
    assert report.complete
    assert report.forbidden == ()
    assert [(line.strength, line.parameters) for line in report.lines] == [(2, 9)]
    assert 12 <= len(plan.cases) <= 20
    for case in plan.cases:
        assert case.triples.get("stack.cc") != "dctcp" or case.triples["stack.ecn"] == "dctcp"
        assert (case.triples["link.jitter"], case.triples["link.delay"]) != ("1ms", "100us")


def test_cases_already_run_stay_with_their_names_when_strength_grows_from_2_to_3_to_4() -> None:
    two, three, four = (read.read(SWEEP.replace("strength = 2", f"strength = {t}"), FILE) for t in (2, 3, 4))
    assert len(two.cases) < len(three.cases) < len(four.cases)
    assert three.cases[: len(two.cases)] == two.cases
    assert four.cases[: len(three.cases)] == three.cases
    assert all(coverage.coverage(plan).complete for plan in (two, three, four))
    stronger = read.read(SWEEP, FILE, strength=4)
    assert stronger.cases == four.cases
    assert read.read(stronger.text, FILE).cases == four.cases


def test_cases_stay_when_a_family_is_added_or_made_stronger_and_then_the_rest() -> None:
    family = (
        '[[strategy.family]]\nof = ["stack.cc", "stack.ecn", "stack.delayed_ack", "offload"]\nstrength = {}\n'
    )
    texts = [SWEEP, SWEEP + family.format(3), SWEEP + family.format(4)]
    texts.append(texts[-1].replace("strength = 2", "strength = 3"))
    cases = [read.read(text, FILE).cases for text in texts]
    for fewer, more in itertools.pairwise(cases):
        assert more[: len(fewer)] == fewer
        assert len(more) > len(fewer)


def test_a_family_of_controller_ecn_ack_and_offload_has_all_its_combinations() -> None:
    family = (
        '[[strategy.family]]\nof = ["stack.cc", "stack.ecn", "stack.delayed_ack", "offload"]\nstrength = 4\n'
    )
    plan = read.read(SWEEP + family, FILE)
    lines = {line.name: line for line in coverage.coverage(plan).lines}
    line = lines["cc x ecn x delayed_ack x offload"]
    # Of 4 x 3 x 3 x 3 combinations dctcp with another ECN than its own is excluded.
    assert (line.total, line.covered, line.excluded) == (90, 90, 18)


def test_random_cases_are_as_many_as_asked_for_and_more_begin_with_fewer() -> None:
    ten = read.read(with_strategy('kind = "random"\ncount = 10\nseed = 3\n'), FILE).cases
    twenty = read.read(with_strategy('kind = "random"\ncount = 20\nseed = 3\n'), FILE).cases
    assert (len(ten), len(twenty)) == (10, 20)
    assert twenty[:10] == ten
    assert read.read(with_strategy('kind = "random"\ncount = 10\nseed = 4\n'), FILE).cases != ten


def test_one_at_a_time_starts_from_the_simplest_and_changes_one_thing() -> None:
    cases = read.read(with_strategy('kind = "one-at-a-time"\n'), FILE).cases
    assert list(cases[0].varied.values()) == ["reno", "off", "off", "1ms", "0s", "0", "auto", 1, "none"]
    changed = [{k for k in case.varied if case.varied[k] != cases[0].varied[k]} for case in cases[1:]]
    # A change that a constraint forbids includes the changes that it requires.
    assert [names for names in changed if len(names) > 1] == [{"stack.cc", "stack.ecn"}]
    assert len(cases) == 1 + 3 + 2 + 2 + 2 + 1 + 1 + 2 + 1 + 2


def test_boundary_goes_to_the_least_and_the_greatest() -> None:
    cases = read.read(with_strategy('kind = "boundary"\n'), FILE).cases
    assert {case.varied["link.delay"] for case in cases} == {"1ms", "100us", "10ms"}
    last = cases[-1].varied
    assert (last["link.delay"], last["link.jitter"], last["queue.limit"], last["app.flows"]) == (
        "10ms", "1ms", "1MB", 4,
    )  # fmt: skip


def test_a_range_is_an_axis_of_its_values() -> None:
    plan = read.read(
        SWEEP.replace('["1ms", "100us", "10ms"]', '{ from = "1ms", to = "100ms", steps = 3, scale = "log" }'),
        FILE,
    )
    assert {case.varied["link.delay"] for case in plan.cases} == {"1ms", "10ms", "100ms"}


def test_constraints_refer_to_groups_their_members_fixed_values_and_defaults() -> None:
    def count(constraint: str) -> int:
        text = with_strategy('kind = "full"\n').replace("constraints = [", f"constraints = ['{constraint}',")
        text = text.replace("[fixed]", '[fixed]\n"stack.initial_window" = 4')
        return len(read.read(text, FILE).cases)

    everything = 10 * 3 * 5 * 2 * 3 * 2 * 3
    assert count('[stack.initial_window] = "4" AND [sender/stack.initial_window] = 4') == everything
    assert count('[app.duration] = "1s"') == everything
    assert count('[stack.mtu] = "1500B"') == everything
    assert count('[sender/stack.mtu] = "1500B"') == everything
    assert count('[offload] <> "none"') == everything * 2 // 3
    assert count("[nic.gro] = FALSE") == everything * 2 // 3
    assert count("[sender/nic.gro] = FALSE") == everything * 2 // 3
    assert count("[receiver/app.flows] = 1") == everything // 2


def test_a_negative_value_makes_cases_that_must_be_refused_and_are_no_part_of_selections() -> None:
    plan = read.read(with_strategy('kind = "full"\n[negative]\n"link.loss" = ["2", -0.5]\n'), FILE)
    bad = [case for case in plan.cases if case.expect == "refused"]
    assert [(case.negative, case.triples["link.loss"]) for case in bad] == [
        ("link.loss", "2"),
        ("link.loss", -0.5),
    ]
    assert len({case.id for case in plan.cases}) == len(plan.cases)
    assert not any(case.expect == "refused" for case in plan.select({}))
    for case in bad:
        with pytest.raises(_native.CaseError) as caught:
            _native.check_case(case.triples, ".")
        assert {path for path, *_ in caught.value.args[0]} == {"link.loss"}


def test_in_a_t_way_plan_a_negative_value_meets_every_level_of_the_others() -> None:
    plan = read.read(SWEEP + '[negative]\n"stack.mtu" = ["1B"]\n', FILE)
    bad = [case.varied for case in plan.cases if case.expect == "refused"]
    assert {case["stack.cc"] for case in bad} == {"reno", "cubic", "dctcp", "vegas"}
    assert all(case["stack.mtu"] == "1B" for case in bad)
    assert 4 <= len(bad) <= 6
    assert "stack.mtu" not in plan.cases[0].varied


def test_a_case_that_the_data_plane_refuses_is_reported_with_the_constraint_that_leaves_it_out() -> None:
    lines = SWEEP.splitlines(keepends=True)
    message = refused("".join(lines[:1] + lines[5:]))
    assert (
        "plan.toml:7: `stack.cc` = `dctcp`: with `stack.ecn` = `off`: dctcp needs stack.ecn = dctcp at this host "
        "(`stack.ecn` is set in line 8); 3 of 19 cases; excluded by `constraints` =\n"
        '    \'IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp"\','
    ) in message
    assert "excluded by `constraints` =\n    '[link.jitter] <= [link.delay]'," in message
    proposed = [line for line in message.splitlines() if line.startswith("    '")]
    assert len(proposed) == 2
    assert read.read(lines[0] + f"constraints = [{''.join(proposed)}]\n" + "".join(lines[5:]), FILE).cases


def test_a_refusal_of_three_settings_together_is_left_out_by_a_constraint_on_the_three() -> None:
    text = SWEEP.replace(
        "[groups.offload]",
        '"nic.gso_max" = ["64KB", "8KB", "1KB"]\n"stack.mtu" = ["1500B", "9000B"]\n\n[groups.offload]',
    )
    message = refused(text)
    assert "a super-segment larger than the MSS" in message
    proposed = [line for line in message.splitlines() if line.startswith("    '")]
    made = read.read(text.replace("constraints = [", "constraints = [" + "".join(proposed)), FILE)
    kept = {(c.varied["offload"], c.varied["nic.gso_max"], c.varied["stack.mtu"]) for c in made.cases}
    assert ("none", "1KB", "1500B") in kept
    assert ("send", "8KB", "1500B") in kept
    assert ("send", "8KB", "9000B") not in kept
    assert ("send", "1KB", "1500B") not in kept


# Each row: what replaces what in the sweep, the part that stands in the line that must be named, what must be said.
BAD = {
    "a constraint that cannot be read": (
        "[link.jitter] <= [link.delay]", "[link.jitter] =< [link.delay]",
        "plan.toml:4: constraint, line 1, column 16: expected ",
    ),
    "a constraint on what is no parameter": (
        "[link.jitter] <=", "[link.jiter] <=",
        "plan.toml:4: `constraints[1]`: `link.jiter` is neither a parameter nor a group; did you mean `link.jitter`?",
    ),
    "a constraint on a value that the parameter never has": (
        'IF [stack.cc] = "dctcp"', 'IF [stack.cc] IN {"dctcp", "qubic"}',
        "plan.toml:3: `constraints[0]`: `stack.cc` is never `qubic`: allowed is reno, cubic, ",
    ),
    "a constraint on a time without its unit": (
        "[link.jitter] <= [link.delay]", "[link.jitter] <> 1",
        "plan.toml:4: `constraints[1]`: `link.jitter` is never `1`: ",
    ),
    "a constraint on a state that a group does not have": (
        "[link.jitter] <= [link.delay]", '[offload] <> "non"',
        "plan.toml:4: `constraints[1]`: `offload` is never `non`: allowed are `none`, `send`, `both`",
    ),
    "a constraint that orders a time by a number of bytes": (
        "<= [link.delay]", "<= [queue.limit]",
        "asks for an order between",
    ),
    "constraints that contradict each other": (
        "constraints = [", "constraints = ['[stack.cc] = \"dctcp\"', '[stack.ecn] = \"off\"',",
        ("no case is possible: these constraints contradict each other in this plan:\n"
        '    [stack.cc] = "dctcp" (plan.toml:2)\n'
        '    [stack.ecn] = "off" (plan.toml:2)\n'
        '    IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp" (plan.toml:3)'),
    ),
    "a constraint that never holds": (
        "constraints = [", "constraints = ['[app.duration] > \"1s\"',",
        'plan.toml:2: no case is possible: this constraint never holds in this plan: [app.duration] > "1s"',
    ),
    "a family of what does not vary": (
        "strength = 2\n", 'strength = 2\n[[strategy.family]]\nof = ["stack.cc", "stack.ecm"]\nstrength = 2\n',
        "plan.toml:29: `strategy.family[0].of[1]` = `stack.ecm`: the plan does not vary it; did you mean `stack.ecn`?",
    ),
    "a family of what varies together": (
        "strength = 2\n", 'strength = 2\n[[strategy.family]]\nof = ["nic.tso", "nic.gro"]\nstrength = 2\n',
        "plan.toml:29: `strategy.family[0].of`: two of these are equal or vary in one group; keep one of them",
    ),
    "a strength that there is not": (
        "strength = 2", "strength = 7",
        "plan.toml:27: `strategy.strength` = `7`: allowed is a whole number from 2 to 6",
    ),
    "a strategy that there is not": (
        '"t-way"', '"tway"',
        ("plan.toml:25: `strategy.kind` = `tway`: allowed are full, t-way, random, boundary, one-at-a-time, search; "
        "did you mean `t-way`?"),
    ),
    "a key of another strategy": (
        '"t-way"', '"full"',
        "plan.toml:27: unknown key `strategy.strength`; allowed are kind",
    ),
    "values that mean the same": (
        '["1ms", "100us", "10ms"]', '["1ms", "1000us"]',
        "plan.toml:14: `link.delay`: `1ms` and `1000us` mean the same; keep one",
    ),
    "a negative value that other cases have": (
        "[strategy]", '[negative]\n"stack.cc" = ["tahoe", "reno"]\n[strategy]',
        "plan.toml:26: `negative.stack.cc` = `reno`: the other cases use this value",
    ),
    "a negative value that means the same as one of other cases": (
        "[strategy]", '[negative]\n"link.delay" = ["1000us"]\n[strategy]',
        "plan.toml:26: `negative.link.delay` = `1000us`: the other cases use this value",
    ),
    "a negative value of a default": (
        "[strategy]", '[negative]\n"stack.mtu" = ["1500B"]\n[strategy]',
        "plan.toml:26: `negative.stack.mtu` = `1500B`: the other cases use this value",
    ),
    "a negative value of what is no parameter": (
        "[strategy]", '[negative]\n"stack.mtv" = ["1B"]\n[strategy]',
        "plan.toml:26: `negative.stack.mtv`: no such parameter; did you mean `stack.mtu`?",
    ),
    "a negative value of a member of a group": (
        "[strategy]", '[negative]\n"nic.tso" = ["maybe"]\n[strategy]',
        "plan.toml:26: `negative.nic.tso`: the group `offload` sets this parameter; remove it from one of both",
    ),
    "an axis without enough to draw from": (
        '["1ms", "100us", "10ms"]', '{ distribution = "choice", values = ["1ms"], count = 3 }',
        "plan.toml:14: `axes.link.delay.count` = `3`: there are only 1 values to draw from",
    ),
    "an axis of a distribution that there is not": (
        '["1ms", "100us", "10ms"]', '{ distribution = "gauss", mean = "1ms" }',
        "plan.toml:14: `axes.link.delay.distribution` = `gauss`: allowed are uniform, loguniform, normal, choice",
    ),
    "more cases than allowed": (
        "[strategy]", "[limits]\ncases = 10\n[strategy]",
        "the strategy makes 20 cases; allowed are at most 10 (`limits.cases`)",
    ),
    "a product too large": (
        'kind = "t-way"\nstrength = 2\n', 'kind = "full"\n[limits]\ncases = 1000\n',
        ("plan.toml:25: the full product has 5400 cases; allowed are at most 1000 (`limits.cases`): fix parameters, "
        "add constraints, or choose another strategy than `full`"),
    ),
    "a substrate that is not built": (
        "[fixed]", 'substrates = ["model", "remote"]\n[fixed]',
        "plan.toml:7: `substrates[1]` = `remote`: allowed is `model`, `model:STACK` for another TCP",
    ),
    "an oracle that there is not": (
        "[fixed]", 'oracles = ["late-akc"]\n[fixed]',
        "plan.toml:7: `oracles[0]` = `late-akc`: no such oracle; allowed are ",
    ),
    "a metric that there is not": (
        "[fixed]", 'metrics = ["goodputt"]\n[fixed]',
        "plan.toml:7: `metrics[0]` = `goodputt`: no such metric; did you mean `goodput`?",
    ),
    "a group named as a metric": (
        "[groups.offload]", "[groups.marks]",
        "plan.toml:20: `groups.marks`: `marks` is a metric; a group needs another name",
    ),
    "a group named as a column of every table": (
        "[groups.offload]", "[groups.seed]",
        "plan.toml:20: `groups.seed`: `seed` is a column of the tables of results; a group needs another name",
    ),
    "a group named as a parameter": (
        "[groups.offload]", "[groups.topology]",
        "plan.toml:20: `groups.topology`: `topology` is a parameter; a group needs a name of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_errors_are_reported_with_their_position_and_the_allowed_values(what: str) -> None:
    old, new, said = BAD[what]
    assert old in SWEEP
    assert said in refused(SWEEP.replace(old, new, 1))


def test_lists_too_long_to_be_asked_about_are_reported_without_a_proposal() -> None:
    delays = [f"{n}us" for n in range(1, 3000)]
    text = (
        f'name = "x"\n[axes]\n"link.delay" = {json.dumps(delays)}\n"link.jitter" = ["0s", "2ms", "2500us"]\n'
    )
    message = refused(text)
    assert message.startswith(
        "plan.toml:4: `link.jitter` = `2ms`: with `link.delay` = `1us`: jitter larger than the delay"
    )
    assert message.count("\n") == 0


def test_more_than_a_covering_array_can_be_made_for_is_reported_before_it_is_tried() -> None:
    axes = "\n".join(
        f'"sender/stack.cc.{name}" = {list(range(1, 60))}' for name in ("alpha", "beta", "gamma", "c")
    )
    message = refused(SWEEP.replace("[axes]", f"[axes]\n{axes}").replace("strength = 2", "strength = 6"))
    assert "a strength of 6 needs at least 109056249 cases" in message
    assert "allowed are at most 100000 (`limits.cases`)" in message


def test_settings_that_must_agree_at_both_ends_are_refused_with_both_places() -> None:
    mtu = '[fixed]\n"sender/stack.mtu" = "9000B"\n"stack.mtu" = "1500B"'
    assert refused(SWEEP.replace("[fixed]", mtu, 1)).startswith(
        "plan.toml:8: `sender/stack.mtu` = `9000B`: with `receiver/stack.mtu` = `1500B`: "
        "the MTU must be equal along a path (`receiver/stack.mtu` is set in line 9)"
    )


def test_settings_that_vary_at_each_end_get_the_constraint_that_they_are_equal() -> None:
    values = '["1500B", "9000B", "3000B"]'
    axes = f'[axes]\n"sender/stack.mtu" = {values}\n"receiver/stack.mtu" = {values}\n'
    message = refused(SWEEP.replace("[axes]\n", axes))
    assert "excluded by `constraints` =\n    '[sender/stack.mtu] = [receiver/stack.mtu]'," in message


CHOICES: dict[str, list[str | bool]] = {
    "stack.cc": ["reno", "cubic", "dctcp"],
    "stack.ecn": ["off", "classic", "dctcp"],
    "queue.kind": ["fifo", "codel", "htb"],
    "queue.rate": ["none", "50Mbit"],
    "queue.ecn_mark": ["off", "data"],
    "link.delay": ["1ms", "5ms"],
    "link.jitter": ["0s", "2ms", "7ms"],
    "nic.tso": [False, True],
    "nic.gso_max": ["1KB", "8KB", "64KB"],
    "stack.mtu": ["1500B", "9000B"],
    "stack.mss": ["auto", "536B", "1000B"],
}


@given(st.lists(st.sampled_from(sorted(CHOICES)), min_size=2, max_size=4, unique=True), st.randoms())
def test_whatever_varies_the_proposed_constraints_leave_out_what_is_refused_and_nothing_else(
    paths: list[str], rng: random.Random
) -> None:
    exactly(paths, rng)


@pytest.mark.parametrize("seed", range(20))
def test_the_constraint_for_a_rule_of_four_settings_is_exact_in_any_order_of_the_cases(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - reproducible is the point
    paths = ["nic.tso", "nic.gso_max", "stack.mtu", "stack.mss"]
    rng.shuffle(paths)
    exactly(paths, rng)


def exactly(paths: list[str], rng: random.Random) -> None:
    """Takes the proposals for a product until the plan is accepted; it then has the cases that are not refused."""
    levels = {path: rng.sample(CHOICES[path], len(CHOICES[path])) for path in paths}
    text = 'name = "x"\nconstraints = [{}]\n[axes]\n'
    text += "".join(f'"{path}" = {json.dumps(values)}\n' for path, values in levels.items())
    proposed = ""
    for _ in range(10):
        try:
            cases = read.read(text.replace("{}", proposed), FILE).cases
            break
        except UserError as error:
            found = [line for line in str(error).splitlines() if line.startswith("    '")]
            if not found:
                return  # a value that no case of this plan can have
            proposed += "".join(found)
    else:
        raise AssertionError("the proposals do not end")
    rows = (dict(zip(paths, row, strict=True)) for row in itertools.product(*levels.values()))
    assert [case.triples for case in cases] == [row for row in rows if accepted(row)]


def accepted(triples: dict[str, str | bool]) -> bool:
    try:
        _native.check_case(triples, ".")
    except _native.CaseError:
        return False
    return True
