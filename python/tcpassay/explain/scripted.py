"""A finding as a packetdrill script that was run: on the model, on the model without the cause, on Linux."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tcpassay import isolate, scratch
from tcpassay._native import CaseError
from tcpassay.errors import Place, UserError
from tcpassay.explain import packetdrill
from tcpassay.explain.adapted import adapted, cut
from tcpassay.explain.moments import Connection, End, connection
from tcpassay.explain.packetdrill import Change, Side, Span, UnwritableError
from tcpassay.interface import EventKind
from tcpassay.isolate.cause import CauseRow
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.symptoms import chosen, effect_of, symptoms
from tcpassay.judge import Finding
from tcpassay.judge.log import LogFile
from tcpassay.judge.registry import logged
from tcpassay.kernel import store
from tcpassay.messages import Triples, Value
from tcpassay.recording import Recording
from tcpassay.result_format import RunRow
from tcpassay.results import Results, load
from tcpassay.run.inputs import base_of
from tcpassay.run.replay import again, spec_of
from tcpassay.script import linux, model
from tcpassay.script.report import Packetdrill, Report

_OPTIONS: Final = (("tolerance_usecs", str(packetdrill.TOLERANCE_US)),)
_REST_NS: Final = 2_000_000_000
"""Silence after the evidence that a script waits for at most."""
_ONLY_ECN: Final = "outbound packet: ip differ"
"""The runner's message for a packet that differs in the ECN field of its IP header only."""
_AS_RUN: Final = "The expectations are the behaviour of the stack in the run."
_AS_SCRIPT: Final = (
    "The injected packets are from the run; the expectations are the behaviour of the stack in the script."
)
_SOCKET: Final = "0.000000 socket("
_SPANS: Final = (3, 6, 12, 25, 50, None)
"""Segments before the evidence that scripts begin with, shortest first; `None`: with the handshake."""
_SILENCE_US: Final = 1_000_000
"""Seconds for which a script waits for a packet: longer than an ACK may be delayed (RFC 9293 section 3.8.6.3)."""
_CASES_OF_LINUX: Final = ("linux", "linux-6.1", "linux-4.6")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the script on one stack with some settings."""

    where: str
    how: str
    """The settings: `as in the finding`, or the reset triple."""
    report: Report

    @property
    def passed(self) -> bool:
        """Whether the script passed."""
        return self.report["status"] == "pass"

    @property
    def differs(self) -> bool:
        """Whether the stack behaved differently; a difference in ECN bits alone, as a reset may cause, is ignored."""
        return not self.passed and self.report["reason"] != _ONLY_ECN


@dataclass(frozen=True, slots=True)
class Scripted:
    """A script of one end, and where it passes."""

    finding: str
    end: str
    """The host."""
    text: str
    others: tuple[tuple[str, str], ...]
    """The script with one triple reset: which, and its text."""
    outcomes: tuple[Outcome, ...]
    """First that with the settings of the finding on the model."""
    notes: tuple[str, ...] = ()

    @property
    def shows(self) -> bool:
        """Whether the model behaves in the script as in the run."""
        return self.outcomes[0].passed

    @property
    def distinguishes(self) -> bool:
        """Whether the script also fails if a triple of the cause is reset."""
        return self.shows and any(one.differs for one in self.outcomes if one.where == "model")

    def as_json(self) -> dict[str, object]:
        """The script and its results as a JSON object."""
        return {
            "finding": self.finding,
            "host": self.end,
            "shows": self.shows,
            "distinguishes": self.distinguishes,
            "outcomes": [{"where": one.where, "settings": one.how, **one.report} for one in self.outcomes],
            "notes": list(self.notes),
        }


def scripted(folder: Path, finding: str) -> Scripted:
    """Writes a finding as a packetdrill script of the end at fault, or else of its peer, and runs it.

    Raises `UserError` if no script can be written: the finding needs a stack that is not Linux's, a setting that no
    command makes, or does not show again.
    """
    results = load(folder)
    symptom, effect = chosen(symptoms(results), finding, results)
    run = next(one for one in results.runs if one["case"] == symptom.case and one["seed"] == symptom.seed)
    cause = next(
        (
            one
            for one in isolate.causes(folder)
            if any(
                (row["case"], row["seed"], row["oracle"]) == (symptom.case, symptom.seed, effect.oracle)
                for row in one["explains"]
            )
        ),
        None,
    )
    name = f"{symptom.case}-{symptom.seed}/{effect.oracle}"
    with scratch.folder() as place:
        made = _Maker(results, run, cause, effect, name).made(place)
    if not made:
        raise UserError(
            f"{name}: the finding does not occur with profile `linux`, for which scripts are written",
            Place(folder),
        )
    best = max(made, key=lambda one: (one.distinguishes, one.shows, -len(one.text)))
    return _on_linux(best) if best.shows else best


class _Maker:
    def __init__(
        self, results: Results, run: RunRow, cause: CauseRow | None, effect: Effect, name: str
    ) -> None:
        self._results = results
        self._run = run
        self._cause = cause
        self._effect = effect
        self._name = name
        self._base = str(base_of(results.folder))
        self._spec, _ = spec_of(results)
        self._why: list[str] = []

    def made(self, place: Path) -> list[Scripted]:
        """Scripts of the first run that shows the finding: of the host at fault, then of its peer."""
        for number, triples in enumerate(self._candidates()):
            there = place / str(number)
            answer = again(self._results.folder, self._run, self._spec, there, triples=triples)
            told = next((one for one in answer.findings if effect_of(one) == self._effect), None)
            if told is not None:
                return self._of(Recording.open(there), told, triples)
        return []

    def _candidates(self) -> Iterator[Triples]:
        """Settings that may show the finding in a script: the cause alone first, without timestamps first."""
        bases: list[Triples] = [self._run["triples"]]
        if self._cause is not None:
            alone = {one["path"]: one["value"] for one in self._cause["cause"]} | self._cause["run"]
            bases.insert(0, alone)
        for base in bases:
            profile = base.get("stack.profile", "rfc")
            on_linux = base if profile in _CASES_OF_LINUX else {**base, "stack.profile": "linux"}
            yield {**on_linux, "stack.timestamps": False}
            yield on_linux

    def _of(self, recording: Recording, told: Finding, triples: Triples) -> list[Scripted]:
        log = LogFile(recording)
        here = connection(recording, log, told.flow, timers_known=EventKind.TIMER_SET in logged(recording))
        ends = sorted((End.SENDER, End.RECEIVER), key=lambda end: here.names[end] != told.host)
        made: list[Scripted] = []
        for end, segments in itertools.product(ends, _SPANS):
            first = min((row.time_ns for row in told.events), default=told.start_ns)
            try:
                text = self._text(
                    _Case(recording, here, told, triples), end, Span(first, _until(here, end, told), segments)
                )
                made.append(self._tried(here.names[end], text))
                if segments is not None and not made[-1].shows and (other := _adapted(text)) is not None:
                    made.append(self._tried(here.names[end], other))
                if made[-1].distinguishes and (short := _short(made[-1])) is not None:
                    made.append(self._tried(here.names[end], short))
            except UnwritableError as why:
                self._why.append(f"{here.names[end]}: {why}")
            if made and made[-1].distinguishes:
                break
        if not made:
            raise UserError(f"{self._name}: no script: {'; '.join(self._why)}", Place(self._results.folder))
        return made

    def _text(self, case: "_Case", end: End, span: Span) -> "_Texts":
        """The script with the settings of the finding, and with those in which a triple is reset."""
        name = case.here.names[end]
        host = case.recording.hosts.index(name)
        flow = next(one for one in case.recording.flows if one["name"] == case.here.flow)
        head = [
            f"{case.told.title} ({case.told.oracle}): {case.told.text}",
            f"The script is of the host `{name}`. {_AS_RUN}",
        ]
        ours = packetdrill.changes(case.triples, self._base, host)

        of_kernel = case.recording.header.get("substrate", "model") != "model"
        reads = of_kernel and "app.read_rate" not in case.triples

        def written(changes: Sequence[Change]) -> str:
            return packetdrill.written(
                case.here, Side(end, int(flow["mss_bytes"]), changes, reads=reads), span, head
            )

        others = [
            (f"{path} reset to {value}", written(other))
            for path, value, other in self._without(case.triples, host, ours)
        ]
        return _Texts(written(ours), tuple(others))

    def _tried(self, host: str, texts: "_Texts") -> Scripted:
        outcomes = [Outcome("model", "as in the finding", _on_model(texts.ours))]
        outcomes += [Outcome("model", how, _on_model(text)) for how, text in texts.others]
        return Scripted(self._name, host, texts.ours, texts.others, tuple(outcomes))

    def _without(
        self, triples: Triples, host: int, ours: Sequence[Change]
    ) -> Iterator[tuple[str, str, list[Change]]]:
        """Of each triple of the cause whose reset changes what the script sets: its path, its value, the changes.

        Where the cause is not known, of each parameter of the stack.
        """
        of_cause = triples if self._cause is None else {one["path"] for one in self._cause["cause"]}
        tried = [list(ours)]
        for path in sorted(of_cause):
            if not path.startswith("stack.") or path in {"stack.profile", "stack.timestamps"}:
                continue
            rest = {name: value for name, value in triples.items() if name != path}
            for value in [None, *self._others(path)]:
                with contextlib.suppress(UnwritableError, ValueError, CaseError):
                    other = packetdrill.changes(
                        rest if value is None else rest | {path: value}, self._base, host
                    )
                    if other not in tried:
                        tried.append(other)
                        yield path, "its default" if value is None else str(value), other

    def _others(self, path: str) -> list[Value]:
        """The values that runs of the plan have for a parameter, in their order."""
        there = ((one.get("triples") or {}).get(path) for one in self._results.runs)
        return list(dict.fromkeys(value for value in there if value is not None))


@dataclass(frozen=True, slots=True)
class _Case:
    """A run that shows the finding."""

    recording: Recording
    here: Connection
    told: Finding
    triples: Triples


@dataclass(frozen=True, slots=True)
class _Texts:
    """A script with the settings of the finding, and with others."""

    ours: str
    others: tuple[tuple[str, str], ...]


def _with_body(texts: Sequence[tuple[str, str]], text: str) -> _Texts:
    """A script, and the same with the settings of others."""
    body = text[text.index(_SOCKET) :]
    return _Texts(text, tuple((how, other[: other.index(_SOCKET)] + body) for how, other in texts))


def _short(made: Scripted) -> _Texts | None:
    """The script up to the first difference of a stack without the cause."""
    where = [one.report["line"] for one in made.outcomes if one.differs and one.report["line"] is not None]
    text = cut(made.text, min(where), _SILENCE_US) if where else None
    return None if text is None else _with_body(made.others, text)


def _adapted(texts: _Texts) -> _Texts | None:
    """The script with the model's behaviour in the script as expectation, instead of that in the run."""
    ours = adapted(texts.ours, _on_model)
    if ours is None:
        return None
    return _with_body(texts.others, ours.replace(_AS_RUN, _AS_SCRIPT))


