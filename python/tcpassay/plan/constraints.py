"""The meaning of constraints between parameters.

The language is that of PICT's constraints (Czerwonka, "Pairwise Testing in the Real World", 2006, and the
PICT user guide), read by `constraint_parser`:

    IF [stack.cc] = "dctcp" AND [queue.ecn_mark] <> "off" THEN [stack.ecn] IN {"dctcp", "accurate"}
    [app.sndbuf] >= [app.request]

Known differences from PICT: values carry units and compare as quantities (`quantity`); upper and lower case
differ in names and texts (not in keywords); TRUE and FALSE are values, the same as `"on"` and `"off"`; and an
order between two values that have none, as of `"auto"` and `"64KB"`, is false instead of an error, because a
parameter may mix the two.

A constraint applies to complete cases with valid values. A case with an invalid value (`negative`) is not subject to
the constraints that mention the parameter of this value.

This module does not depend on levels, tables or generators; `cover.space` converts a constraint to the set of
combinations that it allows.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from tcpassay.errors import Place
from tcpassay.plan.quantity import Quantity, Value, quantity

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
Case = Mapping[str, Value]
"""A value for each parameter by path."""


@dataclass(frozen=True, slots=True)
class Relation:
    """`[parameter] operator value`."""

    parameter: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Member:
    """`[parameter] IN {value, ...}`."""

    parameter: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`[parameter] LIKE "pattern"`: `*` stands for any characters, `?` for one."""

    parameter: str
    pattern: str


Leaf = Relation | Member | Like
"""A relation about one parameter."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`[left] operator [right]`."""

    left: str
    operator: Operator
    right: str


@dataclass(frozen=True, slots=True)
class Negation:
    """`NOT term`."""

    term: "Expression"


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`term AND term ...`; true without terms."""

    terms: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`term OR term ...`; false without terms."""

    terms: tuple["Expression", ...]


Expression = Leaf | Comparison | Negation | Conjunction | Disjunction


def rule(condition: Expression, then: Expression, otherwise: Expression | None = None) -> Expression:
    """`IF condition THEN then ELSE otherwise`; without `otherwise`, true when the condition is false."""
    met = Disjunction((Negation(condition), then))
    return met if otherwise is None else Conjunction((met, Disjunction((condition, otherwise))))


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a plan or of the parameter table, with the data for messages about it."""

    expression: Expression
    text: str
    """The text as written by the user."""
    place: Place | None = field(default=None, compare=False)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the constraint, each once, in order of occurrence."""
        return tuple(dict.fromkeys(mentioned(self.expression)))

    def holds(self, case: Case) -> bool:
        """Whether a case with valid values for all parameters of the constraint is allowed."""
        return holds(self.expression, case)

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"{text} ({self.place})" if self.place else text


def mentioned(expression: Expression) -> Iterator[str]:
    """The parameters in order of occurrence, with repetitions."""
    match expression:
        case Comparison(left, _, right):
            yield left
            yield right
        case Negation(term):
            yield from mentioned(term)
        case Conjunction(terms) | Disjunction(terms):
            for term in terms:
                yield from mentioned(term)
        case leaf:
            yield leaf.parameter


def compared(expression: Expression) -> Iterator[tuple[str, Value]]:
    """The comparisons for equality as parameter and value; a comparison that can never hold is a mistake."""
    match expression:
        case Relation(parameter, "=" | "<>", value):
            yield parameter, value
        case Member(parameter, values):
            yield from ((parameter, value) for value in values)
        case Negation(term):
            yield from compared(term)
        case Conjunction(terms) | Disjunction(terms):
            for term in terms:
                yield from compared(term)
        case _:
            pass


def holds(expression: Expression, case: Case) -> bool:
    """Whether the expression is true for a case with values for all parameters of the constraint."""
    match expression:
        case Comparison(left, operator, right):
            return compare(case[left], operator, case[right])
        case Negation(term):
            return not holds(term, case)
        case Conjunction(terms):
            return all(holds(term, case) for term in terms)
        case Disjunction(terms):
            return any(holds(term, case) for term in terms)
        case leaf:
            return accepts(leaf, case[leaf.parameter])


def accepts(leaf: Leaf, value: Value) -> bool:
    """Whether the relation is true if its parameter has this value."""
    match leaf:
        case Relation(_, operator, right):
            return compare(value, operator, right)
        case Member(_, values):
            return any(compare(value, "=", member) for member in values)
        case Like(_, pattern):
            text = ("on" if value else "off") if isinstance(value, bool) else str(value)
            return _pattern(pattern).fullmatch(text) is not None


def compare(left: Value, operator: Operator, right: Value) -> bool:
    """`left operator right` as quantities; an order between values without order is false."""
    a, b = _quantity(type(left).__name__, left), _quantity(type(right).__name__, right)
    match operator:
        case "=":
            return a == b
        case "<>":
            return a != b
        case "<":
            return a.less(b)
        case ">":
            return b.less(a)
        case "<=":
            return a.less(b) or (a == b and a.comparable(b))
        case ">=":
            return b.less(a) or (a == b and a.comparable(b))


@cache
def _quantity(_type: str, value: Value) -> Quantity:
    # The type is part of the key because True == 1 == 1.0 and they have different meanings.
    return quantity(value)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(char, re.escape(char)) for char in pattern), re.DOTALL)
