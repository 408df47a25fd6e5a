"""The Python declarations generated from Rust are up to date."""

import importlib
import json
import sys
from types import ModuleType
from typing import get_args

import pytest

from plans import REPOSITORY
from tcpassay import _native, interface
from tcpassay.testbed import messages


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


def test_the_generated_messages_are_what_the_native_module_declares(generator: ModuleType) -> None:
    made = generator.formatted(generator.messages_source(generator.declarations()))
    assert generator.MESSAGES.read_text(encoding="utf-8") == made, "run `make format`"


def test_each_message_of_a_controller_has_the_fields_of_its_declaration(generator: ModuleType) -> None:
    declared = generator.declarations()["testbed"]
    for union, all_ in (
        ("from_controller", get_args(messages.FromController)),
        ("from_agent", get_args(messages.FromAgent)),
    ):
        expected = {
            one["name"]: {*(field["name"] for field in one["fields"]), "kind"}
            for one in declared[union]["messages"]
        }
        assert {one.__name__: set(one.__annotations__) for one in all_} == expected
    assert declared["files"] == [*dict.fromkeys(declared["files"])]
    assert set(declared["files"]) == messages.FILES


def test_a_changed_declaration_changes_the_generated_file(generator: ModuleType) -> None:
    declared = generator.declarations()
    declared["enums"][0]["members"][0]["value"] = "renamed"
    assert generator.source(declared) != generator.source(generator.declarations())
    declared["testbed"]["from_agent"]["messages"][0]["fields"][0]["type"] = "bool"
    assert generator.messages_source(declared) != generator.messages_source(generator.declarations())


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
        "sack", "merged", "damaged",
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
