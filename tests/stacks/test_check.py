"""`tcpassay stack`: the list, and the checks of a process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tcpassay.cli import app
from tcpassay.errors import UserError

# A stack around the example that is wrong in one way.
AROUND = """
mode, adapter = sys.argv[1:]
child = subprocess.Popen([adapter], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
late = b""


def asked(content):
    send(child.stdin, content)
    return read(child.stdout)


def seeded(content):
    lines = content[9:].split(b"\\n")
    new = [b"seed=%d" % time.time_ns() if line.startswith(b"seed=") else line for line in lines]
    return content[:9] + b"\\n".join(new)


own(asked(seeded(first) if mode == "random" else first).replace(b"batch=1\\n", b""))
while (content := read(sys.stdin.buffer)) is not None:
    answer = asked(content)
    if mode == "asleep":
        answer = b"\\xff" * 8 + answer[8:]
    if mode == "liar" and content[0] == 1:
        # SND.UNA and RCV.NXT, far above everything that was sent and acknowledged.
        answer += struct.pack("<BIHII", 6, 0, 0b1001, 1, 2)
    if mode == "unquiet":
        head, late = answer[:12] + late, answer[12:] if content[0] == 1 else b""
        answer = head + (b"" if content[0] == 1 else answer[12:])
    own(answer)
"""


def check(command: str) -> Result:
    words = ["stack", "check", command.removeprefix("exec:"), "--json"]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def wrong(result: Result) -> dict[str, str]:
    return {one["what"]: one["wrong"] for one in json.loads(result.output) if one["wrong"]}


def test_the_list_names_each_stack_with_its_version() -> None:
    result = CliRunner().invoke(app, ["stack", "list"], catch_exceptions=False)
    assert result.exit_code == 0
    # Further versions that were built here are listed, too.
    assert [name for line in result.output.splitlines() if "@" not in (name := line.split()[0])] == [
        "model",
        "smoltcp",
        "gvisor",
        "lwip",
        "pytcp",
        "exec:COMMAND",
    ]
    assert "0.14.0 (socket-tcp-reno, socket-tcp-cubic)" in result.output


def test_the_example_passes_every_check(adapter: Path) -> None:
    result = check(str(adapter))
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.output)) == 25


def test_a_process_that_draws_its_own_random_numbers_differs_in_a_second_run(
    adapter: Path, program: Callable[[str], str]
) -> None:
    result = check(f"{program(AROUND)} random {adapter}")
    assert result.exit_code == 1
    assert "it sends to the model: a second run is the same" in wrong(result)


def test_a_process_that_never_asks_to_be_called_is_found(
    adapter: Path, program: Callable[[str], str]
) -> None:
    found = wrong(check(f"{program(AROUND)} asleep {adapter}"))
    asked = "it asks to be called again while nothing is acknowledged"
    assert found[asked].startswith("it sent 1 packets in 30 s in which nothing arrived")


def test_a_process_that_answers_before_it_has_done_everything_is_found(
    adapter: Path, program: Callable[[str], str]
) -> None:
    found = wrong(check(f"{program(AROUND)} unquiet {adapter}"))
    texts = [why for what, why in found.items() if what.endswith("it is quiet when it answers")]
    assert any("it was not quiet: `advance` to the time of its last answer" in why for why in texts)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "/no/such/program",
            "`/no/such/program`: there is no program `/no/such/program` that can be executed",
        ),
        ("", "give the command of the process, as in `./my-stack --option`"),
    ],
)
def test_a_command_without_a_program_is_refused(command: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        check(command)
    assert str(refused.value) == said


def test_a_state_that_the_segments_contradict_is_named(adapter: Path, program: Callable[[str], str]) -> None:
    result = check(f"{program(AROUND)} liar {adapter}")
    assert result.exit_code == 1
    said = wrong(result)["it sends to the model"]
    assert said.startswith("it showed a state that the segments contradict, ")
    assert "first: SND.UNA: " in said
