"""The agent: its location, its check of cases, and the format of requests.

It runs cases in guests (`substrate.kernel`) and on this machine's kernel (`substrate.host`).
"""

import json
import os
import resource
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Final, NotRequired, Protocol, TypedDict

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.interface import RunEnd
from tcpassay.messages import Answer, CaseRequest, Collect, Metrics, Outcome, Triples
from tcpassay.substrate.base import Folder, RunArtifacts

ENDED: Final = frozenset((RunEnd.DURATION, RunEnd.FINISHED, RunEnd.EVENT_LIMIT))
"""The ends of a run that has metrics."""
PATIENCE_S: Final = 600.0
"""Real time after which a run is stopped, if the request has no limit."""


class AgentCase(TypedDict):
    """A case in the format of the agent (`crates/agent/src/request.rs`); paths are absolute."""

    triples: Triples
    seed: int
    base: str
    collect: Collect
    folder: str
    patience_s: NotRequired[float]
    """Maximum time on a host to wait for the machine to be idle."""
    bare: NotRequired[dict[str, bool] | None]
    tamper: NotRequired[list[tuple[str, str, str]]]
    objects: NotRequired[dict[str, str]]
    """Files with the content of the object files that the case names, by name."""


class RunCase(Protocol):
    """Runs a case on a kernel and writes its recording to `folder`; errors become the outcome."""

    def __call__(  # noqa: PLR0913 - the request of `_native.run_case`, and what bounds it
        self, *, triples: Triples, seed: int, base: str, collect: Collect, folder: str, patience_s: float
    ) -> Answer:
        """Returns how the run ended."""


class AgentError(TypedDict):
    """A setting that the agent refuses; `other` is the setting that it contradicts."""

    path: str
    other: str | None
    value: str | None
    why: str


class AgentMetrics(TypedDict):
    """The metrics in an answer of the agent."""

    values: Metrics


class AgentAnswer(TypedDict, total=False):
    """The answer of the agent to a case."""

    ended: str
    """A `RunEnd`."""
    message: str
    errors: list[AgentError]
    trace: str
    metrics: AgentMetrics


class Checked(TypedDict, total=False):
    """The answer of the agent to the question whether a case can run: one of both."""

    said: dict[str, str]
    errors: list[AgentError]


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


def check_case(triples: Triples, base: str, *where: str) -> dict[str, str]:
    """The settings of a case that differ from the defaults.

    Raises `CaseError` for settings that this substrate does not support.
    """
    answer = _checker(agent_program(), *where).ask(json.dumps({"triples": dict(triples), "base": base}))
    if "errors" in answer:
        raise _native.CaseError([(e["path"], e["other"], e["value"], e["why"]) for e in answer["errors"]])
    return answer["said"]


class _Checker:
    """An agent process that checks cases; it ends with this process."""

    def __init__(self, program: Path, *where: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [program, "check", *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str) -> Checked:
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
        read: Checked = json.loads(answer)
        return read


@cache
def _checker(program: Path, *where: str) -> _Checker:
    return _Checker(program, *where)


def request(triples: Triples, seed: int, base: str, collect: Collect, folder: str) -> AgentCase:
    """A case in the format of the agent, in a guest and on this machine's kernel."""
    return {
        "triples": dict(triples),
        "seed": seed,
        "base": str(Path(base).resolve()),
        "collect": collect,
        "folder": str(Path(folder).resolve()),
    }


def run_request(run_case: RunCase, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
    """Runs the case of a request with the time limit `seconds` of the request."""
    answer = run_case(
        triples=request.triples,
        seed=request.seed,
        base=request.base,
        collect=request.collect,
        folder=request.folder,
        patience_s=request.seconds or PATIENCE_S,
    )
    return answer, Folder(request.folder) if answer.outcome == Outcome.DONE else None


def answer_of(text: str) -> Answer:
    """The result of a run in the agent's answer. Raises `ValueError` for a text that is not an answer."""
    said: AgentAnswer = json.loads(text)
    ended = RunEnd(said["ended"])
    if ended in ENDED:
        return Answer("done", "", said.get("trace", ""), metrics=said["metrics"]["values"])
    if ended is RunEnd.REFUSED:
        return Answer("refused", "; ".join(f"`{e['path']}`: {e['why']}" for e in said["errors"]))
    return Answer("path" if ended is RunEnd.PATH else "failed", said.get("message", ""))


def memory_kills() -> int:
    """The number of processes that the system has killed because of memory shortage."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class ChildUsage:
    """The resources that the child processes of this process have used since the creation of this object."""

    def __init__(self) -> None:
        self._cpu_s = _children_cpu_s()
        self._kills = memory_kills()

    def cpu_s(self) -> float:
        """CPU time of those that have ended, in seconds."""
        return _children_cpu_s() - self._cpu_s

    def starved(self) -> bool:
        """Whether the system has killed a process because of memory shortage."""
        return memory_kills() > self._kills


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def killed_outside(code: int) -> bool:
    """Whether the exit code means that an unrelated process ended the process."""
    return -code in {signal.SIGKILL, signal.SIGTERM}
