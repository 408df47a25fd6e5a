"""From the text of a plan file to its cases, or to a list of what is wrong and where.

Nothing is run, and nothing written, before the whole plan has been read and every case of it accepted by the data
plane: an error in the last case must not cost the time of the first.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from tcpassay.errors import Problem, UserError
from tcpassay.plan import document, expand, model, table, words
from tcpassay.plan.document import Document, Step
from tcpassay.plan.expand import Case, same, show

# Problems shown at once.
MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan file that has been read and found good."""

    file: Path
    text: str
    spec: model.PlanFile
    cases: list[Case]

    def with_seeds(self, seeds: list[int]) -> "Plan":
        """The same plan with other seeds."""
        return replace(self, spec=self.spec.model_copy(update={"seeds": seeds}))

    def select(self, selector: model.Selector) -> list[Case]:
        """The cases that a selector means."""
        return [case for case in self.cases if case.matches(selector)]

    def partner(self, case: Case, changed: model.Selector) -> Case:
        """The case that differs from `case` in what `changed` says only."""
        free = {name: value for name, value in case.varied.items() if name not in changed}
        (partner,) = self.select({**free, **changed})
        return partner


def read_file(file: Path) -> Plan:
    """Reads a plan file, or raises all that is wrong with it."""
    return read(document.read_text(file), file)


def read(text: str, file: Path) -> Plan:
    """Reads the text of a plan; `file` is named in errors and is where its relative file names start."""
    doc = document.parse(text, file)
    document.flatten(doc, ("fixed",))
    document.flatten(doc, ("axes",), model.RANGE_KEYS)
    document.flatten(doc, ("negative",))
    for group, level in _levels(doc):
        document.flatten(doc, ("groups", group, level))
    try:
        spec = model.PlanFile.model_validate(doc.data)
    except ValidationError as error:
        raise UserError.several(words.problems(error, doc)) from None
    _fail_if(itertools.chain(_not_built(spec, doc), _names(spec, doc), _overlaps(spec, doc)))
    try:
        plan = Plan(file, text, spec, expand.cases(spec, doc, MOST_PROBLEMS))
    except expand.Refused as refused:
        raise UserError.several(refused.problems) from None
    _fail_if(_references(plan, doc))
    return plan


def _levels(doc: Document) -> list[tuple[str, str]]:
    groups = doc.data.get("groups")
    if not isinstance(groups, dict):
        return []
    return [(name, level) for name, levels in groups.items() if isinstance(levels, dict) for level in levels]


def _fail_if(problems: Iterable[Problem]) -> None:
    found = list(dict.fromkeys(itertools.islice(problems, MOST_PROBLEMS)))
    if found:
        raise UserError.several(found)


