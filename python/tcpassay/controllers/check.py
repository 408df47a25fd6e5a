"""Applies the conformance kit for controllers to a class in Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay import _native
from tcpassay.errors import Place, UserError

CONTRACTS: Final = ("window", "rate", "any")


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the kit."""

    events: int
    """The number of events that the controller processed; 0 if it violates the contract."""
    broken: str | None
    """The violated rule with the shortest sequence of events that violates it, or the traceback of the controller;
    `None` if the controller keeps the contract."""


def checked(file: Path, class_name: str, contract: str) -> Checked:
    """Runs the kit on a class of a file.

    Raises `UserError` if the file cannot be read or the contract is unknown.
    """
    if contract not in CONTRACTS:
        raise UserError(f"`--contract {contract}`: allowed are {', '.join(CONTRACTS)}")
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"the controller cannot be read: {reason}", Place(file)) from None
    try:
        return Checked(_native.check_controller(source, str(file), class_name, contract), None)
    except _native.ControllerError as error:
        return Checked(0, str(error))
