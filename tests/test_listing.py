"""`params`, `metrics` and `completion`, at the width of the terminal; messages that name what is allowed."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tcpassay import listing
from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.plan import table as tables
from tcpassay.plan.read import read

COMMAND = [sys.executable, "-m", "tcpassay"]


def tcpassay(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    said = {"capture_output": True, "text": True, "timeout": 600} | options
    return subprocess.run([*COMMAND, *arguments], check=False, **said)  # type: ignore[call-overload,no-any-return]


def test_one_parameter_is_shown_in_full() -> None:
    done = tcpassay("params", "stack.cc")
    assert done.stdout.startswith("stack.cc  default reno")
    assert "Typical levels: reno, cubic, dctcp, vegas, mvegas" in done.stdout


def test_metrics_are_chosen_by_name_by_pattern_or_by_a_part() -> None:
    for name, first, count in (
        ("rtt_p99", "rtt_p99", 1),
        ("rtt_*", "rtt_mean", 8),
        ("jain", "jain_flows", 3),
    ):
        # A long meaning continues below itself.
        lines = [
            line for line in tcpassay("metrics", name).stdout.splitlines()[1:] if not line.startswith(" ")
        ]
        assert (lines[0].split()[0], len(lines)) == (first, count)


def test_a_name_that_is_none_is_refused_with_the_nearest() -> None:
    done = tcpassay("metrics", "goodputt")
    assert (done.returncode, done.stderr) == (
        2,
        "tcpassay: `goodputt`: no such metric; did you mean `goodput`?\n",
    )
    done = tcpassay("params", "link.rates")
    assert (done.returncode, done.stderr) == (
        2,
        "tcpassay: `link.rates`: no such parameter; did you mean `link.rate`?\n",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell: str) -> None:
    assert "_TCPASSAY_COMPLETE=complete_" in tcpassay("completion", shell).stdout


def test_the_script_of_bash_completes_commands() -> None:
    script = tcpassay("completion", "bash").stdout
    asked = (
        script
        + '\nCOMP_WORDS=(tcpassay comp); COMP_CWORD=1; _tcpassay_completion tcpassay; echo "${COMPREPLY[@]}"'
    )
    folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", asked],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
    )
    assert done.stdout.split() == ["completion", "compare"] or done.stdout.split() == [
        "compare",
        "completion",
    ]


def test_another_shell_is_refused() -> None:
    assert "allowed are bash, zsh, fish" in tcpassay("completion", "tcsh").stderr


@pytest.mark.parametrize("arguments", [["params"], ["metrics"], ["oracles"]])
def test_through_a_pipe_lines_are_as_wide_as_the_terminal(arguments: list[str]) -> None:
    # What a shell has with `tcpassay params | less`: standard error is the terminal.
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    done = tcpassay(*arguments, capture_output=False, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    os.close(leader)
    lines = done.stdout.splitlines()
    assert len(lines) > 20
    assert max(map(len, lines)) <= 80


def test_a_reader_that_stops_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = tcpassay("params", capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "x"\nsubstrates = ["kernl"]\n', "`substrates[0]` = `kernl`: allowed is `model`, `model:STACK`"),
        (f'name = "{"n" * 120}"\n', "allowed is a text of at most 100 characters; it has 120"),
        ('name = "x"\n[fixed]\n"stack.cc" = "bic"\n', "`stack.cc` = `bic`: the model does not have this controller"),
        ('name = "x"\n[fixed]\n"stack.cc" = "rneo"\n', "`stack.cc` = `rneo`: allowed is reno, cubic"),
    ],
)  # fmt: skip
def test_a_message_says_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        read(text, Path("x.toml"))
    assert said in str(error.value)


def test_parameters_and_metrics_are_found_by_words_of_their_meaning_and_other_names() -> None:
    assert [row.path for row in listing.searched(tables.parameters(), ["bandwidth"], "parameter")][:1] == [
        "link.rate"
    ]
    assert "stack.cc" in [
        row.path for row in listing.searched(tables.parameters(), ["congestion", "controller"], "parameter")
    ]
    assert [str(row.name) for row in listing.searched(METRICS, ["fairness"], "metric")][:2] == [
        "jain_flows",
        "jain_hosts",
    ]
    with pytest.raises(UserError, match=r"`xyzzy`: no such parameter; `tcpassay params` lists all"):
        listing.searched(tables.parameters(), ["xyzzy"], "parameter")
