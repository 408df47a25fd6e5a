"""The values of `stack.implementation`, with their versions."""

import json
from dataclasses import asdict, dataclass

from tcpassay import _native
from tcpassay.messages import METRICS_ONLY
from tcpassay.stacks.build import RECIPES, is_built


@dataclass(frozen=True, slots=True)
class Listed:
    """A TCP that hosts of the model can have."""

    implementation: str
    version: str
    where: str

    def as_json(self) -> dict[str, str]:
        """For machines."""
        return asdict(self)


def _stack(implementation: str) -> tuple[str, str]:
    """The name and version that a run reports."""
    triples = {"stack.implementation": implementation, "app.duration": "1ms"}
    ran = _native.run_held(triples=triples, seed=1, base=".", collect=METRICS_ONLY)
    stack = json.loads(ran.index())["header"]["stacks"][0]
    return stack["name"], stack["version"]


def built_version(name: str) -> str:
    """The version of a TCP that `stack build` knows, or how to get it."""
    if not is_built(name):
        return f"missing: tcpassay stack build {name}"
    try:
        return _stack(name)[1]
    except _native.StackError as error:
        return f"broken: {error.args[1].splitlines()[0]}"


def listed() -> list[Listed]:
    """All of them, with the versions that they report."""
    smoltcp, version = _stack("smoltcp")
    built = [Listed(name, built_version(name), "a process for each host") for name in RECIPES]
    return [
        Listed("model", _native.__version__, "this process"),
        Listed(smoltcp, version, "this process"),
        *built,
        Listed("exec:COMMAND", "as it reports", "a process for each host"),
    ]
