"""Names in the class of a controller that are probably misspelt: nothing calls them, and no message would tell."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from types import CodeType, FunctionType
from typing import Final

_NEAR: Final = 0.7
"""The similarity from which on a name is taken for another one."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that another name resembles or contains as a word; `None` if it is known, or like none."""
    names = list(known)
    if name in names:
        return None
    plain = name.lower()
    inside = [one for one in names if one in plain.split("_")]
    return next(iter(inside or get_close_matches(plain, names, 1, _NEAR)), None)


def methods(cls: type) -> list[str]:
    """The public methods in the body of a class."""
    return [name for name, value in vars(cls).items() if _function(value) and not name.startswith("_")]


def used(cls: type) -> set[str]:
    """The names of attributes and functions that the methods of a class and of its bases use."""
    functions = (_function(value) for base in cls.__mro__ for value in vars(base).values())
    return {name for one in functions if one is not None for name in _names(one.__code__)}


def _function(value: object) -> FunctionType | None:
    found = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    found = found.fget if isinstance(found, property) else found
    return found if isinstance(found, FunctionType) else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
