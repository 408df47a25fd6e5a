"""Consistency checks of a plan: unknown names, and settings that occur twice.

They use the plan file and the tables only; `combine` and the data plane check the cases.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from tcpassay import _native
from tcpassay.errors import Place, Problem, UserError
from tcpassay.interface import METRICS
from tcpassay.plan import (
    axis,
    constraint_parser,
    constraints,
    document,
    expand,
    fields,
    model,
    searching,
    table,
)
from tcpassay.plan.document import Document, Step
from tcpassay.plan.expand import show
from tcpassay.plan.quantity import Quantity, quantity
from tcpassay.substrate import substrate_of

COLUMNS: Final = frozenset(("case", "seed", "outcome", "message", "recording", "substrate", "script"))
"""Columns of result tables besides varied parameters and metrics."""


def problems(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """All problems of the plan; causes precede their consequences."""
    ill = list(chain(_substrates(spec, doc), _names(spec, doc), _axes(spec, doc), _constraints(spec, doc)))
    yield from ill or chain(
        _set_twice(spec, doc),
        _levels(spec, doc),
        _negative(spec, doc),
        _families(spec, doc),
        _lists(spec, doc),
        _limits(spec, doc),
        searching.problems(spec, doc),
    )


def _limits(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Limits with which no run can complete."""
    for name in ("case_time", "case_memory", "time"):
        value = getattr(spec.limits, name)
        if value is not None and quantity(value).amount == 0:
            yield Problem(
                f"`limits.{name}` = `{value}`: no run can complete; give more than 0",
                doc.place("limits", name),
            )


