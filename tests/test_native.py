"""The interface between the package and the native module."""

import ast
import inspect
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tcpassay import _native


def test_every_key_and_element_has_its_line_and_column() -> None:
    data, places = _native.read_toml(
        'name = "x"\n[axes]\n"stack.cc" = ["reno", "cubic"]\n\n[[figure]]\nkind = "a"\n'
    )
    assert data == {"name": "x", "axes": {"stack.cc": ["reno", "cubic"]}, "figure": [{"kind": "a"}]}
    assert places[("name",)] == (1, 1)
    assert places[("axes", "stack.cc")] == (3, 1)
    assert places[("axes", "stack.cc", 1)] == (3, 23)
    assert places[("figure", 0)] == (5, 1)
    assert places[("figure", 0, "kind")] == (6, 1)


def test_a_syntax_error_in_toml_is_reported_with_its_position() -> None:
    with pytest.raises(_native.TomlError) as caught:
        _native.read_toml("a = 1\nb = \n")
    message, line, column = caught.value.args
    assert (line, column) == (2, 5)
    assert message


def test_the_stub_declares_exactly_what_the_module_has() -> None:
    stub = Path(_native.__file__).with_name("_native.pyi")
    declared = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name, args=arguments):
                declared[name] = [argument.arg for argument in arguments.args]
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                declared[name] = []
    there = {name for name in dir(_native) if not name.startswith("__") or name == "__version__"}
    assert there == set(declared)
    for name, arguments in declared.items():
        if inspect.isbuiltin(getattr(_native, name)):
            assert list(inspect.signature(getattr(_native, name)).parameters) == arguments, name


def test_a_wrong_case_is_reported_with_path_other_path_value_and_reason() -> None:
    with pytest.raises(_native.CaseError) as caught:
        _native.check_case({"stack.cc": "dctcp", "link.delay": 10, "sender/stack.mtu": "9000B"}, ".")
    # Rules between settings are checked once every value can be read.
    assert [(path, other, value) for path, other, value, _ in caught.value.args[0]] == [
        ("link.delay", None, "10")
    ]
    with pytest.raises(_native.CaseError) as caught:
        _native.check_case({"stack.cc": "dctcp", "link.delay": "10ms", "sender/stack.mtu": "9000B"}, ".")
    errors = {path: (other, value) for path, other, value, _ in caught.value.args[0]}
    assert errors["stack.cc"] == ("stack.ecn", "dctcp")
    assert errors["sender/stack.mtu"][0] == "receiver/stack.mtu"


def test_a_parameter_at_its_default_is_not_part_of_a_case() -> None:
    triples = {"app.workload": "bulk", "stack.cc": "cubic", "nic.tso": False, "link.rate": "1Gbit"}
    assert _native.check_case(triples, ".") == {"stack.cc": "cubic"}


def test_what_the_stack_of_a_host_changes_in_linux_is_listed_with_its_controller_first() -> None:
    triples = {
        "stack.cc": "vegas",
        "stack.sack": False,
        "receiver/stack.initial_window": 4,
        "link.delay": "1ms",
    }
    sender = json.loads(_native.linux_changes(triples, ".", 0))
    assert sender[0] == {
        "kind": "sysctl",
        "name": "tcp_congestion_control",
        "value": "vegas",
        "path": "stack.cc",
    }
    assert {"kind": "sysctl", "name": "tcp_sack", "value": "0", "path": "stack.sack"} in sender
    route = {"kind": "route", "name": "initcwnd", "value": "4", "path": "stack.initial_window"}
    assert route in json.loads(_native.linux_changes(triples, ".", 1))
    assert route not in sender
    with pytest.raises(ValueError, match="host 2: the case has 2"):
        _native.linux_changes(triples, ".", 2)


def test_the_interpreter_goes_on_while_a_case_runs(tmp_path: Path) -> None:
    case = {"app.duration": "10s", "link.rate": "1Gbit"}
    collect = {"series": None, "deliveries": False, "events": False, "packets": False, "warmup": "0s"}
    runner = threading.Thread(target=_native.run_case, args=(case, 1, ".", collect, str(tmp_path / "run")))
    runner.start()
    turns = 0
    while runner.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 5


def test_the_package_imports_nothing_before_the_command_deals_with_interrupts() -> None:
    code = "import sys; before = set(sys.modules); import tcpassay; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tcpassay\n"
