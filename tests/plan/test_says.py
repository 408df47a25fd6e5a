"""Valid and invalid units, groups, figures, loads and sizes of plans."""

from pathlib import Path

import pytest

from tcpassay.cover import generate
from tcpassay.errors import UserError
from tcpassay.plan.read import Plan, read
from tcpassay.run import checks
from tcpassay.run.settings import small

HEAD = 'name = "x"\n'


def plan(text: str, folder: Path = Path()) -> Plan:
    return read(HEAD + text, folder / "x.toml")


def refused(text: str) -> str:
    with pytest.raises(UserError) as error:
        plan(text)
    return str(error.value)


CHECK = (
    '[axes]\n"stack.cc" = ["reno", "cubic"]\n[[check]]\nmetric = "{0}"\nop = "<="\nvalue = {1}\nwhy = "w"\n'
)


@pytest.mark.parametrize(
    ("metric", "value", "limit"),
    [
        ("rtt_p99", '"1ms"', 0.001), ("rtt_p99", '"1.5us"', 1.5e-6), ("rtt_p99", "0.25", 0.25),
        ("goodput", '"10Mbit"', 1e7), ("queue_max", '"30KB"', 30_000), ("queue_max", '"1KiB"', 1024),
        ("loss_rate", '"5%"', 0.05), ("lost", '"7p"', 7), ("lost", "7", 7),
    ],
)  # fmt: skip
def test_a_threshold_may_have_a_unit(metric: str, value: str, limit: float) -> None:
    assert plan(CHECK.format(metric, value)).spec.check[0].limit == pytest.approx(limit, rel=1e-15)


@pytest.mark.parametrize(
    ("metric", "value", "said"),
    [
        (
            "rtt_p99",
            '"1MB"',
            "`value` = `1MB` is a number of bytes; allowed for `rtt_p99` is a length of time",
        ),
        ("goodput", '"1s"', "is a length of time; allowed for `goodput` is a rate"),
        ("loss_rate", '"1ms"', "allowed for `loss_rate` is a number"),
    ],
)
def test_a_threshold_of_another_kind_is_refused(metric: str, value: str, said: str) -> None:
    assert said in refused(CHECK.format(metric, value))


def test_a_threshold_that_is_no_amount_is_refused() -> None:
    for value in ('"fast"', '"3"', '"1 ms"', '"ms"', "true", "[]"):
        assert "`check[0].value`" in refused(CHECK.format("rtt_p99", value))


def test_a_failed_check_names_its_case_and_seed() -> None:
    made = plan("seeds = [1, 2]\n" + CHECK.format("rtt_p99", '"1ms"'))
    reno, cubic = made.cases
    measured = {(case.id, seed): {"rtt_p99": 0.0005 * seed} for case in made.cases for seed in (1, 2)}
    measured[cubic.id, 2] = {"rtt_p99": 0.002}
    verdicts = checks.judge(made, measured)
    assert [(one.case, one.seed) for one in verdicts if not one.holds] == [(cubic.id, 2)]
    assert verdicts[0].subject == f"case {reno.id} seed 1: cc=reno"
    assert verdicts[0].as_json()["value"] == 0.001


@pytest.mark.parametrize(("op", "seed"), [("<=", 2), (">=", 1)])
def test_a_statistic_names_the_run_that_contradicts_it_most(op: str, seed: int) -> None:
    text = CHECK.format("rtt_p99", "1").replace("<=", op) + 'over = "mean"\n'
    made = plan("seeds = [1, 2]\n" + text)
    measured = {(case.id, s): {"rtt_p99": float(s)} for case in made.cases for s in (1, 2)}
    (verdict,) = checks.judge(made, measured)
    assert (verdict.case, verdict.seed) == (made.cases[0].id, seed)


GROUP = """
constraints = ['IF [g] = "wide" THEN [link.delay] = "5ms"']
[fixed]
"link.delay" = "1ms"
[groups.g.wide]
"link.delay" = "5ms"
"stack.cc" = "cubic"
[groups.g.near]
"stack.cc" = "reno"
"""


def test_a_level_of_a_group_overrides_what_is_fixed_and_the_others_keep_it() -> None:
    made = plan(GROUP)
    assert [case.triples["link.delay"] for case in made.cases] == ["5ms", "1ms"]


