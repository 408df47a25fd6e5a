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


def listed() -> list[Listed]:
    """All of them. The version of smoltcp is the one that a run reports."""
    triples = {"stack.implementation": "smoltcp", "app.duration": "1ms"}
    ran = _native.run_held(triples=triples, seed=1, base=".", collect=METRICS_ONLY)
    smoltcp = json.loads(ran.index())["header"]["stacks"][0]
    built = [
        Listed(
            name,
            "built" if is_built(name) else f"missing: tcpassay stack build {name}",
            "a process for each host",
        )
        for name in RECIPES
    ]
    return [
        Listed("model", _native.__version__, "this process"),
        Listed(smoltcp["name"], smoltcp["version"], "this process"),
        *built,
        Listed("exec:COMMAND", "as it reports", "a process for each host"),
    ]
