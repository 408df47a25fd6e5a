"""`tcpassay stack compare`, and other versions of a TCP."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay import _native
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.isolate.triples import Triple
from tcpassay.stacks import build
from tcpassay.substrate import substrate_of
from tcpassay.substrate.model import with_stack
from tcpassay.trees.causes import TreeCause
from tcpassay.trees.pairs import TreePair

PLAN = """
name = "two"
seeds = [3]
[fixed]
"link.rate" = "20Mbit"
"link.delay" = "5ms"
"app.flow_size" = "50KB"
"app.duration" = "1s"
"sender/stack.implementation" = "smoltcp"
[axes]
"link.loss" = ["0", "3%"]
"app.sndbuf" = ["auto", "4KB"]
[collect]
events = true
packets = true
"""


def compared(tmp_path: Path, base: str, head: str, *options: str) -> tuple[int, dict[str, object]]:
    plan = tmp_path / "two.toml"
    plan.write_text(PLAN)
    words = ["stack", "compare", base, head, "--plan", str(plan), "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, [*words, *options], catch_exceptions=False)
    return result.exit_code, json.loads(result.stdout)


def test_smoltcp_in_the_process_and_as_a_process_are_identical_packet_by_packet(
    tmp_path: Path, adapter: Path
) -> None:
    code, told = compared(tmp_path, "smoltcp", f"exec:{adapter}", "--by", "packets")
    assert (code, told["pairs"], told["identical"], told["different"]) == (0, 4, 4, [])


def test_a_difference_has_the_settings_that_separate_it_and_the_first_events(
    tmp_path: Path, adapter: Path
) -> None:
    # A smoltcp that never hears of the size of its send buffer: the setting is removed on the way.
    wrapped = tmp_path / "wrapped.py"
    wrapped.write_text(
        f"""import re, subprocess, struct, sys
child = subprocess.Popen([{str(adapter)!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def read(stream):
    head = stream.read(4)
    return stream.read(struct.unpack("<I", head)[0]) if len(head) == 4 else None
def send(stream, content):
    stream.write(struct.pack("<I", len(content)) + content)
    stream.flush()
first = True
while (content := read(sys.stdin.buffer)) is not None:
    send(child.stdin, re.sub(rb"send_buffer=[0-9]+\\n", b"", content) if first else content)
    first = False
    send(sys.stdout.buffer, read(child.stdout))
"""
    )
    other = f"exec:{sys.executable} {wrapped}"
    code, told = compared(tmp_path, f"exec:{adapter}", other, "--by", "packets", "--budget", "0")
    assert code == 1
    assert (told["pairs"], told["identical"]) == (4, 2)
    assert told["separation"] == "app.sndbuf=4KB (2 of 2 runs with that)"
    examples = told["examples"]
    assert isinstance(examples, list)
    assert examples[0]["first"]["events"] is not None


def test_a_substrate_replaces_the_tcp_of_the_hosts_that_have_another_one_than_the_model() -> None:
    assert with_stack({"sender/stack.implementation": "smoltcp", "link.loss": 0.1}, "lwip") == {
        "sender/stack.implementation": "lwip",
        "link.loss": 0.1,
    }
    assert with_stack({"link.loss": 0.1}, "lwip") == {"link.loss": 0.1, "stack.implementation": "lwip"}
    both = {"stack.implementation": "smoltcp", "sender/stack.implementation": "model"}
    assert with_stack(both, "lwip") == both | {"stack.implementation": "lwip"}
    said = substrate_of("model:lwip").check({"stack.implementation": "smoltcp", "link.loss": 0.1}, ".")
    assert said == {"stack.implementation": "smoltcp", "link.loss": "0.1"}
    with pytest.raises(_native.CaseError):
        substrate_of("model:lwip").check({"stack.timestamps": True}, ".")


def test_a_cause_names_the_compared_tcps_and_not_the_one_that_stands_for_them_in_the_plan() -> None:
    rows = [
        {"case": "c", "seed": 1, "triples": {}, "outcome": "done", "substrate": f"model:exec:./{name}"}
        for name in ("a", "b")
    ]
    pair = TreePair(rows[0], rows[1], packets=True, metrics=(), new=(), gone=())
    triples = (
        Triple("receiver/stack.implementation", "model"),
        Triple("sender/stack.implementation", "smoltcp"),
    )
    assert TreeCause(triples, pair, complete=True).text == (
        "receiver/stack.implementation=model, sender/stack.implementation=exec:./a or exec:./b"
    )


OTHERS = "gvisor, lwip, pytcp, smoltcp@VERSION, gvisor@VERSION, lwip@VERSION, pytcp@VERSION"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "linux@6.1",
            f"`linux@6.1` is not a stack that is built; there are {OTHERS}",
        ),
        ("pytcp@", "`pytcp@`: a version has letters, digits, `.`, `-` and `+`, as in `pytcp@0.3.7`"),
        ("pytcp@../x", "`pytcp@../x`: a version has letters, digits, `.`, `-` and `+`, as in `pytcp@0.3.7`"),
    ],
)
def test_a_version_that_cannot_be_built_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(UserError) as refused:
        build.build(name)
    assert str(refused.value) == why
    with pytest.raises(_native.CaseError):
        _native.check_case({"stack.implementation": name}, ".")


def test_a_version_is_a_value_of_the_parameter() -> None:
    said = _native.check_case({"stack.implementation": "gvisor@v0.0.0-20250101000000-abc"}, ".")
    assert said == {"stack.implementation": "gvisor@v0.0.0-20250101000000-abc"}
    with pytest.raises(_native.CaseError) as refused:
        _native.check_case({"stack.implementation": "pytcp@0.3.7", "stack.timestamps": True}, ".")
    assert "PyTCP always offers timestamps" in str(refused.value)


def test_a_program_that_cannot_be_started_is_an_error_in_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A command with a `/` needs no `exec:`, as for `stack check` and `stack measure`.
    done = CliRunner().invoke(app, ["stack", "compare", "./one", "./two"])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith("`exec:./one`: outcome `stack`: `./one` cannot be started: ")
    assert not (tmp_path / "results").exists()
