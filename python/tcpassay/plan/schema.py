"""The JSON schema of plan files, from the model of the format and the tables of parameters and metrics."""

from tcpassay.interface import METRICS
from tcpassay.plan import table
from tcpassay.plan.model import AXES, PlanFile

Schema = dict[str, object]
"""A JSON schema, or a part of one."""


def schema() -> Schema:
    """JSON schema, draft 2020-12, with the values, default and documentation of every parameter for editors."""
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
    made["properties"]["axes"] = {
        "type": "object",
        "description": PlanFile.model_fields["axes"].description,
        "properties": {path: _axis(one) for path, one in value.items()},
        "patternProperties": {"^[a-z0-9]+/": _axis(_scalar())},
        "additionalProperties": _nested(),
    }
    made["$defs"]["AxisTable"] = {"anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in AXES.values()]}
    made["properties"]["negative"] = {
        "type": "object",
        "description": PlanFile.model_fields["negative"].description,
        "properties": {
            path: _list({"description": one["description"]} | _scalar()) for path, one in value.items()
        },
        "patternProperties": {"^[a-z0-9]+/": _list(_scalar())},
        "additionalProperties": _nested(),
    }
    names = [row.name for row in METRICS.values()]
    made["$defs"]["Check"]["properties"]["metric"]["enum"] = names
    return made


def _scalar() -> Schema:
    return {"type": ["string", "integer", "number", "boolean"]}


def _list(of: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "items": of}


def _axis(of: Schema) -> Schema:
    """A list of values of a parameter, a range or a distribution."""
    return {"description": of.get("description", ""), "anyOf": [_list(of), {"$ref": "#/$defs/AxisTable"}]}


def _nested() -> Schema:
    # `stack.cc = "reno"` without quotes is a table `stack`; the reader checks its content.
    return {"type": "object"}


def _value(row: table.Parameter) -> Schema:
    about = f"{row.doc}. Allowed: {row.allowed}."
    made: Schema = {"description": about, "default": row.default}
    if row.kind == "choice":
        return made | {"enum": [*row.choices, *([True, False] if "on" in row.choices else [])]}
    if row.path == "stack.cc":  # a controller by its name, a class in Python, or a module
        return made | {"anyOf": [{"enum": row.choices}, {"type": "string", "pattern": "^(python|module):.+"}]}
    return made | _scalar() | {"examples": row.levels}
