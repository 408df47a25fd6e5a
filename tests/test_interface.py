"""The Python declarations generated from Rust are up to date."""

import importlib
import json
import sys
from types import ModuleType

import pytest

from plans import REPOSITORY
from tcpassay import _native, interface


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    sys.path.insert(0, str(REPOSITORY / "tools"))
    try:
        return importlib.import_module("interface")
    finally:
        sys.path.remove(str(REPOSITORY / "tools"))


def test_the_generated_file_is_what_the_native_module_declares(generator: ModuleType) -> None:
    made = generator.formatted(generator.source(generator.declarations()))
    assert generator.TARGET.read_text(encoding="utf-8") == made, "run `make format`"


def test_a_changed_declaration_changes_the_generated_file(generator: ModuleType) -> None:
    declared = generator.declarations()
    declared["enums"][0]["members"][0]["value"] = "renamed"
    assert generator.source(declared) != generator.source(generator.declarations())


def test_metrics_have_the_names_units_and_meanings_of_the_table_of_the_native_module() -> None:
    rows = json.loads(_native.metrics_json())
    assert [
        {"name": one.name, "unit": one.unit, "doc": one.doc} for one in interface.METRICS.values()
    ] == rows
    assert list(interface.METRICS) == list(interface.MetricName)


def test_names_are_those_that_recordings_have_had_since_the_first_version() -> None:
    assert [kind.value for kind in interface.EventKind] == [
        "in", "out", "retransmit", "refused", "timer_set", "timer_cancel", "timer_fire", "state", "congestion",
        "window", "rtt", "lost", "spurious", "ack_now", "ack_delay", "ack_forget", "clamp", "drop", "mark", "app",
        "sack",
    ]  # fmt: skip
    assert (interface.CongestionState.CWR, interface.Timer.RTO) == ("CWR", "Rto")
    assert [*interface.TABLES[interface.Table.EVENTS], "asked_bytes"] == list(interface.EventsColumn)
    assert interface.TcpState.FIN_WAIT_1 == "FinWait1"


def test_the_types_of_the_pages_data_are_those_that_python_writes() -> None:
    sys.path.insert(0, str(REPOSITORY / "tools"))
    try:
        page_types = importlib.import_module("page_types")
    finally:
        sys.path.remove(str(REPOSITORY / "tools"))
    assert page_types.TARGET.read_text(encoding="utf-8") == page_types.source(), "run `make format`"
