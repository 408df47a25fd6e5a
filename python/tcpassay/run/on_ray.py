"""Runs requests on an existing Ray cluster (the extra `tcpassay[ray]`).

There is one actor per CPU. Each has its own worker process, as in the local pool, so that runs that crash, hang or
exhaust memory have the same outcomes, and the numbers are identical. The nodes need no shared file system: the files
that a plan names are sent to the actors, and kept recordings are sent back. Every node must have the same version of
tcpassay; an actor with another version is detected before runs are made.
"""

import contextlib
import io
import os
import shutil
import socket
import sys
import tarfile
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any, Final

from tcpassay import scratch
from tcpassay._native import __version__
from tcpassay.errors import UserError
from tcpassay.messages import Answer, CaseRequest, Outcome
from tcpassay.run import inputs
from tcpassay.run.answers import answer_of, payload_of
from tcpassay.run.environment import table_version
from tcpassay.run.pool import Limits, Single

SCHEME: Final = "ray"
_ATTEMPTS: Final = 3
"""Attempts to join a cluster."""
_KNOCK_SECONDS: Final = 10
_STOP_SECONDS: Final = 10
_MOST_FAILURES: Final = 3
"""Maximum number of consecutive actors that do not start."""
_LOOK: Final = 5.0
"""Interval of checks for available CPUs in seconds."""
_MOST_QUOTED: Final = 200
"""Characters of an answer that is none, in a message."""
Version = tuple[str, str]


class Remote:
    """The code of an actor on its node."""

    def __init__(self, limits: Limits, files: dict[str, bytes]) -> None:
        self._single = Single(limits)
        self._kept = contextlib.ExitStack()
        self._home = self._kept.enter_context(scratch.folder())
        for name, content in files.items():
            target = self._home / inputs.FOLDER / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def version(self) -> Version:
        """The version of tcpassay and its tables on this node."""
        return __version__, table_version()

    def ask(self, request: CaseRequest, base: str) -> tuple[Answer, bytes]:
        """The answer, and the recording as an archive if it is kept; `base` is relative to the folder of the copies."""
        there = self._home / base
        there.mkdir(parents=True, exist_ok=True)
        place = self._home / "recording"
        try:
            answer = self._single.ask(replace(request, base=str(there), folder=str(place)))
            return answer, _pack(place) if answer.kept else b""
        finally:
            for left in (place, place.with_name(f".{place.name}.partial")):
                shutil.rmtree(left, ignore_errors=True)

    def stop(self) -> None:
        """Ends the worker and removes its files."""
        self._single.stop()
        self._kept.close()


