"""Messages of `--executor ray` if a cluster cannot run anything; Ray is replaced by a fake without waiting times."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tcpassay import __version__
from tcpassay.errors import UserError
from tcpassay.messages import Answer, CaseRequest
from tcpassay.run import on_ray
from tcpassay.run.environment import table_version
from tcpassay.run.pool import Limits

VERSION = (__version__, table_version())
REQUEST = CaseRequest(substrate="model", collect={}, base="/nowhere/inputs", folder="/nowhere/recording")


class RayError(Exception):
    """Stands for Ray's error about an actor that is lost or did not start."""


class RaySystemError(RayError):
    """Stands for Ray's error about a lost cluster."""


class _Reference:
    """A reference to a request to an actor; all references are different."""

    def __init__(self, name: str) -> None:
        self.name = name


class FakeRay:
    """A cluster as `OnRay` sees it: what actors answer is decided by `answer`, which may raise."""

    exceptions = SimpleNamespace(RayError=RayError, RaySystemError=RaySystemError)

    def __init__(self, cpus: list[int], answer: Callable[[str], Any]) -> None:
        self._cpus = cpus
        self._answer = answer
        self.killed = 0

    def init(self, *_: Any, **__: Any) -> None: ...

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self._cpus.pop(0) if len(self._cpus) > 1 else self._cpus[0])}

    def remote(self, _: type) -> Any:
        def method(name: str) -> Any:
            return SimpleNamespace(remote=lambda *_: _Reference(name))

        def make(*_: Any) -> Any:
            return SimpleNamespace(**{name: method(name) for name in ("version", "ask", "stop")})

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=make))

    def wait(self, references: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return references[:1], references[1:]

    def get(self, reference: Any, **_: Any) -> Any:
        return self._answer(reference.name)

    def kill(self, _: Any) -> None:
        self.killed += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeRay]:
    def make(cpus: list[int], answer: Callable[[str], Any]) -> FakeRay:
        ray = FakeRay(cpus, answer)
        monkeypatch.setattr(on_ray, "_module", lambda: ray)
        return ray

    return make


def run(requests: int = 1) -> list[Any]:
    return list(on_ray.OnRay("ray", None).run([REQUEST] * requests, Limits()))


def test_a_cluster_without_a_cpu_is_reported_before_anything_is_run(cluster: Any) -> None:
    cluster([0], lambda _: VERSION)
    with pytest.raises(UserError, match="`--executor ray`: the cluster has no CPU to run on"):
        run()


def test_when_the_last_node_is_lost_in_the_middle_the_command_stops_to_be_resumed(cluster: Any) -> None:
    cpus = [1]

    def answer(name: str) -> Any:
        if name == "ask":
            cpus[:] = [0]
            raise RayError("the node died")
        return VERSION

    cluster(cpus, answer)
    answers: list[Any] = []
    running = on_ray.OnRay("ray", None).run([REQUEST] * 3, Limits())
    with pytest.raises(UserError, match="the Ray cluster has no CPU left to run on"):
        answers.extend(one for some in running for one in some)
    # Runs in progress were not the cause of the failure and are repeated.
    assert [(index, answer.outcome, answer.outside) for index, answer in answers] == [(0, "crashed", True)]


def test_nodes_on_which_nothing_can_be_started_are_given_up_with_the_reason(cluster: Any) -> None:
    def answer(_: str) -> Any:
        raise RayError("traceback\nModuleNotFoundError: No module named 'tcpassay'")

    cluster([2], answer)
    said = (
        "nothing can be run on the nodes of the cluster: ModuleNotFoundError: No module named 'tcpassay'; "
        f"every node needs tcpassay {__version__}"
    )
    with pytest.raises(UserError, match=re.escape(said)):
        run()


def test_a_node_with_another_version_is_refused_before_it_runs_anything(cluster: Any) -> None:
    ray = cluster([1], lambda _: ("0.0.9", "abc"))
    with pytest.raises(
        UserError, match=r"has tcpassay 0\.0\.9 with tables abc; here are .*install the same everywhere"
    ):
        run()
    assert ray.killed == 1


def test_a_cluster_that_is_gone_is_reported_as_such(cluster: Any) -> None:
    ray = cluster([1], lambda _: VERSION)

    def gone(*_: Any, **__: Any) -> Any:
        raise RaySystemError("GCS is unreachable")

    ray.wait = gone
    with pytest.raises(UserError, match="the Ray cluster cannot be reached any more: GCS is unreachable"):
        run()


def test_every_request_is_answered_once_by_as_many_actors_as_there_are_cpus(cluster: Any) -> None:
    done = (Answer("done"), b"")
    ray = cluster([2], lambda name: done if name == "ask" else VERSION)
    answers = [one for some in run(5) for one in some]
    assert sorted(index for index, _ in answers) == [0, 1, 2, 3, 4]
    assert ray.killed == 2