def test_a_parameter_of_an_axis_cannot_also_be_fixed() -> None:
    text = '[fixed]\n"stack.cc" = "reno"\n[axes]\n"stack.cc" = ["reno", "cubic"]\n'
    assert "keep one" in refused(text)


BASE = """name = "base"
[axes]
"stack.cc" = ["reno", "cubic"]
[[figure]]
kind = "distribution"
file = "first"
[[figure]]
kind = "distribution"
file = "second"
where = { "stack.cc" = "reno" }
"""


def test_a_plan_that_extends_another_can_drop_its_figures(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE, encoding="utf-8")
    made = plan('extends = "base.toml"\ndrop_figures = ["first"]\n', tmp_path)
    assert [figure.file for figure in made.spec.figure] == ["second"]
    again = read(made.text, tmp_path / "again.toml")
    assert [figure.file for figure in again.spec.figure] == ["second"]


def test_a_figure_that_is_not_there_cannot_be_dropped(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE, encoding="utf-8")
    with pytest.raises(UserError, match=r"x.toml:3: `drop_figures\[0\]` = `frist`: .*did you mean `first`"):
        plan('extends = "base.toml"\ndrop_figures = ["frist"]\n', tmp_path)
    assert "`drop_figures` needs `extends`" in refused('drop_figures = ["first"]\n')


@pytest.mark.parametrize("section", ["fixed", "axes", "collect", "limits", "keep", "negative"])
def test_a_key_of_the_plan_below_a_table_gets_a_hint(section: str) -> None:
    said = refused(f'[{section}]\nconstraints = ["[stack.cc] = reno"]\n')
    assert said.startswith(f"x.toml:3: `constraints` is below [{section}]")


def test_a_covering_array_of_too_many_cases_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    axis = '{ from = "1KB", to = "1GB", steps = 1000 }'
    axes = "\n".join(f'"{path}" = {axis}' for path in ("queue.limit", "app.request", "app.response"))
    text = f'[strategy]\nkind = "t-way"\n[axes]\n{axes}\n'

    def made(*_: object) -> None:
        pytest.fail("the array is being made")

    monkeypatch.setattr(generate, "generate", made)
    assert "a strength of 2 needs at least 1000000 cases" in refused(text)


def test_an_interval_of_the_series_that_makes_too_many_is_refused() -> None:
    said = refused('[fixed]\n"app.duration" = "100ms"\n[collect]\nseries = "1ns"\n')
    assert (
        "`collect.series` = `1ns`: in a run of 100ms (`app.duration`) these are 100,000,000 intervals" in said
    )
    assert plan('[fixed]\n"app.duration" = "100ms"\n[collect]\nseries = "10us"\n').notes == ()


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        ('topology = "star:8"\n"app.workload" = "rpc-open"\n"app.arrival" = "poisson:2Gbit"\n"link.rate" = "10Gbit"',
         "16 Gbit/s (8 senders, each with 2 Gbit/s) into 10 Gbit/s"),
        ('"app.workload" = "rpc-open"\n"app.arrival" = "uniform:1000/s"\n"link.rate" = "50Mbit"',
         "80 Mbit/s into 50 Mbit/s"),
        ('"app.flow_size" = "exp:1MB"\n"app.arrival" = "poisson:20/s"\n"link.rate" = "100Mbit"',
         "160 Mbit/s into 100 Mbit/s"),
        ('"app.background" = "udp:2Gbit"\n"link.rate" = "1Gbit"', "2 Gbit/s into 1 Gbit/s"),
    ],
)  # fmt: skip
def test_more_load_than_capacity_is_noted(fixed: str, said: str) -> None:
    (note,) = plan(f"[fixed]\n{fixed}\n").notes
    assert said in note
    assert "per sender" in note


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        # Eight hosts of two racks send to four hosts of one.
        (
            {"topology": "racks:2x1", "rack.hosts": "4", "app.arrival": "poisson:6Gbit"},
            "48 Gbit/s (8 senders, each with 6 Gbit/s) into 40 Gbit/s of link `uplink-rack2`",
        ),
        (
            {
                "topology": "racks:2x1",
                "rack.hosts": "4",
                "app.arrival": "poisson:6Gbit",
                "rack.uplink": "100Gbit",
            },
            "12 Gbit/s (2 senders, each with 6 Gbit/s) into 10 Gbit/s of link `access-receiver0`",
        ),
        (
            {"topology": "racks:1x1", "app.arrival": "poisson:6Gbit", "rack.uplink": "20Gbit"},
            "24 Gbit/s (4 senders, each with 6 Gbit/s) into 20 Gbit/s of link `uplink-rack0`",
        ),
        (
            {"topology": "racks:1x1", "app.arrival": "poisson:6Gbit", "access-receiver2/link.rate": "5Gbit"},
            "6 Gbit/s into 5 Gbit/s of link `access-receiver2`",
        ),
        (
            {
                "topology": "dumbbell:2",
                "app.arrival": "poisson:1Gbit",
                "sender1/app.arrival": "poisson:10Gbit",
            },
            "11 Gbit/s (2 senders) into 10 Gbit/s in case",
        ),
        (
            {"topology": "dumbbell:2", "app.arrival": "poisson:1Gbit", "access/link.rate": "500Mbit"},
            "1 Gbit/s into 500 Mbit/s of link `access-sender0`",
        ),
        (
            {"app.arrival": "poisson:1Gbit", "queue.kind": "htb", "queue.rate": "100Mbit"},
            "1 Gbit/s into 100 Mbit/s in case",
        ),
        (
            {"app.arrival": "poisson:6Gbit", "app.background": "poisson:50%", "topology": "dumbbell:1"},
            "11 Gbit/s into 10 Gbit/s in case",
        ),
    ],
)
def test_the_link_that_has_most_to_carry_for_its_rate_is_named(fixed: dict[str, str], said: str) -> None:
    whole = {"app.workload": "rpc-open", "link.rate": "10Gbit"} | fixed
    lines = "\n".join(
        f'"{path}" = {value if value.isdigit() else repr(value)}' for path, value in whole.items()
    )
    (note,) = plan(f"[fixed]\n{lines}\n").notes
    assert said in note


