"""The agents of all hosts of a testbed: checks cases, runs them, and joins their recordings."""

import json
import math
import secrets
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar, get_args

from tcpassay import _native, regular, scratch
from tcpassay.errors import UserError
from tcpassay.interface import RunEnd
from tcpassay.messages import Answer, CaseRequest, Collect, Outcome, Triples
from tcpassay.substrate.agent import agent_program, answer_of
from tcpassay.testbed import messages
from tcpassay.testbed.as_is import PING, AsIs
from tcpassay.testbed.clock import Exchange, Offset, drift, estimate
from tcpassay.testbed.connection import EXCHANGES_AFTER, Connection, LostError
from tcpassay.testbed.file import Testbed

_T = TypeVar("_T")

PATIENCE_S: Final = 600.0
"""Maximum time of a run, if the request has no limit."""
PREPARE_S: Final = 120.0
"""Maximum time to prepare a run, in addition to the time that it waits for idle hosts."""
_CLAIM_S: Final = 10.0
"""Maximum time to wait for a host that another controller is leaving."""
_LEADS_NS: Final = (50_000_000, 200_000_000, 800_000_000)
"""Times from the message to the start of the traffic, in addition to five times the longest round trip before.

A run is repeated with the next one if a host gets the message too late, as a busy host may.
"""
_MOST_LEAD_NS: Final = 1_000_000_000
_CLOCK_S: Final = 1.0
"""Interval of the exchanges about clocks during a run."""
_QUIET_NS: Final = 50_000_000
"""All applications have finished if none has begun anything for this time."""
_RESTORE_S: Final = 60.0
_RETRY_S: Final = 2.0
"""Time between two attempts to reach a host."""
_BUCKET_NS: Final = 1_000_000
"""By how much a path may be shorter than that of the case."""


class RunError(Exception):
    """A run failed on a host; the connections are intact."""


class _LateError(Exception):
    """The message with the start arrived too late at a host."""


@dataclass
class _Part:
    """The state of a run on one host."""

    connection: Connection
    folder: Path
    idle: bool = False
    idle_at: int = 0
    room: int = messages.LARGEST
    asked: int | None = None
    """When the clock of the host was asked for; `None` after the answer."""
    during: list[Exchange] = field(default_factory=list)
    ended: messages.Ended | None = None
    restored: bool = False


