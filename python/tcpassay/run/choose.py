"""Selection of cases of a plan by their values or ids."""

from collections import defaultdict
from collections.abc import Iterable

from tcpassay.errors import UserError
from tcpassay.plan.document import suggest
from tcpassay.plan.expand import SUBSTRATE, Case, show
from tcpassay.plan.read import Plan


def choose(plan: Plan, texts: Iterable[str]) -> frozenset[str] | None:
    """The ids of the cases selected by `PATH=VALUE` and ids; `None` (all cases) without selection.

    Several values of one parameter are alternatives; several parameters must all match; ids may be abbreviated. Raises
    `UserError` for a selection without cases.
    """
    values: dict[str, set[str]] = defaultdict(set)
    ids: list[str] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if equals:
            values[_name(name, plan)].add(value)
        else:
            ids.append(text)
    if not values and not ids:
        return None
    for text in ids:
        if not any(case.id.startswith(text) for case in plan.cases):
            raise UserError(
                f"`--filter {text}`: no case has this id; give PATH=VALUE, or an id of `--dry-run`"
            )
    _check(plan, values)
    chosen = [
        case
        for case in plan.cases
        if (values and _has(case, values)) or any(case.id.startswith(text) for text in ids)
    ]
    if not chosen:
        raise UserError("`--filter`: no case has all these values")
    return frozenset(case.id for case in chosen)


def _name(name: str, plan: Plan) -> str:
    """The parameter with this name; the last part of its path is sufficient if it is unambiguous."""
    known = dict.fromkeys(path for case in plan.cases for path in _said(case))
    if name in known:
        return name
    meant = [path for path in known if path.rpartition(".")[2] == name]
    if len(meant) > 1:
        listed = " or ".join(f"`{path}`" for path in meant)
        raise UserError(f"`--filter {name}=...`: several parameters are called so; give {listed}")
    return meant[0] if meant else name


def _said(case: Case) -> dict[str, str]:
    said = {SUBSTRATE: case.substrate} | case.triples | case.varied
    return {name: show(value) for name, value in said.items()}


def _has(case: Case, values: dict[str, set[str]]) -> bool:
    said = _said(case)
    return all(said.get(name) in wanted for name, wanted in values.items())


def _check(plan: Plan, values: dict[str, set[str]]) -> None:
    known: dict[str, dict[str, None]] = defaultdict(dict)
    for case in plan.cases:
        for name, value in _said(case).items():
            known[name][value] = None
    for name, wanted in values.items():
        if name not in known:
            raise UserError(f"`--filter {name}=...`: the plan does not set it{suggest(name, known)}")
        for value in wanted - set(known[name]):
            allowed = ", ".join(f"`{one}`" for one in known[name])
            raise UserError(f"`--filter {name}={value}`: no case has this value; there are {allowed}")