def _not_built(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """What this version cannot do, with what it can."""
    for index, substrate in enumerate(spec.substrates):
        if substrate != "model":
            message = f"`substrates[{index}]` = `{substrate}`: this version runs plans on `model` only"
            yield Problem(message, doc.place("substrates", index))
    for key in ("extends", "negative", "constraints"):
        if getattr(spec, key):
            yield Problem(f"`{key}`: not joined to the reader yet", doc.place(key))
    if spec.strategy.kind != "full":
        yield Problem(
            f"`strategy.kind` = `{spec.strategy.kind}`: not joined yet", doc.place("strategy", "kind")
        )
    for path, axis in spec.axes.items():
        if not isinstance(axis, list):
            yield Problem(f"`{path}`: ranges are not joined to the reader yet", doc.place("axes", path))


def _names(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Names of metrics and oracles that there are not."""
    known = table.metrics()
    for index, metric in enumerate(spec.metrics):
        if metric not in known:
            hint = document.suggest(metric, known) or "; `tcpassay metrics` lists them"
            message = f"`metrics[{index}]` = `{metric}`: no such metric{hint}"
            yield Problem(message, doc.place("metrics", index))
    if isinstance(spec.oracles, list) and spec.oracles:
        from tcpassay.judge.registry import ORACLES  # noqa: PLC0415 - polars is most of the start-up time

        for index, oracle in enumerate(spec.oracles):
            if oracle not in ORACLES:
                message = f"`oracles[{index}]` = `{oracle}`: no such oracle; allowed are {', '.join(ORACLES)}"
                yield Problem(message + document.suggest(oracle, ORACLES), doc.place("oracles", index))


def _overlaps(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """What is said twice."""
    yield from _set_twice(spec, doc)
    for path, values in spec.axes.items():
        listed = values if isinstance(values, list) else []
        for index, value in enumerate(listed):
            if any(same(value, other) for other in listed[:index]):
                place = doc.place("axes", path, index)
                yield Problem(f"`{path}`: `{show(value)}` stands twice in the list", place)
    for index, seed in enumerate(spec.seeds):
        if seed in spec.seeds[:index]:
            yield Problem(f"`seeds`: {seed} stands twice in the list", doc.place("seeds", index))
    for index, figure in enumerate(spec.figure):
        if figure.file in (earlier.file for earlier in spec.figure[:index]):
            place = doc.place("figure", index, "file")
            yield Problem(f"`figure[{index}].file` = `{figure.file}`: another figure has this name", place)


def _set_twice(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """A parameter belongs to one of: the fixed ones, an axis, a group."""
    owners: dict[str, tuple[str, tuple[Step, ...]]] = {
        path: ("fixed", ("fixed", path)) for path in spec.fixed
    }
    claims: list[tuple[str, str, tuple[Step, ...]]] = [
        (path, "an axis", ("axes", path)) for path in spec.axes
    ]
    for group, levels in spec.groups.items():
        set_by_group = {path: level for level, triples in reversed(levels.items()) for path in triples}
        claims += [
            (path, f"group `{group}`", ("groups", group, level, path)) for path, level in set_by_group.items()
        ]
    for path, owner, where in claims:
        if path in owners:
            other, there = owners[path]
            line = doc.place(*there).line
            yield Problem(
                f"`{path}` is set here ({owner}) and in line {line} ({other}); keep one", doc.place(*where)
            )
        owners.setdefault(path, (owner, where))


def _references(plan: Plan, doc: Document) -> Iterator[Problem]:
    """Metrics and selectors that name nothing, and pairs that are not there."""
    known = table.metrics()
    for index, check in enumerate(plan.spec.check):
        here: tuple[Step, ...] = ("check", index)
        if check.metric not in known:
            hint = document.suggest(check.metric, known) or "; `tcpassay metrics` lists them"
            yield Problem(f"`metric` = `{check.metric}`: no such metric{hint}", doc.place(*here, "metric"))
        wrong = list(_selector_problems(plan, check.where, (*here, "where"), doc))
        if check.times is not None and not wrong:
            wrong = list(_selector_problems(plan, check.times, (*here, "times"), doc))
            wrong = wrong or list(_partner_problems(plan, check, (*here, "times"), doc))
        yield from wrong
    for index, figure in enumerate(plan.spec.figure):
        yield from _selector_problems(plan, figure.where, ("figure", index, "where"), doc)
        if figure.kind == "sequence" and not plan.spec.collect.events:
            message = "a figure of sequence numbers is drawn from the event log: `events = true` in [collect]"
            yield Problem(message, doc.place("figure", index, "kind"))


def _selector_problems(
    plan: Plan, selector: model.Selector, path: tuple[Step, ...], doc: Document
) -> Iterator[Problem]:
    levels = expand.levels(plan.spec) | {path: [value] for path, value in plan.spec.fixed.items()}
    wrong = False
    for name, wanted in selector.items():
        place = doc.place(*path, name)
        if name not in levels:
            varied = ", ".join(f"`{axis}`" for axis in expand.levels(plan.spec)) or "nothing"
            hint = document.suggest(name, levels)
            yield Problem(f"`{name}`: the plan does not set it{hint}; it varies {varied}", place)
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
        if plan.partner(case, changed) is case:
            message = f"{words.dotted(path)}: the case `{case.label}` would be compared with itself"
            yield Problem(message, doc.place(*path))
            return
