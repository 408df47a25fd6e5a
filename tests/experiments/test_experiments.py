"""The experiments of the papers: their declarations, their verdicts, and their pages."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import plans
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.experiments import catalogue, excerpts, page, session, verdict
from tcpassay.experiments.measured import Numbers
from tcpassay.experiments.readings import READINGS
from tcpassay.experiments.verdict import Verdict
from tcpassay.interface import METRICS
from tcpassay.kernel import modules
from tcpassay.plan import experiment_table
from tcpassay.results import load

PAPERS = plans.PLANS / "papers"
NAMES = sorted(file.stem for file in PAPERS.glob("*.toml"))

SMALL = """\
name = "small"
doc = "A path that one connection fills."
oracles = false
keep.recordings = "all"
[fixed]
"app.duration" = "200ms"
"link.rate" = "100Mbit"
"link.delay" = "1ms"
[axes]
"stack.cc" = ["reno", "cubic"]
[collect]
series = "10ms"
events = true
[[figure]]
kind = "timeline"
file = "cwnd"
title = "Two controllers"
[[check]]
metric = "lost"
op = "=="
value = 0
why = "the queue is longer than the window"
[experiment]
title = "A link is filled"
paper = "Author, Title (2020)"
figure = "Figure 1"
setting = "100 Mbit/s."
explanation = "Nothing to explain."
[[experiment.claim]]
name = "rate"
place = "Figure 1"
metric = "throughput"
paper = "PAPER"
within = 1.2
direction = ["> 10Mbit"]
[[experiment.table]]
title = "Controllers"
rows = "stack.cc"
[[experiment.table.column]]
heading = "rate"
metric = "throughput"
paper = { reno = "95Mbit", cubic = "95Mbit" }
within = 1.2
[[experiment.excerpt]]
title = "The handshake"
kind = "events"
lines = 4
"""


def written(folder: Path, paper: str) -> Path:
    """A folder with one experiment whose paper states this rate."""
    (folder / "papers").mkdir(parents=True, exist_ok=True)
    plans.write(folder / "papers", SMALL.replace("PAPER", paper), "small.toml")
    return folder / "papers"


def run(place: Path, out: Path, name: str = "small") -> session.Outcome:
    """The outcome on the model."""
    return session.run(catalogue.experiment(place, name), "model", out, 1)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`tcpassay experiments`, in the source tree."""
    return subprocess.run(
        [sys.executable, "-m", "tcpassay", "experiments", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=plans.REPOSITORY,
    )


def test_the_list_has_exactly_the_plans_of_the_folder_and_there_are_28() -> None:
    done = command("list", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in json.loads(done.stdout)] == NAMES
    # 24 of five papers, the sweep from which one of them takes a setting, and three further results.
    assert len(NAMES) == 28


def test_a_claim_about_an_unknown_metric_is_refused(tmp_path: Path) -> None:
    text = SMALL.replace("PAPER", "90Mbit").replace('metric = "throughput"', 'metric = "throughputs"')
    plans.write(tmp_path, text, "small.toml")
    with pytest.raises(
        UserError, match="`throughputs` is neither a metric nor a reading; did you mean `throughput"
    ):
        catalogue.experiment(tmp_path, "small")


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_checks_claims_with_a_verdict_and_texts(name: str) -> None:
    one = catalogue.experiment(PAPERS, name)
    assert one.plan.spec.check
    for text in (one.told.setting, one.told.explanation):
        assert len(text.split()) > 20
    for claim in one.told.claim:
        assert claim.metric in METRICS or claim.metric in READINGS
        assert (claim.paper is None) == bool(claim.says)
        assert claim.reproduced or (claim.paper is not None and claim.within)
        if claim.metric != "agreement":
            assert one.plan.select(claim.where)
    columns = [column for table in one.told.table for column in table.column]
    assert all(column.metric in METRICS or column.metric in READINGS for column in columns)
    if one.told.kernel.modules:
        # Its kernel may not have been built here.
        assert all((modules.OURS / f"tcp_{name}.c").is_file() for name in one.told.kernel.modules)
    else:
        assert one.told.not_on_kernel or one.on("kernel").spec.substrates == ["kernel"]


def test_an_experiment_whose_numbers_agree_is_reproduced(tmp_path: Path) -> None:
    outcome = run(written(tmp_path, "95Mbit"), tmp_path / "out")
    assert outcome.verdict is Verdict.REPRODUCED
    assert 85e6 < (outcome.claims[0].value or 0) < 101e6
    assert outcome.ok


@pytest.mark.parametrize(
    ("paper", "expected"), [("900Mbit", Verdict.DIRECTION), ("1Mbit", Verdict.DIRECTION)]
)
def test_a_wrong_number_is_reproduced_in_direction_only(
    tmp_path: Path, paper: str, expected: Verdict
) -> None:
    assert run(written(tmp_path, paper), tmp_path / "out").verdict is expected


def test_a_planted_wrong_expectation_is_not_reproduced_and_is_no_error(tmp_path: Path) -> None:
    place = written(tmp_path, "900Mbit")
    file = place / "small.toml"
    file.write_text(file.read_text().replace('"> 10Mbit"', '"> 500Mbit"'))
    done = command("run", "small", "--plans", str(place), "--out", str(tmp_path / "out"), "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "not reproduced" in done.stdout
    (outcome,) = [session.kept(tmp_path / "out", "model", "small")]
    assert outcome is not None
    assert outcome.verdict is Verdict.NOT


@pytest.mark.parametrize("name", ["rate-limiter-sequence", "rfc6582-exit"])
def test_a_fast_experiment_runs_and_all_its_claims_are_measured_and_reproduced(
    name: str, tmp_path: Path
) -> None:
    outcome = run(PAPERS, tmp_path / "out", name)
    assert {claim.name: claim.verdict for claim in outcome.claims} == {
        claim.name: Verdict.REPRODUCED for claim in outcome.claims
    }
    assert outcome.ok


def test_a_page_that_is_written_twice_is_the_same_and_has_the_claims_the_table_the_figure_and_the_excerpt(
    tmp_path: Path,
) -> None:
    place = written(tmp_path, "900Mbit")
    run(place, tmp_path / "out")
    every = catalogue.every(place)
    first = page.write(every, tmp_path / "out", tmp_path / "one")
    again = page.write(every, tmp_path / "out", tmp_path / "two")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]
    text = (tmp_path / "one" / "small.md").read_text()
    assert "| rate | Figure 1 | 900 Mbit/s | " in text
    assert "| direction only |" in text
    assert "**" in text.partition("### Controllers")[2]
    assert (tmp_path / "one" / "img" / "small-cwnd.png").stat().st_size > 5_000
    assert text.count(" flow.0 ") + text.count(" flow.1 ") == 4
    index = (tmp_path / "one" / "README.md").read_text()
    assert "[small](small.md) | Figure 1 of Author | direction only (0 of 1 claims) | not run |" in index


def test_results_of_a_plan_with_other_claims_make_no_page(tmp_path: Path) -> None:
    place = written(tmp_path, "900Mbit")
    run(place, tmp_path / "out")
    file = place / "small.toml"
    file.write_text(file.read_text().replace('name = "rate"', 'name = "another rate"'))
    message = "the plan had other claims when it was run: `tcpassay experiments run small`"
    with pytest.raises(UserError, match=message):
        page.found(catalogue.experiment(place, "small"), tmp_path / "out")


def test_the_verdict_of_an_experiment_is_the_worst_of_what_was_measured() -> None:
    good, half, bad, unknown = Verdict.REPRODUCED, Verdict.DIRECTION, Verdict.NOT, Verdict.UNKNOWN
    assert verdict.of_experiment([good, unknown]) is good
    assert verdict.of_experiment([good, half]) is half
    assert verdict.of_experiment([bad, half, good]) is bad
    assert verdict.of_experiment([unknown]) is unknown


def test_where_the_fault_is_planted_even_the_best_verdict_is_that_the_mechanism_was_shown() -> None:
    good, half = Verdict.REPRODUCED, Verdict.DIRECTION
    assert verdict.of_experiment([good, good], planted=True) is Verdict.SHOWN
    assert verdict.of_experiment([good, half], planted=True) is half


def test_a_claim_without_a_number_needs_its_conditions() -> None:
    claim = experiment_table.Claim(
        name="x",
        place="y",
        metric="rtt_p50",
        says="short",
        reproduced=["> 1ms", "<= 2ms"],
        direction=["< 1s"],
    )
    assert verdict.of_claim(claim, 0.0015) is Verdict.REPRODUCED
    assert verdict.of_claim(claim, 0.002) is Verdict.REPRODUCED
    assert verdict.of_claim(claim, 0.001) is Verdict.DIRECTION
    assert verdict.of_claim(claim, 2.0) is Verdict.NOT
    assert verdict.of_claim(claim, None) is Verdict.UNKNOWN


def test_within_is_a_factor_in_both_directions() -> None:
    claim = experiment_table.Claim(name="x", place="y", metric="goodput", paper="10Mbit", within=1.5)
    assert verdict.of_claim(claim, 15e6) is Verdict.REPRODUCED
    assert verdict.of_claim(claim, 6.7e6) is Verdict.REPRODUCED
    assert verdict.of_claim(claim, 15.1e6) is Verdict.NOT
    assert verdict.of_claim(claim, 6.6e6) is Verdict.NOT


QUOTES = """
[[experiment.quote]]
name = "rate"
metric = "goodput"
where = { "stack.cc" = "reno" }
[[experiment.quote]]
name = "linux"
metric = "goodput"
on = "kernel"
[[experiment.quote]]
name = "share"
metric = "saturation"
over = "min"
percent = true
[[experiment.quote]]
name = "fast"
metric = "goodput"
count = ["> 80Mbit", "< 100Mbit"]
[[experiment.quote]]
name = "slow"
metric = "goodput"
where = { "stack.cc" = "cubic" }
relative_to = { "stack.cc" = "reno" }
count = ["< 0.5"]
"""


def test_an_explanation_quotes_the_numbers_of_the_runs(tmp_path: Path) -> None:
    place = written(tmp_path, "95Mbit")
    file = place / "small.toml"
    text = file.read_text().replace(
        '"Nothing to explain."',
        '"Reno: {rate}, on Linux {linux}; at least {share}; {fast} are fast, {slow} slow."\napart = "With version 0."',
    )
    file.write_text(text + QUOTES)
    run(place, tmp_path / "out")
    page_ = page.write(catalogue.every(place), tmp_path / "out", tmp_path / "pages")[0].read_text()
    results = load(session.place(tmp_path / "out", "model", "small"))
    rate, least = (
        Numbers(results).value(experiment_table.Measured(metric=metric, where=where, over="min"))
        for metric, where in [("goodput", {"stack.cc": "reno"}), ("saturation", {})]
    )
    assert rate is not None and least is not None  # noqa: PT018 - for the types
    said = f"Reno: {rate / 1e6:.3g} Mbit/s, on Linux (not run); at least {least * 100:.2g} %; 2 are fast, 0 slow."
    assert said in page_
    assert "## Measured apart from this plan\n\nWith version 0.\n" in page_


@pytest.mark.parametrize(("old", "new"), [("{share}", "a share"), ("{share}", "{share} {other}")])
def test_a_quote_that_is_not_used_or_not_defined_is_refused(tmp_path: Path, old: str, new: str) -> None:
    place = written(tmp_path, "95Mbit")
    file = place / "small.toml"
    text = file.read_text().replace("Nothing to explain.", "{rate} {linux} {share} {fast} {slow}")
    file.write_text(text.replace(old, new) + QUOTES)
    with pytest.raises(
        UserError, match=r"in `explanation` but not in `quote`, or the reverse: `(share|other)`"
    ):
        catalogue.experiment(place, "small")


def test_a_network_ten_times_slower_is_compared_by_a_tenth_of_its_times_and_ten_times_its_rates(
    tmp_path: Path,
) -> None:
    place = written(tmp_path, "95Mbit")
    run(place, tmp_path / "out")
    results = load(session.place(tmp_path / "out", "model", "small"))
    reno = {"stack.cc": "reno"}
    rate, trip, ratio, count = (
        experiment_table.Measured(metric=metric, where=reno, relative_to=base)
        for metric, base in [
            ("throughput", None),
            ("rtt_p50", None),
            ("rtt_p50", {"stack.cc": "cubic"}),
            ("saturation", None),
        ]
    )
    as_is, slower = Numbers(results), Numbers(results, 10.0)
    assert slower.value(rate) == pytest.approx(10 * (as_is.value(rate) or 0))
    assert slower.value(trip) == pytest.approx((as_is.value(trip) or 0) / 10)
    assert 0.002 < (as_is.value(trip) or 0) < 0.1
    for alike in (ratio, count):
        assert slower.value(alike) == as_is.value(alike)
        assert (as_is.value(alike) or 0) > 0.5


def test_only_the_kernel_of_an_experiment_can_be_slower_than_the_plan() -> None:
    one = catalogue.experiment(PAPERS, "intra-rack-fixed")
    assert (one.slower_by("model"), one.slower_by("kernel")) == (1.0, 10.0)
    model, kernel = (one.on(where).spec.fixed for where in ("model", "kernel"))
    assert (model["link.rate"], kernel["link.rate"]) == ("25Gbit", "2500Mbit")
    assert (model["link.delay"], kernel["link.delay"]) == ("5us", "50us")


def test_the_initial_window_through_a_stale_hash_arrives_in_reversed_groups(tmp_path: Path) -> None:
    run(PAPERS, tmp_path / "out", "lro-stale-hash")
    one = catalogue.experiment(PAPERS, "lro-stale-hash")
    (ran,) = page.found(one, tmp_path / "out")
    (order,) = [excerpt for excerpt in one.told.excerpt if excerpt.kind == "arrivals"]
    lines = excerpts.lines(order, ran.numbers).splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["P4 P3 P2 P1", "P8 P7 P6 P5 P9", "P10"]
    in_order = order.model_copy(update={"where": {"receiver/nic.lro_order": "arrival"}})
    assert excerpts.lines(in_order, ran.numbers).splitlines()[0].endswith(" P1-P4")


def test_a_single_run_has_no_mean_and_no_standard_deviation(tmp_path: Path) -> None:
    place = written(tmp_path, "95Mbit")
    file = place / "small.toml"
    file.write_text(
        file.read_text()
        .replace('rows = "stack.cc"', "runs = true")
        .replace('title = "Controllers"', 'title = "Runs"')
    )
    run(place, tmp_path / "out")
    both = page.write(catalogue.every(place), tmp_path / "out", tmp_path / "two")[0].read_text()
    assert [word in both for word in ("| 1: ", "| 2: ", "| mean: ", "| sd: ")] == [True] * 4
    file.write_text(file.read_text().replace('["reno", "cubic"]', '["reno"]'))
    run(place, tmp_path / "out")
    single = page.write(catalogue.every(place), tmp_path / "out", tmp_path / "one")[0].read_text()
    assert [word in single for word in ("| 1: ", "| 2: ", "| mean: ", "| sd: ")] == [
        True,
        False,
        False,
        False,
    ]


def test_an_unknown_name_is_refused_with_what_is_similar() -> None:
    with pytest.raises(UserError, match="did you mean `intra-rack`"):
        catalogue.experiment(PAPERS, "intra-rac")


def test_after_an_interrupt_the_outcomes_of_completed_experiments_are_printed_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = written(tmp_path, "95Mbit")
    plans.write(papers, (papers / "small.toml").read_text().replace('"small"', '"other"'), "other.toml")
    before = session.run

    def interrupted(one: catalogue.Experiment, *rest: object) -> session.Outcome:
        if one.name == "other":
            os.kill(os.getpid(), signal.SIGINT)
        return before(one, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "run", interrupted)
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["experiments", "run", "small", "other", "--plans", str(papers), "--out", str(out), "--json"]
    )
    assert done.exit_code == 130
    assert "interrupted; not completed: other" in done.output
    assert session.kept(out, "model", "small") is not None
    assert session.kept(out, "model", "other") is None
