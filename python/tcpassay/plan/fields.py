"""Types of the fields of a plan file."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
Number = StrictInt | StrictFloat
Values = Annotated[list[Scalar], Field(min_length=1)]
Path = Annotated[str, Field(min_length=1)]
Selector = dict[Path, Scalar | Values]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
Time = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(ns|us|ms|s|min|h)$", examples=["10ms"])]
Size = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(B|KB|MB|GB|KiB|MiB|GiB)$", examples=["1GiB"])]
Amount = Annotated[
    str,
    Field(
        pattern=r"^-?\d{1,15}(\.\d{1,15})?(%|p|ns|us|ms|s|min|h|B|KB|MB|GB|KiB|MiB|GiB|bit|Kbit|Mbit|Gbit)$",
        examples=["1ms"],
    ),
]
TIME: Final = "a length of time"
"""The kind of times in `quantity`; their smallest unit is ns, unlike the unit s of metrics."""
Share = Annotated[str, Field(pattern=r"^(100|\d{1,2}(\.\d+)?)%$", examples=["5%"])]
Strength = Annotated[StrictInt, Field(ge=2, le=6)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
Substrate = Annotated[
    str,
    Field(
        pattern=r"^(model(:[a-z0-9]+(@[A-Za-z0-9.+-]+)?|:exec:[^\x00-\x1f\x7f]+)?|host|remote:[A-Za-z0-9][A-Za-z0-9_-]{0,39}|"
        r"kernel(:[A-Za-z0-9][A-Za-z0-9._+-]*)?)$",
        max_length=200,
    ),
]
FlowNumber = Annotated[StrictInt, Field(ge=1, le=100_000)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)]


class Strict(BaseModel):
    """A table that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
