"""What pydantic found wrong with a plan, in this project's words: the value, what is allowed, the place."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from tcpassay.errors import Problem
from tcpassay.plan import document, model
from tcpassay.plan.document import Document, Step

FIGURES: dict[str, type[model.Panel]] = {
    "timeline": model.Timeline,
    "sequence": model.Sequence,
    "distribution": model.Distribution,
}


def problems(error: ValidationError, doc: Document) -> Iterator[Problem]:
    """A problem for each place, in the order of the document's model."""
    seen = set()
    for one in error.errors(include_url=False):
        path, missing = _real_path(one["loc"], doc.data)
        if path in seen:
            continue  # each branch of a union complains
        seen.add(path)
        yield Problem(_message(one, path, missing, doc), doc.place(*path))


def _real_path(loc: tuple[Step, ...], data: Any) -> tuple[tuple[Step, ...], str]:
    """Pydantic's location without the names of union branches, and the key that is missing at its end."""
    path: list[Step] = []
    for step in loc:
        inside = step in data if isinstance(data, dict) else isinstance(data, list) and isinstance(step, int)
        if inside:
            path.append(step)
            data = data[step]
    missing = "" if path and loc[-1] == path[-1] else str(loc[-1])
    return tuple(path), missing


def _message(error: Any, path: tuple[Step, ...], missing: str, doc: Document) -> str:
    name = dotted(path)
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"{dotted((*path, missing))} is missing; it is needed: {_doc_of(path, missing, doc)}"
        case "extra_forbidden":
            keys = _keys(path[:-1], doc)
            return f"unknown key {name}{document.suggest(str(path[-1]), keys)}; allowed are {', '.join(keys)}"
        case "union_tag_not_found":
            return f"{dotted((*path, 'kind'))} is missing; allowed are {', '.join(FIGURES)}"
        case "union_tag_invalid":
            tags = context["expected_tags"].replace("'", "")
            tag = context["tag"]
            return f"{dotted((*path, 'kind'))} = `{tag}`: allowed are {tags}{document.suggest(tag, tags.split(', '))}"
    value = error["input"]
    shown = f"`{json.dumps(value, default=str)[:80]}`" if not isinstance(value, str) else f"`{value[:80]}`"
    return f"{name} = {shown}: allowed is {_allowed(error, path, doc)}"


TIME = "a length of time, as in `10ms` (ns us ms s min h)"
SCALAR = "a text, a number, true or false"
# What is allowed where a value has the wrong type or form, by pydantic's name of the error.
ALLOWED = {
    "list_type": "a list, in [ ]",
    "dict_type": "a table of `parameter = value`",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "bool_type": "true or false",
    "too_short": "at least one value",
    "string_too_short": "a text that is not empty",
    "finite_number": "a finite number",
    "int_type": "a number",
    "float_type": "a number",
}


def _allowed(error: Any, path: tuple[Step, ...], doc: Document) -> str:
    here = _allowed_at(path)
    if here:
        return here
    match error["type"]:
        case "literal_error":
            return f"one of {error['ctx']['expected'].replace(chr(39), '').replace(' or ', ', ')}"
        case "string_pattern_mismatch":
            return "letters, digits and `.`, `_`, `-`, beginning with a letter or digit"
        case "string_type":
            return f"a text ({_doc_of(path[:-1], str(path[-1]), doc).lower()})"
        case kind:
            return ALLOWED.get(kind, str(error["msg"]).removeprefix("Input should be "))


def _allowed_at(path: tuple[Step, ...]) -> str | None:  # noqa: PLR0911 - a table
    """Where the place alone says what is allowed, whichever way the value misses it."""
    match path:
        case (*_, "series"):
            return f"{TIME}, or `off`"
        case (*_, "start" | "end" | "stall" | "warmup"):
            return TIME
        case ("seeds", int()):
            return f"a whole number from 0 to {2**63 - 1}"
        case ("groups", _) | ("groups", _, _):
            return "a table of `name = { parameter = value, ... }`; names have letters, digits, `_` and `-`"
        case ("axes", str()):
            return "a list of values, in [ ]"
        case ("fixed" | "axes" | "groups", *_) | (*_, "where" | "times", _):
            return SCALAR
        case _:
            return None


def dotted(path: tuple[Step, ...]) -> str:
    """A path as it is written in an error, `check[0].metric`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"`{text or 'the plan'}`"


def _model_at(path: tuple[Step, ...], doc: Document) -> type[BaseModel]:
    match path:
        case ("collect",):
            return model.Collect
        case ("check", int()):
            return model.Check
        case ("figure", int(index)):
            return FIGURES[doc.data["figure"][index]["kind"]]
        case _:
            return model.PlanFile


def _keys(path: tuple[Step, ...], doc: Document) -> list[str]:
    return list(_model_at(path, doc).model_fields)


def _doc_of(path: tuple[Step, ...], key: str, doc: Document) -> str:
    field = _model_at(path, doc).model_fields.get(key)
    return (field and field.description) or key
