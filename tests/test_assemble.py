"""The application of typer: with the module of one command it knows this command, with all it knows every command."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from tcpassay import overview
from tcpassay.cli.assemble import MODULES, assembled


def commands(app: typer.Typer) -> set[str]:
    """The names under which commands and groups are called."""
    alone = {one.name or one.callback.__name__.rstrip("_") for one in app.registered_commands if one.callback}
    return alone | {
        group.typer_instance.info.name or "" for group in app.registered_groups if group.typer_instance
    }


def test_the_table_has_all_commands() -> None:
    assert commands(assembled()) == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_the_module_of_a_command_contains_it(name: str) -> None:
    assert name in commands(assembled([name]))


def test_a_call_imports_only_the_module_of_its_command() -> None:
    code = (
        "import sys; sys.argv = ['tcpassay', 'rtt', '--help']\n"
        "from tcpassay import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "print('|', *sorted(name for name in sys.modules if name.startswith('tcpassay.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rpartition("|")[2].split() == [
        "tcpassay.cli.assemble",
        "tcpassay.cli.capture",
        "tcpassay.cli.options",
    ]
    assert "Usage: tcpassay rtt" in done.stdout


def test_the_overview_has_every_command_in_a_group_and_imports_no_typer() -> None:
    code = (
        "import sys; sys.argv = ['tcpassay', '--help']\n"
        "from tcpassay import __main__\n"
        "try: __main__.main()\n"
        "except SystemExit as end: print('|', end.code, 'typer' in sys.modules, 'tcpassay._native' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, _, end = done.stdout.rpartition("|")
    assert end.split() == ["0", "False", "False"]
    assert all(f"\n  {name} " in shown for name in MODULES)
    assert "\nFindings and their causes\n" in shown


@pytest.mark.parametrize("width", [40, 80, 100])
def test_the_overview_has_the_width_of_the_terminal(width: int) -> None:
    assert max(map(len, overview.text(width, styled=False).splitlines())) <= width


def helps(app: typer.Typer) -> dict[str, str]:
    """The help text of every command."""
    made = {
        one.name or getattr(one.callback, "__name__", ""): one.help or "" for one in app.registered_commands
    }
    for group in app.registered_groups:
        if group.typer_instance is not None:
            name = group.typer_instance.info.name
            made |= {f"{name} {inner}": text for inner, text in helps(group.typer_instance).items()}
    return made


def test_the_help_of_every_command_has_an_example() -> None:
    without = [name for name, text in helps(assembled()).items() if "Example" not in text]
    assert without == []


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["plot", "r", "--metric", "a", "--metric", "b"], "--metric"),
        (["run", "p", "--seed=1", "--seed", "2"], "--seed"),
    ],
)
def test_an_option_with_one_value_that_is_given_twice_is_refused(words: list[str], option: str) -> None:
    done = CliRunner().invoke(assembled([words[0]]), words)
    assert done.exit_code == 2
    assert f"`{option}` is given 2 times; give one value" in done.output


def test_an_option_with_several_values_and_a_switch_may_be_given_twice() -> None:
    words = ["table", "/nonexistent", "--metric", "a", "--metric", "b", "--json", "--json"]
    assert "is given" not in CliRunner().invoke(assembled(["table"]), words).output
