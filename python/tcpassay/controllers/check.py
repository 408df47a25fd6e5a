"""Applies the conformance kit for controllers to a class in Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay import _native
from tcpassay.controllers.load import inspect
from tcpassay.errors import Place, UserError

CONTRACTS: Final = ("window", "rate", "any")


@dataclass(frozen=True, slots=True)
class Violated:
    """A violated clause of the contract."""

    clause: str
    rule: str
    """What it demands."""
    reason: str
    found: str
    """The event, what the controller was shown, and what it answered."""
    history: tuple[str, ...]
    """The steps of the shortest history that violates it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the kit."""

    events: int
    """The number of events of the histories without a violation."""
    violated: tuple[Violated, ...]
    raised: str | None = None
    """The traceback of the controller, if it raised an exception."""

    @property
    def kept(self) -> bool:
        """Whether the controller keeps the contract."""
        return not self.violated and self.raised is None


def checked(file: Path, class_name: str, contract: str, histories: int = 200) -> Checked:
    """Runs the kit on a class of a file.

    Raises `UserError` if the file is no controller of this name, or the contract is unknown.
    """
    if contract not in CONTRACTS:
        raise UserError(f"`--contract {contract}`: allowed are {', '.join(CONTRACTS)}")
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"the controller cannot be read: {reason}", Place(file)) from None
    try:
        inspect(source, str(file), class_name)
    except SyntaxError as error:
        raise UserError(f"it is not Python: {error.msg}", Place(file, error.lineno or 0)) from None
    except (ValueError, ImportError, NameError, TypeError) as error:
        raise UserError(str(error)) from None
    try:
        events, violated = _native.check_controller(source, str(file), class_name, contract, histories)
    except _native.ControllerError as error:
        return Checked(0, (), str(error))
    return Checked(
        events,
        tuple(
            Violated(clause, rule, reason, found, tuple(history))
            for clause, rule, reason, found, history in violated
        ),
    )
