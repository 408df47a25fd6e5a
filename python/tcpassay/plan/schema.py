"""The JSON schema of plan files: the format's model, and the parameters and metrics of the tables."""

from typing import Any

from tcpassay.plan import table
from tcpassay.plan.model import PlanFile


def schema() -> dict[str, Any]:
    """JSON schema, draft 2020-12, with every parameter's values, default and documentation for the editor."""
    made = PlanFile.model_json_schema()
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "tcpassay plan"
    value = {row.path: _value(row) for row in table.parameters().values()}
    addressed = {"^[a-z0-9]+/": _scalar()}
    made["properties"]["fixed"] = {
        "type": "object",
        "description": PlanFile.model_fields["fixed"].description,
        "properties": value,
        "patternProperties": addressed,
        "additionalProperties": _nested(),
    }
    lists = {path: {"type": "array", "minItems": 1, "items": one} for path, one in value.items()}
    made["properties"]["axes"] = {
        "type": "object",
        "description": PlanFile.model_fields["axes"].description,
        "properties": lists,
        "patternProperties": {"^[a-z0-9]+/": {"type": "array", "minItems": 1, "items": _scalar()}},
        "additionalProperties": _nested(),
    }
    names = [row.name for row in table.metrics().values()]
    made["$defs"]["Check"]["properties"]["metric"]["enum"] = names
    return made


def _scalar() -> dict[str, Any]:
    return {"type": ["string", "integer", "number", "boolean"]}


def _nested() -> dict[str, Any]:
    # `stack.cc = "reno"` without quotes is a table `stack`; the reader checks what it holds.
    return {"type": "object"}


def _value(row: table.Parameter) -> dict[str, Any]:
    about = f"{row.doc}. Allowed: {row.allowed}."
    made: dict[str, Any] = {"description": about, "default": row.default}
    if row.kind == "choice":
        return made | {"enum": [*row.choices, *([True, False] if "on" in row.choices else [])]}
    return made | _scalar() | {"examples": row.levels}