class OnRay:
    """An executor on a cluster."""

    name = SCHEME

    def __init__(self, address: str, jobs: int | None) -> None:
        """Connects: `ray` is the cluster of this machine, `ray://HOST:PORT` a remote one.

        Raises `UserError`.
        """
        self._ray = _module()
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the default of future versions
        try:
            _knock(os.environ.get("RAY_ADDRESS", "") if address == SCHEME else address)
            self._connect("auto" if address == SCHEME else address)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            said = " ".join(dict.fromkeys((lines[0], lines[-1].strip())))
            message = (
                f"`--executor {address}`: there is no cluster: {said}; `ray start --head` begins one here"
            )
            raise UserError(message) from error
        cores = self._cores()
        if cores < 1:
            raise UserError(f"`--executor {address}`: the cluster has no CPU to run on")
        self.jobs = min(jobs or cores, cores)

    def _connect(self, address: str) -> None:
        """Joins the cluster, with several attempts.

        Behind the client port Ray starts a process for this client; its time limit is too short for a busy machine.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
            except ConnectionAbortedError:
                if attempt == _ATTEMPTS:
                    raise
                self._ray.shutdown()
            else:
                return

    def run(self, requests: Iterable[CaseRequest], limits: Limits) -> Generator[list[tuple[int, Answer]]]:
        """Runs all requests; the request of an actor whose node is lost is repeated.

        If fewer CPUs are left than before, they process the remaining requests. Raises `UserError` if none are left, or
        if the cluster is not reachable.
        """
        waiting = enumerate(requests)
        fleet = _Fleet(self._ray, limits)
        following = next(waiting, None)
        try:
            while following is not None or fleet.busy:
                while following is not None and (idle := fleet.idle()):
                    fleet.ask(idle[0], *following)
                    following = next(waiting, None)
                if following is not None and len(fleet.actors) < self.jobs:
                    fleet.start(_files(Path(following[1].base)))
                    continue
                if some := list(fleet.answers()):
                    yield some
                if not fleet.busy and following is not None and self._cores() < 1:
                    raise UserError("the Ray cluster has no CPU left to run on")
        except (ConnectionError, self._ray.exceptions.RaySystemError) as error:
            raise UserError(f"the Ray cluster cannot be reached any more: {error}") from error
        finally:
            fleet.stop()

    def _cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))


@dataclass(slots=True)
class _Task:
    """The task of an actor: a request, or at first its version."""

    actor: Any
    index: int = -1
    request: CaseRequest | None = None


class _Fleet:
    """The actors and their tasks. An actor without a free CPU waits to be started without blocking others."""

    def __init__(self, ray: Any, limits: Limits) -> None:
        self._ray = ray
        self._limits = limits
        self._tasks: dict[Any, _Task] = {}
        self._files: dict[str, bytes] = {}
        self._failures = 0
        self.actors: list[Any] = []

    @property
    def busy(self) -> bool:
        """Whether a request is in progress."""
        return any(task.request is not None for task in self._tasks.values())

    def idle(self) -> list[Any]:
        """Actors that have started and have no task."""
        return [
            actor for actor in self.actors if all(task.actor is not actor for task in self._tasks.values())
        ]

    def start(self, files: dict[str, bytes]) -> None:
        """Adds an actor, which starts when a CPU is available."""
        self._files = self._files or files
        actor = self._ray.remote(Remote).options(num_cpus=1).remote(self._limits, self._files)
        self.actors.append(actor)
        self._tasks[actor.version.remote()] = _Task(actor)

    def ask(self, actor: Any, index: int, request: CaseRequest) -> None:
        """Passes a request to an idle actor."""
        self._tasks[actor.ask.remote(request, _relative(request.base))] = _Task(actor, index, request)

    def answers(self) -> Iterator[tuple[int, Answer]]:
        """Waits for answers with a timeout."""
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=_LOOK)
        for reference in ready:
            task = self._tasks.pop(reference)
            try:
                said = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self.actors.remove(task.actor)
                if task.request is None:
                    self._unstarted(error)
                    continue
                message = f"its node was lost: {error}"
                yield task.index, Answer("crashed", message, outside=True)
                continue
            if task.request is None:
                _same_version(said)
                self._failures = 0
            else:
                yield task.index, _understood(said, Path(task.request.folder))

    def _unstarted(self, error: Exception) -> None:
        """Handles an actor that did not start, because its node was lost or because it cannot start."""
        self._failures += 1
        if self._failures > _MOST_FAILURES:
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
            raise UserError(
                f"nothing can be run on the nodes of the cluster: {last}; every node needs tcpassay {__version__}"
            ) from error

    def stop(self) -> None:
        """Ends all actors."""
        starting = [task.actor for task in self._tasks.values() if task.request is None]
        for actor in self.actors:
            with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):
                if all(actor is not one for one in starting):
                    self._ray.get(actor.stop.remote(), timeout=_STOP_SECONDS)
                self._ray.kill(actor)


def _same_version(said: object) -> None:
    here = (__version__, table_version())
    match said:
        case (str() as version, str() as tables):
            there = f"has tcpassay {version} with tables {tables}"
        case _:
            there = f"has no version of tcpassay, but answers {repr(said)[:_MOST_QUOTED]}"
    if said != here:
        raise UserError(
            f"a node of the cluster {there}; here are {here[0]} and {here[1]}: install the same everywhere"
        )


def _understood(said: object, folder: Path) -> Answer:
    """The answer of a node, with its recording in `folder`; `failed` if it is none."""
    match said:
        case (Answer(outcome=str()) as answer, bytes() as archive):
            known = answer.outcome in {*Outcome, "unwritable"}
            checked = answer_of(answer.outcome, payload_of(answer)) if known else None
            if checked is not None and checked.kept == bool(archive):
                # Whether the process was killed from outside is not a part of what a journal stores.
                return _unpacked(replace(checked, outside=answer.outside is True), archive, folder)
    what = repr(said)[:_MOST_QUOTED]
    return Answer("failed", f"a node of the cluster answered with something that is no result: {what}")


def _unpacked(answer: Answer, archive: bytes, folder: Path) -> Answer:
    try:
        if archive:
            _unpack(archive, folder)
    except tarfile.TarError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Answer("failed", f"the recording from a node of the cluster cannot be unpacked: {error}")
    except OSError as error:
        return Answer("unwritable", str(error))
    return answer


def _module() -> Any:
    try:
        import ray  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError:
        install = f"{sys.executable} -m pip install '{_wanted()}'"
        message = f"`--executor ray`: Ray is not installed; install it with: {install}"
        raise UserError(message) from None
    return ray


def _wanted() -> str:
    """The version of Ray that the extra `ray` of this package requires."""
    with contextlib.suppress(PackageNotFoundError):
        for wanted in requires("tcpassay") or ():
            name, _, marker = wanted.partition(";")
            if name.startswith("ray") and "ray" in marker:
                return name.strip()
    return "ray[client]"


def _knock(address: str) -> None:
    """Raises `OSError` if no process listens there; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_KNOCK_SECONDS).close()


def _root(base: Path) -> Path:
    """The folder of copies that contains a base."""
    return next((each for each in (base, *base.parents) if each.name == inputs.FOLDER), base)


def _relative(base: str) -> str:
    root = _root(Path(base))
    return str(Path(inputs.FOLDER, Path(base).relative_to(root)))


def _files(base: Path) -> dict[str, bytes]:
    """All files that the plan names."""
    root = _root(base)
    return {str(path.relative_to(root)): path.read_bytes() for path in _walk(root)}


def _walk(root: Path) -> Iterator[Path]:
    yield from (path for path in sorted(root.rglob("*")) if path.is_file())


def _pack(folder: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, arcname=path.name)
    return content.getvalue()


def _unpack(content: bytes, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