def _on_linux(made: Scripted) -> Scripted:
    """The script on Linux, too, and with the reset that makes it fail on the model."""
    failing = {one.how for one in made.outcomes if one.differs}
    texts = [("as in the finding", made.text), *[one for one in made.others if one[0] in failing][:1]]
    asked = [
        linux.request(text, loose=True, options=_OPTIONS, limit_s=linux.VIRTUAL_LIMIT_S) for _, text in texts
    ]
    try:
        release = store.find(None).release
        reports = linux.on_kernel(asked)
    except UserError as why:
        return replace(made, notes=(f"not run on Linux: {str(why).splitlines()[0]}",))
    more = [Outcome(f"Linux {release}", how, report) for (how, _), report in zip(texts, reports, strict=True)]
    return replace(made, outcomes=(*made.outcomes, *more))


def _until(here: Connection, end: End, told: Finding) -> int:
    """To the segment of the end that follows the evidence, or to the end of the silence."""
    last = max((row.time_ns for row in told.events), default=told.end_ns)
    after = [one.time_ns for one in here.moments if one.end == end and one.segment and one.time_ns > last]
    return min([*after[:1], here.end_ns, last + _REST_NS])


def _on_model(text: str) -> Report:
    return model.answer(Packetdrill(text, "linux", loose=True, options=_OPTIONS))


def told(made: Scripted) -> list[str]:
    """The results of the script as lines for the terminal."""
    lines = [f"Script of {made.end}, {len(made.text.splitlines())} lines:"]
    for one in made.outcomes:
        report = one.report
        where = "" if one.passed or report["line"] is None else f" at line {report['line']}"
        reason = "" if one.passed else f": {report['reason']}"
        lines.append(f"  {one.where}, {one.how}: {report['status']}{where}{reason}")
    if not made.shows:
        lines.append("The script does not show the finding: the stack behaves differently in it.")
    elif not made.distinguishes:
        lines.append(
            "The script also passes without the cause: it shows the behaviour but not that it is wrong."
        )
    return [*lines, *(f"Note: {note}" for note in made.notes)]