def _substrates(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Unknown substrates, or missing requirements of a substrate that are needed to check cases."""
    for index, name in enumerate(spec.substrates):
        place = doc.place("substrates", index)
        if name in spec.substrates[:index]:
            yield Problem(f"`substrates`: `{name}` is listed twice", place)
            continue
        try:
            substrate_of(name).check({}, str(doc.file.parent))
        except _native.CaseError:
            pass  # the default case may be one that the substrate does not support
        except UserError as error:
            yield from (
                Problem(f"`substrates[{index}]` = `{name}`: {e.message}", place) for e in error.problems
            )


def _names(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Unknown metrics, oracles and groups."""
    known = METRICS
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
    for group in spec.groups:
        if group in table.parameters():
            message = f"`groups.{group}`: `{group}` is a parameter; a group needs a name of its own"
            yield Problem(message, doc.place("groups", group))
        elif group in known or group in COLUMNS:
            what = "a metric" if group in known else "a column of the tables of results"
            message = f"`groups.{group}`: `{group}` is {what}; a group needs another name"
            yield Problem(message, doc.place("groups", group))


def _axes(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    for path, one in spec.axes.items():
        try:
            axis.values(path, one)
        except axis.AxisError as error:
            message = f"`axes.{path}.{error.key}` = {error.message}"
            yield Problem(message, doc.place("axes", path, error.key))


def _constraints(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Constraints that cannot be parsed, or that contain unknown names."""
    known = [*table.parameters(), *spec.groups]
    for index, text in enumerate(spec.constraints):
        place = doc.place("constraints", index)
        try:
            constraint = constraint_parser.parse(text, place)
        except UserError as error:
            yield from error.problems
            continue
        for name in constraint.parameters:
            if name not in known and name.rpartition("/")[2] not in table.parameters():
                hint = document.suggest(name, known) or "; `tcpassay params` lists the parameters"
                yield Problem(
                    f"`constraints[{index}]`: `{name}` is neither a parameter nor a group{hint}", place
                )
        for name, value in constraints.compared(constraint.expression):
            wrong = _never(spec, name, value, str(doc.file.parent))
            if wrong:
                yield Problem(f"`constraints[{index}]`: `{name}` is never `{show(value)}`: {wrong}", place)


def _never(spec: model.PlanFile, name: str, value: fields.Scalar, base: str) -> str:
    """The reason why a parameter or group never has a value, which makes a constraint useless; empty otherwise."""
    if name in spec.groups:
        levels = list(spec.groups[name])
        return "" if show(value) in levels else f"allowed are {', '.join(f'`{level}`' for level in levels)}"
    plain = name.rpartition("/")[2]
    row = table.parameters().get(plain)
    if row is None or show(value) in (row.default, *row.levels):
        return ""
    wrong = ""
    for substrate in spec.substrates:
        try:
            substrate_of(substrate).check({plain: value}, base)
        except _native.CaseError as error:
            # Errors with another path concern a case without other settings.
            wrong = next(
                (why for path, other, _, why in error.args[0] if path == plain and other is None), ""
            )
        if not wrong:
            break
    return wrong


def _set_twice(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """A parameter may be set in one place: `fixed`, an axis or a group; levels of a group override a fixed value."""
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
        if path in owners and not _overrides(owners[path], where, doc):
            other, there = owners[path]
            here = doc.place(*where)
            yield Problem(
                f"`{path}` is set here ({owner}) and in {expand.beside(doc.place(*there), here)} ({other}); keep one",
                here,
            )
        if where[0] == "groups":
            owners[path] = (owner, where)
        owners.setdefault(path, (owner, where))


def _overrides(owner: tuple[str, tuple[Step, ...]], where: tuple[Step, ...], doc: Document) -> bool:
    """Whether the setting at `where` is a group that may override a fixed value.

    A value that an extending plan fixes must not be overridden by a group of its base, because it would have no effect.
    """
    name, there = owner
    if name != "fixed" or where[0] != "groups":
        return False
    return not (doc.place(*there).file == doc.file != doc.place(*where).file)


def _levels(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Levels of a factor with the same meaning."""
    for name, among in expand.factors(spec).items():
        yield from _same(name, [(level.value, doc.place(*level.path)) for level in among])


def _same(name: str, values: list[tuple[fields.Scalar, Place]]) -> Iterator[Problem]:
    seen: dict[Quantity, fields.Scalar] = {}
    for value, place in values:
        meaning = quantity(value)
        if meaning in seen:
            first, second = show(seen[meaning]), show(value)
            wrong = f"`{first}` and `{second}` mean the same; keep one"
            yield Problem(f"`{name}`: {f'`{second}` is listed twice' if first == second else wrong}", place)
        seen.setdefault(meaning, value)


def _negative(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Negative values of unknown parameters, or values that are allowed at the same time."""
    varying = expand.factors(spec)
    members = {
        path: group for group, sets in spec.groups.items() for level in sets.values() for path in level
    }
    known = table.parameters()
    for path, values in spec.negative.items():
        place, plain = doc.place("negative", path), path.rpartition("/")[2]
        if plain not in known:
            hint = document.suggest(plain, known) or "; `tcpassay params` lists all"
            yield Problem(f"`negative.{path}`: no such parameter{hint}", place)
        elif path in members:
            message = f"`negative.{path}`: the group `{members[path]}` sets this parameter; remove it from one of both"
            yield Problem(message, place)
        elif path != plain and path not in spec.fixed and (plain in varying or plain in members):
            yield Problem(
                f"`negative.{path}`: `{plain}` varies; give `{path}` a value in [fixed] or [axes], too", place
            )
        else:
            valid = [level.value for level in varying.get(path, ())] or [
                spec.fixed.get(path, spec.fixed.get(plain, known[plain].default))
            ]
            listed = [(value, doc.place("negative", path, n)) for n, value in enumerate(values)]
            yield from _same(path, listed)
            for value, at in listed:
                if quantity(value) in map(quantity, valid):
                    message = f"`negative.{path}` = `{show(value)}`: the other cases use this value"
                    yield Problem(message, at)


def _families(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Families with factors that do not vary."""
    if not isinstance(spec.strategy, model.TWay):
        return
    owner = {name: name for name in expand.factors(spec)}
    owner |= {path: group for group, sets in spec.groups.items() for level in sets.values() for path in level}
    for index, family in enumerate(spec.strategy.family):
        for n, name in enumerate(family.of):
            if name not in owner:
                hint = (
                    document.suggest(name, owner)
                    or f"; it varies {', '.join(f'`{v}`' for v in owner) or 'nothing'}"
                )
                message = f"`strategy.family[{index}].of[{n}]` = `{name}`: the plan does not vary it{hint}"
                yield Problem(message, doc.place("strategy", "family", index, "of", n))
        if len({owner.get(name, name) for name in family.of}) < len(family.of):
            message = f"`strategy.family[{index}].of`: two of these are equal or vary in one group; keep one of them"
            yield Problem(message, doc.place("strategy", "family", index, "of"))


def _lists(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Duplicates in lists, and figures to drop that the base does not have."""
    if spec.drop_figures:
        yield Problem(
            "`drop_figures` needs `extends`: it lists figures of the extended plan",
            doc.place("drop_figures"),
        )
    known: set[int] = set()
    for index, seed in enumerate(spec.seeds):
        if seed in known:
            yield Problem(f"`seeds`: {seed} is listed twice", doc.place("seeds", index))
        known.add(seed)
    for index, figure in enumerate(spec.figure):
        if figure.file in (earlier.file for earlier in spec.figure[:index]):
            place = doc.place("figure", index, "file")
            yield Problem(f"`figure[{index}].file` = `{figure.file}`: another figure has this name", place)