def test_more_load_than_a_link_of_a_topology_from_a_file_carries_is_noted(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(
        'hosts = ["a", "b", "c"]\nswitches = ["s"]\n'
        'links = [{ from = "a", to = "s", rate = "10Gbit" }, { from = "s", to = "b", rate = "1Gbit" }, '
        '{ from = "c", to = "s" }]\nflows = [{ from = "a", to = "b" }, { from = "a", to = "c" }]\n',
        encoding="utf-8",
    )
    file = tmp_path / "plan.toml"
    said = 'name = "x"\n[fixed]\ntopology = "file:two.toml"\n"app.workload" = "rpc-open"\n"link.rate" = "10Gbit"\n'
    # The load of host `a` alternates between both other hosts.
    (note,) = read(said + '"app.arrival" = "poisson:3Gbit"\n', file).notes
    assert "the largest: 1.5 Gbit/s into 1 Gbit/s of link `s-b` in case" in note
    assert read(said + '"app.arrival" = "poisson:2Gbit"\n', file).notes == ()
    # Paced writers write to each of them.
    paced = said.replace("rpc-open", "paced") + '"app.rate" = "1.5Gbit"\n'
    assert "1.5 Gbit/s into 1 Gbit/s of link `s-b`" in read(paced, file).notes[0]


@pytest.mark.parametrize(
    "fixed",
    [
        '"app.workload" = "rpc-open"\n"app.arrival" = "poisson:900Mbit"\n"link.rate" = "1Gbit"',
        '"app.workload" = "rpc"\n"link.rate" = "1Mbit"',
        '"app.workload" = "bulk"\n"link.rate" = "1Mbit"',
        'topology = "racks:3x3"\n"app.workload" = "rpc-open"\n"app.arrival" = "poisson:900Mbit"',
    ],
)
def test_load_that_fits_or_waits_for_answers_is_not_noted(fixed: str) -> None:
    assert plan(f"[fixed]\n{fixed}\n").notes == ()


def test_a_plan_is_small_by_its_runs_and_its_series() -> None:
    fifty = (
        '[axes]\n"app.request" = { from = "1KB", to = "50KB", steps = 50 }\n[fixed]\n"app.workload" = "rpc"\n'
    )
    assert small(plan(fifty))
    assert not small(plan("seeds = [1, 2]\n" + fifty))
    assert not small(plan(fifty + "[collect]\nevents = true\n"))
    assert not small(plan('[fixed]\n"app.flows" = 5000\n"app.duration" = "10s"\n'))
