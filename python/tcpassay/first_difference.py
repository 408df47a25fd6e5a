"""The first difference of a followed end from the model, in a recording or in a capture."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first difference of an end from the model."""

    row: int
    """Number of rows of the log, or of packets of the connection, before it."""
    time_ns: int
    """Since the beginning of the run, or since the first packet of the capture."""
    kind: str
    sent: str
    """What the end did."""
    expected: str
    """What the model would have done."""
    why: str
    """The model's reason."""
    source: str
    """The function of Linux or the section of an RFC that has the rule."""
    cause: str
    """The kind and the reason without numbers."""
