"""The agent: its location, its check of cases, and the format of requests.

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
    """The path of the agent: `$TCPASSAY_AGENT`, or the one of this package. Raises `UserError` if there is none."""
    given = os.environ.get("TCPASSAY_AGENT")
    place = Path(given) if given else Path(__file__).parent.parent / "tcpassay-agent"
    if not os.access(place, os.X_OK):
        raise UserError(f"`{place}`: there is no agent; {how_to_get_agent()}")
    return place.resolve()


def how_to_get_agent() -> str:
    """Instructions to obtain the agent, in a source tree or for a wheel that was built without it."""
    sources = Path(__file__).parents[3]
    if (sources / "crates" / "agent").is_dir():
        return f"make -C {sources} agent"
    return "in tcpassay's sources run `make agent`, and set TCPASSAY_AGENT to python/tcpassay/tcpassay-agent there"


def check_case(triples: dict[str, Any], base: str, *where: str) -> dict[str, str]:
    """The settings of a case that differ from the defaults.

    Raises `CaseError` for settings that this substrate does not support.
    """
    answer = _checker(agent_program(), *where).ask(json.dumps({"triples": triples, "base": base}))
    if "errors" in answer:
        raise _native.CaseError([(e["path"], e["other"], e["value"], e["why"]) for e in answer["errors"]])
    said: dict[str, str] = answer["said"]
    return said


class _Checker:
    """An agent process that checks cases; it ends with this process."""

    def __init__(self, program: Path, *where: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [program, "check", *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str) -> dict[str, Any]:
        """Sends a line and returns the answer."""
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
    """A case in the format of the agent, in a guest and on this machine's kernel; paths are absolute."""
    return {
        "triples": triples,
        "seed": seed,
        "base": str(Path(base).resolve()),
        "collect": collect,
        "folder": str(Path(folder).resolve()),
    }


def memory_kills() -> int:
    """The number of processes that the system has killed because of memory shortage."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def killed_outside(code: int) -> bool:
    """Whether the exit code means that an unrelated process ended the process."""
    return -code in {signal.SIGKILL, signal.SIGTERM}