@dataclass
class Session:
    """Connections to all hosts of a testbed."""

    testbed: Testbed
    connections: list[Connection] = field(default_factory=list)
    claimed: bool = False
    reached: bool = False
    """All hosts were reached before."""
    path: AsIs | None = None
    """The path of a testbed whose links are used as they are, measured when it is first used."""

    def open(self) -> None:
        """Connects to all hosts that are not connected. Raises `UserError` with every host that cannot be reached."""
        if self.connections:
            return
        program, config = agent_program(), self.testbed.ssh_config

        def connect(index: int) -> Connection | LostError:
            try:
                return Connection(self.testbed.hosts[index], config, program)
            except LostError as error:
                return error
            except (OSError, subprocess.SubprocessError) as error:
                return LostError(self.testbed.hosts[index].name, str(error))

        with ThreadPoolExecutor(len(self.testbed.hosts)) as pool:
            made = list(pool.map(connect, range(len(self.testbed.hosts))))
        self.connections = [one for one in made if isinstance(one, Connection)]
        if lost := [str(one) for one in made if isinstance(one, LostError)]:
            self.close()
            raise UserError(f"testbed {self.testbed.file}: " + "; ".join(lost))
        self.reached = True

    def reopen(self) -> None:
        """Connects as `open`; waits for hosts that were reached before. Raises `UserError` after that time."""
        until = time.monotonic() + (self.testbed.reconnect_s if self.reached else 0.0)
        while True:
            try:
                self.open()
            except UserError:
                if time.monotonic() + _RETRY_S > until:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """Ends all connections; the hosts are restored."""
        connections, self.connections, self.claimed = self.connections, [], False
        for connection in connections:
            connection.end()
        for connection in connections:
            connection.close()

    def each(self, act: Callable[[Connection], _T]) -> list[_T]:
        """The result of a function for every host, at the same time. Raises the first `LostError`."""
        with ThreadPoolExecutor(len(self.connections)) as pool:
            return list(pool.map(act, self.connections))

    def only(self, names: Iterable[str]) -> "Session":
        """A session of some of the hosts, over the same connections."""
        chosen = [one for one in self.connections if one.host.name in set(names)]
        return Session(self.testbed.only(names), chosen, self.claimed, self.reached, self.path)

    def claim(self) -> list[str]:
        """Reserves all hosts. Returns what earlier agents had left. Raises `UserError` for a host in use."""
        if self.claimed:
            return []
        left = []
        for connection in self.connections:
            until = time.monotonic() + _CLAIM_S
            while True:
                connection.send(messages.Claim())
                answer = connection.receive()
                if isinstance(answer, messages.Claimed):
                    left += [f"host `{connection.host.name}`: {problem}" for problem in answer.restored]
                    break
                if not isinstance(answer, messages.Busy):
                    why = answer.message if isinstance(answer, messages.Failed) else answer.kind
                    raise LostError(connection.host.name, why)
                if time.monotonic() > until:
                    name = connection.host.name
                    raise UserError(
                        f"host `{name}`: another controller or a run on the substrate `host` uses it"
                    )
                time.sleep(0.05)
        self.claimed = True
        return left

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults. Raises `CaseError` with what any host cannot do."""
        case = self._case(triples, 0, base, {})
        number = secrets.randbelow(1 << 24)

        def ask(connection: Connection) -> messages.Checked:
            return connection.ask(messages.Check(case, self._part(connection, number)), messages.Checked)

        answers = self.each(ask)
        names = [connection.host.name for connection in self.connections]
        if errors := problems_of(dict(zip(names, answers, strict=True))):
            raise _native.CaseError(errors)
        return answers[0].settings

    def _part(self, connection: Connection, number: int) -> messages.Part:
        of_all = places([(one.host.role, one.hello.boot) for one in self.connections])
        place = of_all[self.connections.index(connection)]
        return messages.Part(connection.host.name, self.testbed.machines(), number, self.testbed.as_is, place)

    def _case(self, triples: Triples, seed: int, base: str, collect: Collect) -> messages.RemoteCase:
        """A case in the form of messages; on links that are used as they are, with the properties of the path."""
        if self.testbed.as_is:
            if self.path is None:
                self.path = AsIs.of(self.each(self._rate))
            triples = self.path.case(triples)
        what = messages.Collect(
            series=collect.get("series"),
            warmup=collect.get("warmup"),
            deliveries=collect.get("deliveries", False),
            events=collect.get("events", False),
            packets=collect.get("packets", False),
            taps=collect.get("taps", True),
        )
        return messages.RemoteCase(
            dict(triples), seed, named_files(triples, base), what, self.testbed.quiet_s
        )

    def _rate(self, connection: Connection) -> tuple[str, int | None]:
        """A host, and the lowest rate of its test interfaces in bit/s."""
        interfaces = sorted(set(self.testbed.interfaces[connection.host.name].values()))
        found = connection.ask(messages.Inspect(interfaces), messages.Inspected).found
        rates = [one.rate for one in found if one.what.startswith("interface ")]
        known = [rate for rate in rates if rate is not None]
        return connection.host.name, min(known) if known and len(known) == len(rates) else None

    def _measure(self, lead: int) -> None:
        """Measures the delay of links that are used as they are, with requests one after the other."""
        if not self.testbed.as_is or (self.path is not None and self.path.delay_ns is not None):
            return
        with scratch.folder() as place:
            request = CaseRequest(
                substrate="remote", collect={"series": None}, triples=PING, folder=str(place / "run")
            )
            answer = self._run(request, place, [], lead)
        rtt = answer.metrics.get("rtt_min")
        if answer.outcome != Outcome.DONE or rtt is None or self.path is None:
            raise RunError(f"the delay of the path cannot be measured: {answer.message}")
        self.path = replace(self.path, delay_ns=round(rtt * 1e9 / 2))

    @contextmanager
    def within(self, until: float) -> Iterator[None]:
        """Ends everything on all hosts at a time of the monotonic clock, down to each frame."""
        for connection in self.connections:
            connection.deadline = until
        try:
            yield
        finally:
            for connection in self.connections:
                connection.deadline = math.inf

    def run(self, request: CaseRequest) -> Answer:
        """Runs a case. The recording is in the folder of the request if the outcome is `done`.

        The run ends `seconds` after its hosts are connected and reserved, whatever they send.
        """
        answer = self._attempt(request)
        return replace(answer, pause=self.testbed.pause and answer.outcome == Outcome.CRASHED)

    def _attempt(self, request: CaseRequest) -> Answer:
        said = ""
        for lead in _LEADS_NS:
            try:
                return self._attempt_with(request, lead)
            except _LateError as error:
                said = str(error)
                # The other hosts have started, or will.
                self.close()
        return Answer("failed", said)

    def _attempt_with(self, request: CaseRequest, lead: int) -> Answer:
        """One attempt. Raises `_LateError` if `lead`, the time that the message with the start has, is too short."""
        try:
            self.reopen()
            problems = self.claim()
            until = time.monotonic() + (request.seconds or PATIENCE_S)
            with self.within(until), scratch.folder() as place:
                self._measure(lead)
                return self._run(request, place, problems, lead)
        except _LateError:
            raise
        except (LostError, UserError) as error:
            # The others restore their hosts when their connections end.
            self.close()
            return Answer("crashed", str(error))
        except RunError as error:
            return Answer("failed", str(error))
        except BaseException:
            self.close()
            raise

    def _run(self, request: CaseRequest, scratch: Path, problems: list[str], lead: int) -> Answer:
        parts = []
        for index, connection in enumerate(self.connections):
            folder = scratch / str(index)
            folder.mkdir()
            parts.append(_Part(connection, folder))
        if problems:
            raise RunError("; ".join(problems))
        number = secrets.randbelow(1 << 24)
        case = self._case(request.triples, request.seed, request.base, request.collect)
        # The router has the most to prepare.
        for part in sorted(parts, key=lambda part: part.connection.host.role != "router"):
            part.connection.send(messages.Run(case, self._part(part.connection, number)))
        if refused := self._prepared(parts):
            return refused
        paths = [path for probed in self.each(_probe) for path in probed.paths]
        if wrong := [why for path in paths if (why := path_problem(path))]:
            # The others wait for a start that does not come: the end of their connections ends their parts.
            self.close()
            return Answer("path", "; ".join(wrong))
        before = self.each(Connection.offset)
        longest = max(connection.longest_ns for connection in self.connections)
        start = time.time_ns() + min(lead + 5 * longest, _MOST_LEAD_NS)
        for part, offset in zip(parts, before, strict=True):
            part.connection.send(messages.Start(start + offset.ahead))
        self._collect(parts)
        after = self.each(lambda connection: connection.offset(EXCHANGES_AFTER))
        return _joined(request, parts, [*_path_rows(paths), *_clock_rows(parts, before, after)])

    def _prepared(self, parts: list[_Part]) -> Answer | None:
        """Waits until all hosts are prepared. Returns the answer if a host refuses the case."""
        failed = []
        for part in parts:
            answer = part.connection.receive(PREPARE_S + self.testbed.quiet_s)
            if isinstance(answer, messages.Ended):
                part.ended = answer
                part.restored = not part.connection.expect(messages.Restored, _RESTORE_S).problems
                failed.append(part)
            elif not isinstance(answer, messages.Prepared):
                why = answer.message if isinstance(answer, messages.Failed) else f"`{answer.kind}` arrived"
                raise LostError(part.connection.host.name, why)
        if not failed:
            return None
        # The others wait for a start that does not come: the end of their connections ends their parts.
        self.close()
        said = [
            f"host `{part.connection.host.name}`: "
            + (part.ended.message or "; ".join(f"`{one.path}`: {one.why}" for one in part.ended.errors))
            for part in failed
            if part.ended is not None
        ]
        refused = all(part.ended is not None and part.ended.ended is RunEnd.REFUSED for part in failed)
        return Answer("refused" if refused else "failed", "; ".join(said))

    def _collect(self, parts: list[_Part]) -> None:
        """Receives what the hosts send until all have ended and are restored."""
        stop_at: float | None = None
        ask_at = time.monotonic() + _CLOCK_S
        while waiting := [part for part in parts if not part.restored]:
            if time.monotonic() > waiting[0].connection.deadline:
                raise LostError(waiting[0].connection.host.name, "the run has not ended at its time limit")
            ready, _, _ = select.select([part.connection for part in waiting], [], [], 0.01)
            for part in (one for one in waiting if one.connection in ready):
                stop_at = None if self._message(part) else stop_at
            if time.monotonic() >= ask_at:
                ask_at = time.monotonic() + _CLOCK_S
                _ask_clocks(waiting)
            if stop_at is None and all(part.idle for part in parts):
                stop_at = time.monotonic() + _QUIET_NS / 1e9
            if stop_at is not None and time.monotonic() >= stop_at:
                stop_at = float("inf")
                end = max(part.idle_at for part in parts)
                for part in parts:
                    if part.ended is None:
                        part.connection.send(messages.Stop(end))
        # A run that ended meanwhile has left the question to its agent.
        for part in (one for one in parts if one.asked is not None):
            part.connection.expect(messages.Time)

    @staticmethod
    def _message(part: _Part) -> bool:
        """Processes a message. Returns whether an application has begun something."""
        match part.connection.receive():
            case messages.Idle() as idle:
                part.idle, part.idle_at = idle.idle, idle.at
                return not idle.idle
            case messages.Time() as answer if part.asked is not None:
                exchange = Exchange(part.asked, answer.now, time.time_ns())
                if exchange.round_trip < 0:
                    raise LostError(part.connection.host.name, "the clock of the controller was set back")
                part.during.append(exchange)
                part.asked = None
            case messages.File() as file if part.ended is None and not (part.folder / file.name).exists():
                part.room -= part.connection.receive_file(file, part.folder, part.room)
            case messages.Ended() as ended if part.ended is None:
                part.ended = ended
            case messages.Restored() as restored if part.ended is not None:
                part.restored = True
                if restored.problems:
                    raise LostError(part.connection.host.name, "; ".join(restored.problems))
            case messages.Late():
                name = part.connection.host.name
                raise _LateError(f"host `{name}`: the message with the start of the traffic arrived too late")
            case messages.Failed() as failed:
                raise LostError(part.connection.host.name, failed.message)
            case other:
                raise LostError(part.connection.host.name, f"`{other.kind}` arrived unexpectedly")
        return False


def _ask_clocks(parts: list[_Part]) -> None:
    """Asks the hosts whose runs go on for their clocks. The answers arrive with their other messages."""
    for part in parts:
        if part.ended is None and part.asked is None:
            part.asked = time.time_ns()
            part.connection.send(messages.Clock())


def problems_of(answers: Mapping[str, messages.Checked]) -> list[tuple[str, str | None, str | None, str]]:
    """The problems of a case that hosts have found, once each; a problem that not all hosts have with their names."""
    found: dict[tuple[str, str | None, str | None, str], list[str]] = {}
    for name, answer in answers.items():
        for one in answer.errors:
            found.setdefault((one.path, one.other, one.value, one.why), []).append(f"`{name}`")
    told = []
    for (path, other, value, why), names in found.items():
        everywhere = len(names) == len(answers) or "host `" in why
        where = "" if everywhere else f" (host{'s' * (len(names) > 1)} {', '.join(names)})"
        told.append((path, other, value, why + where))
    return told


def named_files(triples: Triples, base: str) -> dict[str, str]:
    """The contents of the files that values name, as in `topology = "file:net.toml"`, by name."""
    files = {}
    for value in triples.values():
        name = value.partition(":")[2] if isinstance(value, str) else ""
        if name and name not in files:
            # What is no file, or cannot be read, is reported by the check of the value.
            with suppress(OSError, ValueError):
                files[name] = regular.read_bytes(Path(base, name)).decode()
    return files


def places(hosts: Sequence[tuple[messages.Role, str]]) -> list[int | None]:
    """The place of each host among those that share its kernel, as namespaces of one machine do; `None` if it is alone.

    A host is its role and the number of its boot, which is empty if it is unknown. Hosts of the same role have
    subsequent places, so that each processor of the machine has the same number of them.
    """
    roles = get_args(messages.Role)
    found: list[int | None] = [None] * len(hosts)
    for boot in {boot for _, boot in hosts if boot}:
        together = [at for at, (_, other) in enumerate(hosts) if other == boot]
        if len(together) > 1:
            for place, at in enumerate(sorted(together, key=lambda at: roles.index(hosts[at][0]))):
                found[at] = place
    return found


def _probe(connection: Connection) -> messages.Probed:
    """The paths of the data that a host sends, measured now."""
    return connection.ask(messages.Probe(), messages.Probed)


def path_problem(path: messages.ProbedPath) -> str:
    """How a path differs from that of the case; empty if it does not.

    A token bucket releases a packet before its transmission time has passed, and queues of other traffic make a path
    longer, so that only a much shorter one is wrong.
    """
    where = f"the path from `{path.sender}` to `{path.receiver}` is not that of the case"
    if path.measured is None:
        return "" if path.lossy else f"{where}: no packet of {path.size} B came back"
    if path.measured + _BUCKET_NS < 0.9 * path.asked:
        return f"{where}: its round-trip time is {path.measured / 1e6:.3f} ms instead of {path.asked / 1e6:.3f} ms"
    return ""


def _path_rows(paths: list[messages.ProbedPath]) -> list[Mapping[str, object]]:
    """The rows of the recording about the paths before the run: the shortest round trip of full-sized packets."""
    return [
        {
            "entity": f"path.{path.sender}.{path.receiver}",
            "property": "rtt",
            "unit": "ns",
            "asked": float(path.asked),
            "measured": None if path.measured is None else float(path.measured),
        }
        for path in paths
    ]


def _clock_rows(parts: list[_Part], before: list[Offset], after: list[Offset]) -> list[Mapping[str, object]]:
    """The rows of the recording about the clocks: offset before the run, its error, and how far it moved.

    A run that is long enough has a row with the offset during the run.
    """
    rows: list[Mapping[str, object]] = []
    for part, first, last in zip(parts, before, after, strict=True):
        values = {
            "offset": first.ahead,
            "offset_error": first.error,
            "drift": drift(first, last),
            "drift_error": first.error + last.error,
        }
        if part.during:
            meanwhile = estimate(part.during)
            values |= {"offset_during": meanwhile.ahead, "offset_during_error": meanwhile.error}
        rows += [
            {
                "entity": f"clock.{part.connection.host.name}",
                "property": name,
                "unit": "ns",
                "asked": None,
                "measured": float(value),
            }
            for name, value in values.items()
        ]
    return rows


def _joined(request: CaseRequest, parts: list[_Part], rows: list[Mapping[str, object]]) -> Answer:
    """Joins the recordings of all hosts to the one of the request."""
    failed = [part for part in parts if part.ended is None or part.ended.ended is RunEnd.FAILED]
    if failed:
        said = (
            f"host `{one.connection.host.name}`: {one.ended.message if one.ended else '?'}" for one in failed
        )
        return Answer("failed", "; ".join(said))
    folder = Path(request.folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    order = {
        "parts": [{"name": part.connection.host.name, "folder": str(part.folder)} for part in parts],
        "collect": request.collect,
        "environment": rows,
        "folder": str(folder),
    }
    merged = subprocess.run(  # noqa: S603 - our own program
        [agent_program(), "merge"], input=json.dumps(order), capture_output=True, text=True, check=False
    )
    try:
        answer = answer_of(merged.stdout)
    except ValueError:
        words = merged.stderr.strip()[-2000:] or f"exit code {merged.returncode}"
        answer = Answer("crashed", f"the recordings cannot be joined: {words}")
    if answer.outcome != "done":
        shutil.rmtree(folder, ignore_errors=True)
    return answer
