"""Exit codes of commands that end with a panic of the data plane or an unexpected exception."""

import subprocess
import sys

import pytest

COMMAND = """\
from tcpassay import _native, guard
def command():
    raise {raised}
guard.guarded(command)
"""


def ended(raised: str) -> tuple[int, str]:
    """Exit code and standard error of a command that raises this."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(raised=raised)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("_native.PanicException('overflow')", "PanicException"),
        ("ZeroDivisionError('division')", "ZeroDivisionError"),
    ],
)
def test_a_panic_and_an_unexpected_exception_are_bugs_with_an_exit_code_of_their_own(
    raised: str, kind: str
) -> None:
    code, told = ended(raised)
    assert code == 70
    assert "Traceback" in told
    assert f"tcpassay: this is a bug of tcpassay ({kind}); please report it with the lines above" in told


def test_an_exit_an_interrupt_and_an_error_of_the_environment_keep_their_codes() -> None:
    assert ended("SystemExit(1)") == (1, "")
    assert ended("KeyboardInterrupt()") == (130, "tcpassay: interrupted\n")
    assert ended("FileNotFoundError(2, 'No such file or directory', 'x')")[0] == 2
