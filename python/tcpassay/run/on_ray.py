"""Runs requests on an existing Ray cluster (the extra `tcpassay[ray]`).

One actor a CPU. Each has a worker process of its own, as the pool on this machine has, so that a run that crashes,
hangs or eats memory comes to the same outcome there as here, and the numbers are the same to the last bit. Nodes need
not share a file system: the files that a plan names go to the actors, recordings that are kept come back. Every node
must have the same version of tcpassay; an actor that has another says so before anything is run.
"""

import contextlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tcpassay import __version__
from tcpassay.errors import UserError
from tcpassay.run import inputs
from tcpassay.run.environment import table_version
from tcpassay.run.pool import Answer, Limits, Request, Single

SCHEME: Final = "ray"
_KNOCK_SECONDS: Final = 10
Version = tuple[str, str]


class Remote:
    """What an actor does: the node's side."""

    def __init__(self, limits: Limits, files: dict[str, bytes]) -> None:
        self._single = Single(limits)
        self._home = Path(tempfile.mkdtemp(prefix="tcpassay-ray-"))
        for name, content in files.items():
            target = self._home / inputs.FOLDER / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def version(self) -> Version:
        """Of tcpassay and its tables, on this node."""
        return __version__, table_version()

    def ask(self, request: Request, base: str) -> tuple[Answer, bytes]:
        """The answer, and the recording as an archive when it is kept; `base` is relative to the copies' folder."""
        there = self._home / base
        there.mkdir(parents=True, exist_ok=True)
        place = self._home / "recording"
        try:
            answer = self._single.ask(request | {"base": str(there), "folder": str(place)})
            return answer, _pack(place) if answer.get("kept") else b""
        finally:
            for left in (place, place.with_name(f".{place.name}.partial")):
                shutil.rmtree(left, ignore_errors=True)

    def stop(self) -> None:
        """Ends the worker and removes what it had."""
        self._single.stop()
        shutil.rmtree(self._home, ignore_errors=True)


class OnRay:
    """An executor on a cluster."""

    name = SCHEME

    def __init__(self, address: str, jobs: int | None) -> None:
        """Connects: `ray` is the cluster that this machine belongs to, `ray://HOST:PORT` one elsewhere.

        Raises `UserError`.
        """
        self._ray = _module()
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what its future default is
        try:
            _knock(os.environ.get("RAY_ADDRESS", "") if address == SCHEME else address)
            self._ray.init(
                "auto" if address == SCHEME else address,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
            )
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            message = (
                f"`--executor {address}`: there is no cluster: {first}; `ray start --head` begins one here"
            )
            raise UserError(message) from error
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            raise UserError(f"`--executor {address}`: the cluster has no CPU to run on")
        self.jobs = min(jobs or cores, cores)

    def run(self, requests: Iterable[Request], limits: Limits) -> Generator[tuple[int, Answer]]:
        """Runs every request; an actor that is lost with its node costs what it was doing, which is made again."""
        waiting = enumerate(requests)
        actors: list[Any] = []
        busy: dict[Any, tuple[int, Request, Any]] = {}
        files: dict[str, bytes] | None = None
        try:
            while True:
                while len(busy) < self.jobs and (following := next(waiting, None)) is not None:
                    index, request = following
                    if files is None:
                        files = _files(Path(request["base"]))
                    idle = [actor for actor in actors if all(actor is not b for _, _, b in busy.values())]
                    actor = idle[0] if idle else self._actor(limits, files, actors)
                    busy[actor.ask.remote(request, _relative(request["base"]))] = (index, request, actor)
                if not busy:
                    return
                ready, _ = self._ray.wait(list(busy), num_returns=1)
                for reference in ready:
                    index, request, actor = busy.pop(reference)
                    yield index, self._answer(reference, request, actor, actors)
        finally:
            for actor in actors:
                with contextlib.suppress(self._ray.exceptions.RayError):
                    self._ray.get(actor.stop.remote(), timeout=10)
                self._ray.kill(actor)

    def _actor(self, limits: Limits, files: dict[str, bytes], actors: list[Any]) -> Any:
        actor = self._ray.remote(Remote).options(num_cpus=1).remote(limits, files)
        actors.append(actor)
        there, here = self._ray.get(actor.version.remote()), (__version__, table_version())
        if there != here:
            raise UserError(
                f"a node of the cluster has tcpassay {there[0]} with tables {there[1]}; here are {here[0]} and "
                f"{here[1]}: install the same everywhere"
            )
        return actor

    def _answer(self, reference: Any, request: Request, actor: Any, actors: list[Any]) -> Answer:
        try:
            answer, archive = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            actors.remove(actor)
            return {"outcome": "crashed", "message": f"its node was lost: {error}", "outside": True}
        try:
            if archive:
                _unpack(archive, Path(request["folder"]))
        except OSError as error:
            return {"outcome": "unwritable", "message": str(error)}
        made: Answer = answer
        return made


def _module() -> Any:
    try:
        import ray  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError:
        message = (
            "`--executor ray`: Ray is not installed; it comes with the extra: pip install 'tcpassay[ray]'"
        )
        raise UserError(message) from None
    return ray


def _knock(address: str) -> None:
    """Raises `OSError` when nobody listens there; Ray itself goes on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_KNOCK_SECONDS).close()


def _root(base: Path) -> Path:
    """The folder of the copies that a base lies in."""
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
