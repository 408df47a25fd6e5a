"""Lists that Rust and Python both hold. What can be generated is in `interface.py`; the others are compared here."""

import json
import re
from typing import get_args, get_type_hints

import pytest

from plans import REPOSITORY
from tcpassay import _native
from tcpassay.explain.moments import ACK_REASONS
from tcpassay.finding import Severity
from tcpassay.interface import METRICS, AckReason, RunEnd
from tcpassay.messages import Collect, Outcome
from tcpassay.plan import model, quantity, table
from tcpassay.run.operators import COMPARE
from tcpassay.script.results import STATUSES
from tcpassay.substrate import BUILT
from tcpassay.substrate.agent import answer_of

CRATES = REPOSITORY / "crates"


def rust(file: str, begin: str) -> str:
    """The block of Rust source that begins with a text."""
    source = (CRATES / file).read_text(encoding="utf-8")
    start = source.index(begin)
    return source[start : source.index("\n}\n", start)]


def test_each_end_of_a_run_on_a_kernel_has_an_outcome() -> None:
    outcomes = {
        RunEnd.DURATION: Outcome.DONE,
        RunEnd.FINISHED: Outcome.DONE,
        RunEnd.EVENT_LIMIT: Outcome.DONE,
        RunEnd.PATH: Outcome.PATH,
        RunEnd.FAILED: Outcome.FAILED,
        RunEnd.REFUSED: Outcome.REFUSED,
    }
    assert set(outcomes) == set(RunEnd)
    for end, outcome in outcomes.items():
        text = json.dumps({"ended": end, "message": "", "errors": [], "metrics": {"values": {}}})
        assert answer_of(text).outcome == outcome


def test_substrates_are_those_of_the_parameter_table() -> None:
    named = {name for row in table.parameters().values() for name in row.substrates}
    assert named == {"model", "kernel", "host", "remote"}
    assert named == {name.partition(":")[0] for name in BUILT}


def test_the_operators_of_checks_are_those_that_runs_are_compared_with() -> None:
    assert get_args(model.Check.model_fields["op"].annotation) == tuple(COMPARE)
    assert {op: (compare(1, 2), compare(2, 2), compare(3, 2)) for op, compare in COMPARE.items()} == {
        "<": (True, False, False),
        "<=": (True, True, False),
        "==": (False, True, False),
        "!=": (True, False, True),
        ">=": (False, True, True),
        ">": (False, False, True),
    }


@pytest.mark.parametrize(
    ("path", "kind", "values"),
    [
        ("app.duration", "a length of time", ["6000000ns", "6000us", "6ms", "6s", "6min", "1h"]),
        ("app.sndbuf", "a number of bytes", ["3000B", "3KB", "3MB", "1.5GB", "3KiB", "3MiB", "3GiB"]),
        ("app.rate", "a rate", ["3000000bit", "3000Kbit", "1.5Mbit", "3Gbit"]),
    ],
)
def test_units_are_those_that_the_data_plane_reads(path: str, kind: str, values: list[str]) -> None:
    own = [suffix for suffix, (what, _) in quantity._SUFFIXES.items() if what == kind]  # noqa: SLF001
    assert [value.lstrip("0123456789.") for value in values] == own
    source = (CRATES / "units" / "src" / "parse.rs").read_text(encoding="utf-8")
    assert f'allowed: "{" ".join(own)}"' in source
    for value in values:
        said = _native.check_case({"app.workload": "paced", "app.rate": "1Mbit"} | {path: value}, "/")
        assert quantity.quantity(said[path]) == quantity.quantity(value)


def test_every_kind_of_parameter_is_known() -> None:
    kinds = {row.kind for row in table.parameters().values()}
    assert kinds == {"bytes", "choice", "integer", "probability", "rate", "real", "switch", "text", "time"}
    units = {
        (row.kind, row.unit) for row in table.parameters().values() if row.kind in {"bytes", "rate", "time"}
    }
    assert units == {("bytes", "B"), ("rate", "bit/s"), ("time", "s")}


def test_the_data_to_collect_is_that_of_plans_and_of_the_agent() -> None:
    names = set(get_type_hints(Collect))
    assert names == set(model.Collect.model_fields)
    assert names == set(re.findall(r"(\w+): ", rust("agent/src/request.rs", "pub struct CollectRequest {")))
    # The model counts packets itself.
    assert names - {"taps"} == set(
        re.findall(r"(\w+): ", rust("python/src/model.rs", "pub struct CollectArguments {"))
    )


def test_severities_and_results_of_scripts_have_the_names_that_rust_gives_them() -> None:
    level = rust("judge/src/finding.rs", "impl Level {")
    assert re.findall(r'=> "(\w+)"', level) == [str(one) for one in Severity]
    status = rust("script/src/report.rs", "impl Status {")
    assert tuple(re.findall(r'=> "(\w+)"', status)) == STATUSES


def test_every_reason_of_an_ack_has_words_for_a_reader() -> None:
    assert set(ACK_REASONS) == set(AckReason)


def test_the_page_scales_the_units_of_metrics_that_have_prefixes() -> None:
    script = (REPOSITORY / "python" / "tcpassay" / "report" / "js" / "units.js").read_text(encoding="utf-8")
    prefixed = script[script.index("PREFIXED = {") : script.index("\n  };\n")]
    keys = {
        quoted or bare for quoted, bare in re.findall(r'^    (?:"([^"]+)"|(\w+)): \[', prefixed, re.MULTILINE)
    }
    assert keys == {"bit/s", "B", "s"}
    assert keys < {one.unit for one in METRICS.values()}
