"""What a comparison compares: a kernel, or a TCP of another kind."""

from typing import Protocol


class Side(Protocol):
    """One of the two implementations."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def release(self) -> str:
        """Its version."""
        ...

    @property
    def substrate(self) -> str:
        """The substrate on which plans run with it."""
        ...

    @property
    def words(self) -> str:
        """Name, version and origin in words."""
        ...

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        ...
