"""Conversion of pydantic's errors about a plan to messages with the value, the allowed values and the position."""

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tcpassay.errors import Problem
from tcpassay.plan import document, model
from tcpassay.plan.document import Document, Step

FIGURES: dict[str, type[model.Panel]] = {
    "timeline": model.Timeline,
    "sequence": model.Sequence,
    "distribution": model.Distribution,
    "diagram": model.Diagram,
    **dict.fromkeys(get_args(model.OfMetric.model_fields["kind"].annotation), model.OfMetric),
}


def problems(error: ValidationError, doc: Document) -> Iterator[Problem]:
    """One problem per position, in the order of the model."""
    seen = set()
    for one in error.errors(include_url=False):
        path, missing = _real_path(one["loc"], doc.data)
        if path in seen:
            continue  # every branch of a union reports an error
        seen.add(path)
        yield Problem(_message(one, path, missing, doc), doc.place(*path))


def _real_path(loc: tuple[Step, ...], data: Any) -> tuple[tuple[Step, ...], str]:
    """Pydantic's location without the names of union branches, with the missing key at its end."""
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
        case "union_tag_not_found" | "union_tag_invalid":
            key, tags = _tags(path, error["input"])
            said = f"{dotted((*path, key))}"
            if error["type"] == "union_tag_not_found":
                return f"{said} is missing; allowed are {', '.join(tags)}"
            tag = str(context["tag"])
            return f"{said} = `{tag}`: allowed are {', '.join(tags)}{document.suggest(tag, tags)}"
    value = error["input"]
    shown = f"`{json.dumps(value, default=str)[:80]}`" if not isinstance(value, str) else f"`{value[:80]}`"
    return f"{name} = {shown}: allowed is {_allowed(error, path, doc)}"


TIME = "a length of time, as in `10ms` (ns us ms s min h)"
SIZE = "a number of bytes, as in `1GiB` (B KB MB GB KiB MiB GiB)"
SCALAR = "a text, a number, true or false"
AXIS = "a list of values, in [ ], or `{ from, to, steps }`, or `{ distribution, count, ... }` (docs/plan.md)"
SEQUENCES = ["losses", "rates"]
AXIS_KINDS = [kind for kind in model.AXES if kind not in {"range", *SEQUENCES}]
# The allowed values for a value of a wrong type or form, by pydantic's name of the error.
ALLOWED = {
    "list_type": "a list, in [ ]",
    "dict_type": "a table of `parameter = value`",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "bool_type": "true or false",
    "string_too_short": "a text that is not empty",
    "finite_number": "a finite number",
    "int_type": "a number",
    "float_type": "a number",
}


def _tags(path: tuple[Step, ...], value: Any) -> tuple[str, list[str]]:
    """The key that determines the kind of a table, and its allowed values."""
    if path[0] != "axes":
        return "kind", _kinds(path)
    sequence = isinstance(value, dict) and "sequence" in value
    return ("sequence", SEQUENCES) if sequence else ("distribution", AXIS_KINDS)


def _kinds(path: tuple[Step, ...]) -> list[str]:
    return list(model.STRATEGIES if path == ("strategy",) else FIGURES)


def _allowed(error: Any, path: tuple[Step, ...], doc: Document) -> str:  # noqa: PLR0911 - a table
    here = _allowed_at(path)
    if here:
        return here
    match error["type"]:
        case "literal_error":
            return f"one of {error['ctx']['expected'].replace(chr(39), '').replace(' or ', ', ')}"
        case "string_too_long":
            return f"a text of at most {error['ctx']['max_length']} characters; it has {len(error['input'])}"
        case "string_pattern_mismatch":
            return "letters, digits and `.`, `_`, `-`, beginning with a letter or digit"
        case "string_type":
            named = path if isinstance(path[-1], str) else path[:-1]
            return f"a text ({_doc_of(named[:-1], str(named[-1]), doc).lower()})"
        case "too_short":
            least = error["ctx"]["min_length"]
            return "at least one value" if least == 1 else f"at least {least} values"
        case kind:
            return ALLOWED.get(kind, str(error["msg"]).removeprefix("Input should be "))


