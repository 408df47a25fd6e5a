"""The files of an isolation in `isolate/` of a result folder: its runs, and for each cause a file and a plan."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from tcpassay import _native
from tcpassay._native import __version__
from tcpassay.errors import Place, UserError
from tcpassay.isolate.cause import Cause, CauseRow
from tcpassay.kernel import store
from tcpassay.output import write_whole
from tcpassay.plan import write
from tcpassay.plan.fields import Scalar
from tcpassay.plan.model import PlanFile
from tcpassay.recording import read_json
from tcpassay.run.environment import table_version
from tcpassay.seal import checksum, seal
from tcpassay.substrate import release
from tcpassay.substrate.agent import agent_program

FOLDER: Final = "isolate"
FORMAT: Final = 2


def meaning(
    substrates: Iterable[str], oracles: Iterable[str], commands: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """A digest of the inputs of a run besides its case: programs, kernels, commands of `exec:` and oracles."""
    judge = Path(__file__).parent.parent / "judge"
    sources = b"".join(file.read_bytes() for file in sorted(judge.rglob("*.py")))
    made: dict[str, str | None] = {
        "tcpassay": __version__,
        "tables": table_version(),
        "data plane": _of_file(Path(str(_native.__file__))),
        "oracles": checksum(sources + json.dumps(sorted(oracles)).encode()),
    }
    made |= commands or {}
    for name in sorted(substrates):
        if name != "model":
            made[name] = release(name)
        if name.partition(":")[0] != "model":
            made["agent"] = _of_file(agent_program())
    return made


def programs(substrates: Iterable[str]) -> dict[Path, str]:
    """The files that runs on these substrates execute, with what each is."""
    made = {Path(str(_native.__file__)): "the native module"}
    for name in substrates:
        kind, _, which = name.partition(":")
        if kind != "model":
            made[agent_program()] = "the agent"
        if kind == "kernel":
            made[store.find(which or None).folder / "kernel.json"] = f"the kernel of `{name}`"
    return made


def _of_file(file: Path) -> str:
    return checksum(file.read_bytes())


def write_cause(folder: Path, cause: Cause, base: Path) -> None:
    """Writes the file of a cause and its plan. Raises `UserError` when they cannot be written."""
    name = f"{cause.effect.oracle}-{cause.case}-{cause.seed}"
    plan = folder / FOLDER / f"{name}.toml"
    cause.plan = str(plan)
    text = json.dumps(
        {"format": FORMAT, "tcpassay": __version__, **cause.as_json()}, indent=1, allow_nan=False
    )
    try:
        write_whole(plan, plan_text(cause, base))
        write_whole(folder / FOLDER / f"{name}.json", seal(text + "\n"))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UserError(f"the cause cannot be written: {reason}", Place(plan)) from None


def plan_text(cause: Cause, base: Path) -> str:
    """A plan of one run that shows the effect."""
    triples = cause.case_triples() if cause.smallest is None else dict(cause.smallest.triples)
    spec = {
        "name": cause.effect.oracle,
        "doc": f"The smallest run that was found to show: {cause.effect.title}.",
        "substrates": [cause.substrate],
        "seeds": [cause.seed],
        "fixed": {path: write.absolute(value, base) for path, value in triples.items()},
        "collect": {"events": True, "packets": True},
        "keep": {"recordings": "all"},
    }
    return write.toml(PlanFile.model_validate(spec), f"Isolated from case {cause.case}, seed {cause.seed}.")


def causes(folder: Path) -> list[CauseRow]:
    """The causes that were isolated in a result folder. Raises `DamagedError` for a file that is damaged."""
    # The checksum at the end of a file ensures its form.
    return [cast("CauseRow", read_json(file)) for file in sorted((folder / FOLDER).glob("*.json"))]


def neighbour(
    folder: Path, case: str, seed: int, oracle: str
) -> tuple[dict[str, Scalar], dict[str, Scalar]] | None:
    """A run that shows a finding, and the same run with one triple of its cause reset, in which the finding is gone.

    Both as what the case sets; `None` when the finding was not isolated.
    """
    for cause in causes(folder):
        explained = ((one["case"], one["seed"], one["oracle"]) for one in cause["explains"])
        gone = [row for row in cause["proof"] if row["gone"]]
        if (case, seed, oracle) in explained and gone:
            shows = {one["path"]: one["value"] for one in cause["cause"]} | cause["run"]
            return shows, min(gone, key=lambda row: len(row["also_reset"]))["triples"]
    return None
