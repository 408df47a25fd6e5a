"""The typer application `tcpassay`, with all commands or only with the command that is called.

Importing the modules of all commands takes half a second, and a call needs only one of them.
"""

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from tcpassay._native import __version__
from tcpassay.overview import COMMANDS

MODULES: Final = {one.name: one.module for one in COMMANDS.values()}
"""Commands, and the module of `tcpassay.cli` that contains each, in the order of the help text."""


def assembled(commands: Iterable[str] = MODULES) -> typer.Typer:
    """Returns the application with the modules of these commands."""
    app = typer.Typer(
        name="tcpassay",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in dict.fromkeys(MODULES[command] for command in commands):
        module = import_module(f"tcpassay.cli.{name}")
        if hasattr(module, "add"):
            module.add(app)
        else:
            app.add_typer(module.app)
    _join_lines(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcpassay {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Test TCP implementations: run plans, evaluate the results with checks and oracles, and compare them."""


class _Command(TyperCommand):
    """A command that refuses an option with one value that is given twice.

    In its help text `--help` has no value, like the other switches.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        order: list[Any] = list(self.make_parser(ctx).parse_args(args=list(args))[2])
        given = [
            one for one in order if one.param_type_name == "option" and not one.multiple and not one.is_flag
        ]
        if twice := next((one for one in given if given.count(one) > 1), None):
            ctx.fail(f"`{max(twice.opts, key=len)}` is given {given.count(twice)} times; give one value")
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return _without_value(super().get_help_option(ctx))


class _Group(TyperGroup):
    """A group of commands with this help text."""

    def get_help_option(self, ctx: Any) -> Any:
        return _without_value(super().get_help_option(ctx))


def _without_value(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


def _join_lines(commands: typer.Typer) -> None:
    """Makes each paragraph of the help texts one line, which is then wrapped at the width of the terminal."""
    for command in commands.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.cls = _Command
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        for annotation in command.callback.__annotations__.values() if command.callback else ():
            if getattr(annotation, "__origin__", None) is bool:
                # A switch has no value; the help text would show `<bool>`.
                annotation.__metadata__[0].metavar = ""
    for group in commands.registered_groups:
        group.cls = _Group
        if group.typer_instance is not None:
            _join_lines(group.typer_instance)
