"""The values of `stack.implementation`, with their versions."""

from dataclasses import asdict, dataclass

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.stacks.build import RECIPES, SMOLTCP, command, is_built, others, recipe_of
from tcpassay.stacks.measure.peer import HOST, MTU


@dataclass(frozen=True, slots=True)
class Listed:
    """A TCP that hosts of the model can have."""

    implementation: str
    version: str
    where: str

    def as_json(self) -> dict[str, str]:
        """For machines."""
        return asdict(self)


def version(implementation: str) -> str:
    """The version that a host reports. Raises `_native.StackError`."""
    return _stack(implementation)[1]


def _stack(implementation: str) -> tuple[str, str]:
    """The name and version that a host reports."""
    return _native.StackHost(command(implementation), HOST, MTU, 1, {}).about()


def built_version(name: str) -> str:
    """The version of a TCP that `stack build` knows, or how to get it."""
    if not is_built(name):
        return f"missing: tcpassay stack build {name}"
    try:
        return version(name)
    except _native.StackError as error:
        return f"broken: {error.args[1].splitlines()[0]}"


def checked_name(name: str) -> None:
    """Raises `UserError` unless a host can have this TCP instead of the model."""
    if name == SMOLTCP or name.startswith("exec:"):
        return
    if name.partition("@")[0] not in {SMOLTCP, *RECIPES}:
        allowed = ", ".join([SMOLTCP, *RECIPES])
        raise UserError(f"`{name}` is not another TCP; allowed are {allowed} and `exec:<command>`")
    recipe_of(name)
    if not is_built(name):
        raise UserError(f"`{name}` has not been built: tcpassay stack build {name}")


def column(name: str) -> str:
    """Name and version of a TCP, as it reports them. Raises `UserError` if it does not start."""
    try:
        reported, number = _stack(name)
    except _native.StackError as error:
        outcome, why = error.args
        raise UserError(f"`{name}`: outcome `{outcome}`: {why}") from None
    return f"{reported} {number}"


def named(name: str) -> str:
    """The value of `stack.implementation` of a name on the command line: a command with a `/` needs no `exec:`."""
    return f"exec:{name}" if "/" in name and not name.startswith("exec:") else name


def listed() -> list[Listed]:
    """All of them, with the versions that they report."""
    smoltcp, number = _stack("smoltcp")
    built = [Listed(name, built_version(name), "a process for each host") for name in [*RECIPES, *others()]]
    return [
        Listed("model", _native.__version__, "this process"),
        Listed(smoltcp, number, "this process"),
        *built,
        Listed("exec:COMMAND", "as it reports", "a process for each host"),
    ]
