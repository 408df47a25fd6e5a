"""Reads the text of a plan file and returns its cases, or a list of errors with positions.

Nothing is run or written before the whole plan has been read and the data plane has accepted every case, so that an
error in the last case is found first.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tcpassay.cover.generate import Suite
from tcpassay.errors import Place, Problem, UserError
from tcpassay.interface import METRICS
from tcpassay.plan import (
    claims,
    combine,
    document,
    event_log,
    expand,
    extends,
    fields,
    idle,
    load,
    model,
    reordering,
    table,
    words,
    write,
)
from tcpassay.plan.document import Document, Step
from tcpassay.plan.expand import Case, same, show
from tcpassay.plan.quantity import quantity

# Maximum number of problems in one error.
MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Plan:
    """A valid plan."""

    file: Path
    text: str
    """A text that repeats the plan without other plans: the original text, or the merged one if it extends a plan."""
    spec: model.PlanFile
    cases: list[Case]
    suite: Suite = field(repr=False, compare=False)
    """The space of the cases, and their rows in it."""
    notes: tuple[str, ...] = ()
    """Notes for the author that are not errors."""

    def with_seeds(self, seeds: list[int]) -> "Plan":
        """The same plan with other seeds."""
        if seeds == self.spec.seeds:
            return self
        spec = self.spec.model_copy(update={"seeds": seeds})
        return replace(self, spec=spec, text=_resolved(spec, self.file))

    def with_cases(self, settings: Sequence[Mapping[str, fields.Scalar]], cases: Sequence[Case]) -> "Plan":
        """The same plan with further stated cases, which `stated.made` has made of these settings."""
        spec = self.spec.model_copy(update={"case": [*self.spec.case, *map(dict, settings)]})
        return replace(self, spec=spec, text=_resolved(spec, self.file), cases=[*self.cases, *cases])

    def resolved(self, spec: model.PlanFile) -> str:
        """The text of this plan with another specification."""
        return _resolved(spec, self.file)

    def select(self, selector: fields.Selector) -> list[Case]:
        """The cases of a selector that are expected to complete and have metrics, which scripts have not."""
        meant = (case for case in self.cases if case.expect == "done" and case.script is None)
        return [case for case in meant if case.matches(selector)]

    def partner(self, case: Case, changed: fields.Selector) -> Case:
        """The case that differs from `case` only in the values of `changed`. Raises `KeyError` if there is none."""
        return self._by_varied[_key({**case.varied, **changed})]

    @cached_property
    def _by_varied(self) -> dict[frozenset[tuple[str, str]], Case]:
        return {_key(case.varied): case for case in self.cases}


def _key(varied: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((name, show(value)) for name, value in varied.items())


def read_file(file: Path, strength: int | None = None, substrates: list[str] | None = None) -> Plan:
    """Reads a plan file, or raises all its errors; see `read`."""
    return read(document.read_text(file), file, strength, substrates)


def read(text: str, file: Path, strength: int | None = None, substrates: list[str] | None = None) -> Plan:
    """Reads the text of a plan; `file` is used in errors and for relative file names.

    With `strength` the strategy is replaced by `t-way` of this strength, with `substrates` those of the plan.
    """
    doc = extends.load(text, file)
    if strength is not None:
        _strengthen(doc, strength)
    if substrates is not None:
        doc.data["substrates"] = substrates
    _fail_if(_misplaced(doc))
    try:
        spec = model.PlanFile.model_validate(doc.data)
    except ValidationError as error:
        raise UserError.several(words.problems(error, doc)) from None
    _fail_if(claims.problems(spec, doc))
    made = combine.cases(spec, doc, MOST_PROBLEMS)
    if spec.extends is not None or strength is not None or substrates is not None:
        text = _resolved(spec, file)
    loads = load.notes(made.cases, file.parent)
    logs = event_log.notes(spec, made.cases)
    unused = idle.notes(spec, made.cases)
    late = reordering.notes(made.cases)
    plan = Plan(file, text, spec, made.cases, made.suite, (*made.notes, *loads, *logs, *unused, *late))
    _fail_if(_references(plan, doc))
    return plan


def _misplaced(doc: Document) -> Iterator[Problem]:
    """Keys of the plan below the header of a table, which therefore belong to that table."""
    tops = {field.alias or name for name, field in model.PlanFile.model_fields.items()}
    sections: dict[str, set[str]] = {"fixed": set(), "axes": set(), "negative": set()}
    for name, kind in (("collect", model.Collect), ("limits", model.Limits), ("keep", model.Keep)):
        sections[name] = set(kind.model_fields)
    for section, own in sections.items():
        table_ = doc.data.get(section)
        for key in table_ if isinstance(table_, dict) else ():
            if key in tops - own:
                message = (
                    f"`{key}` is below [{section}], which makes it `{section}.{key}`; move it up, above the first "
                    "line in [ ]"
                )
                yield Problem(message, doc.place(section, key))


def _strengthen(doc: Document, strength: int) -> None:
    asked = doc.data.get("strategy")
    if isinstance(asked, dict) and asked.get("kind") == "t-way":
        asked["strength"] = strength
    else:
        doc.data["strategy"] = {"kind": "t-way", "strength": strength}


def _resolved(spec: model.PlanFile, file: Path) -> str:
    return write.toml(spec, f"Resolved from {file.name}.")


def _fail_if(problems: Iterable[Problem]) -> None:
    found = list(dict.fromkeys(itertools.islice(problems, MOST_PROBLEMS)))
    if found:
        raise UserError.several(found)


def _references(plan: Plan, doc: Document) -> Iterator[Problem]:
    """Unknown metrics, selectors without a case, and missing partner cases."""
    known = METRICS
    for index, check in enumerate(plan.spec.check):
        here: tuple[Step, ...] = ("check", index)
        if check.metric not in known:
            hint = document.suggest(check.metric, known) or "; `tcpassay metrics` lists them"
            yield Problem(f"`metric` = `{check.metric}`: no such metric{hint}", doc.place(*here, "metric"))
        else:
            yield from _value_problems(check, doc.place(*here, "value"))
        wrong = list(_selector_problems(plan, check.where, (*here, "where"), doc))
        if check.times is not None and not wrong:
            wrong = list(_selector_problems(plan, check.times, (*here, "times"), doc))
            wrong = wrong or list(_partner_problems(plan, check, (*here, "times"), doc))
        yield from wrong
    yield from _series_problems(plan, doc)
    for name in ("packets", "deliveries"):
        if getattr(plan.spec.collect, name) and not plan.spec.collect.taps:
            message = f"`collect.{name}` needs the taps, which `taps = false` disables"
            yield Problem(message, doc.place("collect", name))
    if plan.spec.collect.deliveries and any(name.startswith("remote:") for name in plan.spec.substrates):
        message = "`collect.deliveries` has one-way delays, which a testbed does not measure"
        yield Problem(message, doc.place("collect", "deliveries"))
    yield from _warmup_problems(plan, doc)
    for index, figure in enumerate(plan.spec.figure):
        yield from _figure_problems(plan, figure, index, doc)


_KINDS: Final = {
    "s": "a length of time",
    "B": "a number of bytes",
    "bit/s": "a rate",
    "packets": "a number of packets",
}
"""The kind of a value with a unit, by the unit of the metric."""
MOST_INTERVALS: Final = 10_000_000
"""Maximum number of series intervals in one run; more would take gigabytes."""


def _figure_problems(plan: Plan, figure: model.Figure, index: int, doc: Document) -> Iterator[Problem]:
    """What a figure shows and the plan does not have or collect."""
    yield from _selector_problems(plan, figure.where, ("figure", index, "where"), doc)
    if isinstance(figure, model.OfMetric):
        yield from _metric_problems(plan, figure, index, doc)
        return
    if not plan.spec.collect.taps:
        message = "figures of runs need the taps, which `taps = false` disables"
        yield Problem(message, doc.place("figure", index, "kind"))
    if figure.kind == "sequence" and not plan.spec.collect.events:
        message = "a figure of sequence numbers is drawn from the event log: `events = true` in [collect]"
        yield Problem(message, doc.place("figure", index, "kind"))


def _metric_problems(plan: Plan, figure: model.OfMetric, index: int, doc: Document) -> Iterator[Problem]:
    """A metric or a parameter of a figure that the plan does not have."""
    if figure.metric not in METRICS:
        hint = document.suggest(figure.metric, METRICS) or "; `tcpassay metrics` lists them"
        yield Problem(
            f"`metric` = `{figure.metric}`: no such metric{hint}", doc.place("figure", index, "metric")
        )
    varied = [name for name, values in expand.levels(plan.spec).items() if len(values) > 1]
    known = [*varied, *([table.SEED] if len(plan.spec.seeds) > 1 else [])]
    for key, name in (("by", figure.by), ("group", figure.group)):
        if name is not None and sum(name in {path, path.rpartition(".")[2]} for path in known) != 1:
            listed = ", ".join(f"`{path}`" for path in known) or "nothing"
            message = f"`{key}` = `{name}`: the plan varies {listed}{document.suggest(name, known)}"
            yield Problem(message, doc.place("figure", index, key))
    if figure.group is not None and figure.group == figure.by:
        message = f"`group` = `{figure.group}`: it is `by`, too; leave out one"
        yield Problem(message, doc.place("figure", index, "group"))


def _value_problems(check: model.Check, place: Place) -> Iterator[Problem]:
    """A threshold whose unit differs from that of its metric."""
    if not isinstance(check.value, str):
        return
    kind, unit = quantity(check.value).kind, METRICS[check.metric].unit
    allowed = "a number" if check.times is not None else _KINDS.get(unit, "a number")
    if kind not in {allowed, "a number"}:
        why = "it multiplies the metric of another case" if check.times is not None else f"its unit is {unit}"
        message = (
            f"`value` = `{check.value}` is {kind}; allowed for `{check.metric}` is {allowed}, because {why}"
        )
        yield Problem(message, place)


def _series_problems(plan: Plan, doc: Document) -> Iterator[Problem]:
    """A series interval that is too short for the duration of the runs."""
    if plan.spec.collect.series == "off":
        return
    interval = quantity(plan.spec.collect.series).amount
    default = table.parameters()["app.duration"].default
    for duration in dict.fromkeys(case.triples.get("app.duration", default) for case in plan.cases):
        length = quantity(duration).amount
        if not isinstance(interval, Fraction) or not isinstance(length, Fraction):
            continue
        if interval <= 0 or length / interval > MOST_INTERVALS:
            shown = "without end" if interval <= 0 else f"{int(length / interval):,}"
            message = (
                f"`collect.series` = `{plan.spec.collect.series}`: in a run of {duration} (`app.duration`) these are "
                f"{shown} intervals; allowed are at most {MOST_INTERVALS:,}"
            )
            yield Problem(message, doc.place("collect", "series"))
            return


def _warmup_problems(plan: Plan, doc: Document) -> Iterator[Problem]:
    """A warm-up as long as a case."""
    warmup = quantity(plan.spec.collect.warmup).amount
    usual = table.parameters()["app.duration"].default
    for case in plan.cases:
        if case.script is not None:
            continue
        duration = str(case.triples.get("app.duration", usual))
        amount = quantity(duration).amount
        if isinstance(warmup, Fraction) and isinstance(amount, Fraction) and warmup >= amount:
            message = (
                f"`collect.warmup` = `{plan.spec.collect.warmup}`: it excludes the whole run of `app.duration` = "
                f"`{duration}`; it must be shorter"
            )
            yield Problem(message, doc.place("collect", "warmup"))
            return


def _selector_problems(
    plan: Plan, selector: fields.Selector, path: tuple[Step, ...], doc: Document
) -> Iterator[Problem]:
    varied = expand.levels(plan.spec)
    levels = {name: [*values] for name, values in varied.items()}
    members = [triples for sets in plan.spec.groups.values() for triples in sets.values()]
    for triples in (plan.spec.fixed, *members):
        for set_, value in triples.items():
            levels.setdefault(set_, []).append(value)
    wrong = False
    for name, wanted in selector.items():
        place = doc.place(*path, name)
        if name not in levels:
            named = ", ".join(f"`{axis}`" for axis in varied) or "nothing"
            hint = document.suggest(name, levels)
            yield Problem(f"`{name}`: the plan does not set it{hint}; it varies {named}", place)
            wrong = True
            continue
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if not any(same(value, known) for known in levels[name]):
                allowed = ", ".join(f"`{show(known)}`" for known in levels[name])
                yield Problem(f"`{name}` = `{show(value)}`: selects nothing; allowed is {allowed}", place)
                wrong = True
    if not wrong and not plan.select(selector):
        yield Problem(f"{words.dotted(path)}: selects no case", doc.place(*path))


def _partner_problems(
    plan: Plan, check: model.Check, path: tuple[Step, ...], doc: Document
) -> Iterator[Problem]:
    changed = check.times or {}
    for name, value in changed.items():
        if name not in expand.levels(plan.spec) or isinstance(value, list):
            yield Problem(f"`{name}`: allowed is one value of what the plan varies", doc.place(*path, name))
            return
    for case in plan.select(check.where):
        wrong = ""
        try:
            if plan.partner(case, changed) is case:
                wrong = "would be compared with itself"
        except KeyError:
            wrong = f"has no partner among the cases of the strategy `{plan.spec.strategy.kind}`"
        if wrong:
            yield Problem(f"{words.dotted(path)}: the case `{case.label}` {wrong}", doc.place(*path))
            return
