"""Runs a case on the kernel of this machine in real time: `tcpassay-agent host`, which needs root.

The agent creates all objects in its own namespaces, which the kernel removes with it, and it ends with this process.
Only one agent runs at a time. Requests and answers are those of `substrate/kernel.py`.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.messages import Answer, CaseRequest, Collect, Outcome, Triples
from tcpassay.substrate.agent import (
    PATIENCE_S,
    ChildUsage,
    agent_program,
    answer_of,
    check_case,
    killed_outside,
    request,
    run_request,
)
from tcpassay.substrate.base import RunArtifacts
from tcpassay.trust import sealed

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
    triples: Triples,
    seed: int,
    base: str,
    collect: Collect,
    folder: str,
    patience_s: float = PATIENCE_S,
    quiet_s: float = QUIET_S,
    bare: dict[str, bool] | None = None,
) -> Answer:
    """Runs a case and writes its recording to `folder`; errors become the outcome.

    With `bare` the two hosts of a pair are connected by a veth pair only; its `taps` collect packets nevertheless, and
    its `copy` lets bulk receivers copy the data that they read.
    """
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    case = request(triples, seed, base, collect, folder)
    case["patience_s"], case["bare"] = quiet_s, bare
    usage = ChildUsage()
    with contextlib.ExitStack() as held:
        try:
            objects = held.enter_context(sealed.objects(triples, Path(base)))
        except OSError as error:
            return Answer("failed", f"`{sealed.OBJECTS}`: {error}")
        case["objects"] = {name: f"/proc/self/fd/{handle}" for name, handle in objects.items()}
        try:
            ran = subprocess.run(  # noqa: S603 - our own program
                [agent_program(), "host"],
                input=json.dumps(case),
                capture_output=True,
                text=True,
                check=False,
                timeout=patience_s,
                pass_fds=tuple(objects.values()),
            )
            answer = _outcome(ran, starved=usage.starved())
        except subprocess.TimeoutExpired:
            answer = Answer("timeout", f"the agent was ended after {patience_s:g} s")
    if answer.outcome != Outcome.DONE:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(answer, cpu_s=usage.cpu_s())


def _outcome(ran: subprocess.CompletedProcess[str], *, starved: bool) -> Answer:
    """The answer of the agent, or how it ended without one."""
    try:
        return answer_of(ran.stdout)
    except ValueError:
        if killed_outside(ran.returncode) and starved:
            return Answer("memory", "the system killed the agent, for want of memory")
        if killed_outside(ran.returncode):
            how = f"somebody ended the agent with {signal.Signals(-ran.returncode).name}"
            return Answer("crashed", how, outside=True)
        said = ran.stderr.strip() or "it said nothing"
        return Answer("crashed", f"the agent ended with exit code {ran.returncode}: {said}")


class Host:
    """The kernel of this machine in real time."""

    real_time = True

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults, according to the agent.

        As root it also checks the features of the kernel.
        """
        return check_case(triples, base, "host")

    def ready(self) -> None:
        """Requires root and an agent."""
        ready()

    def run(self, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
        """Runs a case with the time limit `seconds` of the request."""
        return run_request(run_case, request)