def _allowed_at(path: tuple[Step, ...]) -> str | None:  # noqa: C901, PLR0911, PLR0912 - a table
    """The allowed values at positions where they do not depend on the error."""
    match path:
        case ("axes", _, "seed") | ("strategy", "seed") | ("seeds", int()):
            return f"a whole number from 0 to {2**63 - 1}"
        case ("axes", _, "count" | "steps" as key):
            return f"a whole number from {1 if key == 'count' else 2} to 1000"
        case ("axes", _, "values" | "weights") | ("negative", _):
            return "a list of values, in [ ]"
        case ("axes", _, "weights", int()):
            return "a number above 0"
        case ("axes", _, "from" | "to" | "mean" | "deviation") | ("axes", _, "values", int()):
            return SCALAR
        case ("axes", str()):
            return AXIS
        case ("groups", _) | ("groups", _, _):
            names = "names begin with a letter or a digit, and have letters, digits, `_` and `-`"  # `Word` of the model
            return f"a table of `name = {{ parameter = value, ... }}`; {names}"
        case ("strategy", "budget", "runs") | ("strategy", "best" | "population" | "generation"):
            most = {"runs": 1_000_000, "best": 100}.get(str(path[-1]), 1000)
            return f"a whole number from {2 if path[-1] == 'population' else 1} to {most}"
        case ("strategy", "budget"):
            return 'a table, as in `{ runs = 500 }` or `{ cpu_time = "60s" }`'
        case ("axes", _, "most" | "among"):
            return f"a whole number from 1 to {1000 if path[-1] == 'most' else 10_000_000}"
        case ("strategy", "strength") | ("strategy", "family", int(), "strength"):
            return "a whole number from 2 to 6"
        case ("repetitions",):
            return "a whole number from 1 to 1000"
        case ("limits", "cases") | ("strategy", "count"):
            return "a whole number from 1 to 1000000"
        case ("limits", "case_memory"):
            return SIZE
        case ("keep", "sample"):
            return "a percentage from 0% to 100%, as in `5%`"
        case ("substrates", int()):
            return (
                "`model`, `model:STACK` for another TCP (`tcpassay stack list`), `host`, `kernel`, `kernel:NAME` for "
                "one that was built (`tcpassay kernel list`), or "
                "`remote:NAME` for a testbed, whose file is in the user's settings or given by --testbed "
                "(docs/testbed.md)"
            )
        case ("check", int(), "value"):
            return "a number, or an amount with its unit, as in `1ms`, `10Mbit`, `30KB`, `5%`"
        case ("oracles",):
            return "true, false, or a list of names (`tcpassay oracles` lists them)"
        case ("figure", int(), "series"):
            return None
        case (*_, "series"):
            return f"{TIME}, or `off`"
        case (*_, "start" | "end" | "stall" | "warmup" | "case_time" | "cpu_time" | "interval") | (
            "limits",
            "time",
        ):
            return TIME
        case ("axes", _, int()) | ("fixed" | "groups" | "negative", *_) | (*_, "where" | "times", _):
            return SCALAR
        case _:
            return None


def dotted(path: tuple[Step, ...]) -> str:
    """A path in the format of error messages, as in `check[0].metric`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"`{text or 'the plan'}`"


def _model_at(path: tuple[Step, ...], doc: Document) -> type[BaseModel]:  # noqa: PLR0911 - a table
    match path:
        case ("collect",):
            return model.Collect
        case ("limits",):
            return model.Limits
        case ("keep",):
            return model.Keep
        case ("strategy",):
            return model.STRATEGIES[doc.at("strategy", "kind")]
        case ("strategy", "family", int()):
            return model.Family
        case ("strategy", "budget"):
            return model.Budget
        case ("axes", str(name)):
            return model.AXES[model.axis_form(doc.at("axes", name))]
        case ("check", int()):
            return model.Check
        case ("figure", int(index)):
            return FIGURES[doc.at("figure", index, "kind")]
        case _:
            return model.PlanFile


def _keys(path: tuple[Step, ...], doc: Document) -> list[str]:
    fields = _model_at(path, doc).model_fields
    return [field.alias or name for name, field in fields.items()]


def _doc_of(path: tuple[Step, ...], key: str, doc: Document) -> str:
    fields = _model_at(path, doc).model_fields
    names = {field.alias or name: field for name, field in fields.items()}
    return (names[key].description if key in names else None) or key
