"""Runs a case on the kernel of this machine in real time: `tcpassay-agent host`, which needs root.

The agent creates all objects in its own namespaces, which the kernel removes with it, and it ends with this process.
Only one agent runs at a time. Requests and answers are those of `substrate/kernel.py`.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from tcpassay.errors import UserError
from tcpassay.substrate.agent import agent_program, check_case, killed_outside, memory_kills, request
from tcpassay.substrate.base import Answer, Folder, Left, Triples

# Real time after which a case is stopped, if the request has no limit.
PATIENCE_S: Final = 600.0
# Maximum time that a run waits for the machine to be idle; the recording contains the load.
QUIET_S: Final = 10.0


def ready() -> None:
    """Raises `UserError` with instructions if cases cannot run here."""
    agent_program()
    if os.geteuid() != 0:
        raise UserError(
            f"the substrate `host` needs root, and this is user {os.geteuid()}: run it with sudo; "
            "`model` and `kernel` need none"
        )


def run_case(  # noqa: PLR0913 - the request of `_native.run_case`, and what bounds it
    *,
    triples: dict[str, Any],
    seed: int,
    base: str,
    collect: dict[str, Any],
    folder: str,
    patience_s: float = PATIENCE_S,
    quiet_s: float = QUIET_S,
    bare: dict[str, bool] | None = None,
) -> dict[str, Any]:
    """Runs a case and writes its recording to `folder`; errors become the outcome.

    The answer has `outcome` (`done`, `refused`, `path`, `failed`, `crashed`, `timeout`, `memory`), `message`, `cpu_s`;
    for `done` also `trace` and `metrics`; and `outside` if an unrelated process killed the agent. With `bare` the two
    hosts of a pair are connected by a veth pair only; its `taps` collect packets nevertheless, and its `copy` lets bulk
    receivers copy the data that they read.
    """
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    case = request(triples, seed, base, collect, folder) | {"patience_s": quiet_s, "bare": bare}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    starved = memory_kills()
    try:
        ran = subprocess.run(  # noqa: S603 - our own program
            [agent_program(), "host"],
            input=json.dumps(case),
            capture_output=True,
            text=True,
            check=False,
            timeout=patience_s,
        )
        answer = _outcome(ran, starved=memory_kills() > starved)
    except subprocess.TimeoutExpired:
        answer = {"outcome": "timeout", "message": f"the agent was ended after {patience_s:g} s"}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if answer["outcome"] != "done":
        shutil.rmtree(folder, ignore_errors=True)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer | {"cpu_s": cpu}


def _outcome(ran: subprocess.CompletedProcess[str], *, starved: bool) -> dict[str, Any]:
    """The answer of the agent as an outcome."""
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        if killed_outside(ran.returncode) and starved:
            return {"outcome": "memory", "message": "the system killed the agent, for want of memory"}
        if killed_outside(ran.returncode):
            how = f"somebody ended the agent with {signal.Signals(-ran.returncode).name}"
            return {"outcome": "crashed", "message": how, "outside": True}
        said = ran.stderr.strip() or "it said nothing"
        return {"outcome": "crashed", "message": f"the agent ended with exit code {ran.returncode}: {said}"}
    if answer["ended"] in {"duration", "finished"}:
        metrics = answer["metrics"]["values"]
        return {"outcome": "done", "message": "", "trace": answer.get("trace", ""), "metrics": metrics}
    if answer["ended"] == "refused":
        message = "; ".join(f"`{e['path']}`: {e['why']}" for e in answer["errors"])
        return {"outcome": "refused", "message": message}
    return {"outcome": "path" if answer["ended"] == "path" else "failed", "message": answer["message"]}


class Host:
    """The kernel of this machine in real time."""

    real_time = True

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults, according to the agent.

        As root it also checks the features of the kernel.
        """
        return check_case(dict(triples), base, "host")

    def ready(self) -> None:
        """Requires root and an agent."""
        ready()

    def run(self, request: dict[str, Any]) -> tuple[Answer, Left | None]:
        """Runs a case with the time limit `seconds` of the request."""
        asked = {name: request[name] for name in ("triples", "base", "seed", "collect", "folder")}
        answer = run_case(**asked, patience_s=request.get("seconds") or PATIENCE_S)
        answer["elsewhere_s"] = answer.pop("cpu_s")
        return answer, Folder(request["folder"]) if answer["outcome"] == "done" else None
