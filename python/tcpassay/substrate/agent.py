"""The agent: where its program is, what it says of a case, and what a request to it and its end mean.

It runs cases in guests (`substrate.kernel`) and on this machine's kernel (`substrate.host`).
"""

import json
import os
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tcpassay import _native
from tcpassay.errors import UserError


def agent_program() -> Path:
    """The agent's program: `$TCPASSAY_AGENT`, or the one beside this package. Raises `UserError` when there is none."""
    given = os.environ.get("TCPASSAY_AGENT")
    place = Path(given) if given else Path(__file__).parent.parent / "tcpassay-agent"
    if not os.access(place, os.X_OK):
        raise UserError(f"`{place}`: there is no agent; {how_to_get_agent()}")
    return place.resolve()


def how_to_get_agent() -> str:
    """What whoever has no agent can do: in the project's sources, or with a wheel that was built without one."""
    sources = Path(__file__).parents[3]
    if (sources / "crates" / "agent").is_dir():
        return f"make -C {sources} agent"
    return "in tcpassay's sources run `make agent`, and set TCPASSAY_AGENT to python/tcpassay/tcpassay-agent there"


def check_case(triples: dict[str, Any], base: str, *where: str) -> dict[str, str]:
    """What a case sets beyond the defaults. Raises `CaseError` for what this substrate (or `host`) cannot do."""
    answer = _checker(agent_program(), *where).ask(json.dumps({"triples": triples, "base": base}))
    if "errors" in answer:
        raise _native.CaseError([(e["path"], e["other"], e["value"], e["why"]) for e in answer["errors"]])
    said: dict[str, str] = answer["said"]
    return said


class _Checker:
    """An agent that is asked about one case after the other; it ends with this process."""

    def __init__(self, program: Path, *where: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [program, "check", *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str) -> dict[str, Any]:
        """The answer to a line."""
        into, out = self._process.stdin, self._process.stdout
        if into is None or out is None:
            raise RuntimeError("it is started with both piped")
        into.write(line + "\n")
        into.flush()
        answer = out.readline()
        if not answer:
            raise UserError(
                f"the agent ended when it was asked about a case (exit code {self._process.wait()})"
            )
        read: dict[str, Any] = json.loads(answer)
        return read


@cache
def _checker(program: Path, *where: str) -> _Checker:
    return _Checker(program, *where)


def request(
    triples: dict[str, Any], seed: int, base: str, collect: dict[str, Any], folder: str
) -> dict[str, Any]:
    """A case as the agent reads it, in a guest and on this machine's kernel: paths are absolute."""
    return {
        "triples": triples,
        "seed": seed,
        "base": str(Path(base).resolve()),
        "collect": collect,
        "folder": str(Path(folder).resolve()),
    }


def memory_kills() -> int:
    """How many processes this machine has killed for want of memory."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def killed_outside(code: int) -> bool:
    """Whether a process of this exit code was ended by somebody who had no business with it."""
    return -code in {signal.SIGKILL, signal.SIGTERM}
