r"""The syntax of constraints between parameters.

    constraint = ( "IF" or "THEN" or [ "ELSE" or ] | or ) [ ";" ]
    or         = and { "OR" and }
    and        = not { "AND" not }
    not        = "NOT" not | "(" or ")" | relation
    relation   = parameter ( "=" | "<>" | "<" | "<=" | ">" | ">=" ) ( value | parameter )
               | parameter [ "NOT" ] "IN" "{" value { "," value } "}"
               | parameter [ "NOT" ] "LIKE" text
    parameter  = "[" path "]"
    value      = text | number | "TRUE" | "FALSE"
    text       = a quotation mark, characters with \" and \\ for a quotation mark and a backslash, a quotation mark

Keywords are the same in upper and lower case. A value with a unit is a text: `"10ms"`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from tcpassay.errors import Place, UserError
from tcpassay.plan.constraints import (
    Comparison,
    Conjunction,
    Constraint,
    Disjunction,
    Expression,
    Like,
    Member,
    Negation,
    Operator,
    Relation,
    rule,
)
from tcpassay.plan.quantity import Value

_OPERATORS: Final = ("=", "<>", "<", "<=", ">", ">=")
_KEYWORDS: Final = {"IF", "THEN", "ELSE", "AND", "OR", "NOT", "IN", "LIKE", "TRUE", "FALSE"}
_DEEPEST: Final = 50
"""Maximum nesting of NOT and parentheses; deeper constraints would exhaust the stack."""

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    | \[(?P<parameter>[^\[\]\n]*)\]
    | "(?P<text>(?:[^"\\\n]|\\["\\])*)"
    | (?P<number>[-+]?[0-9]{1,30}(?:\.[0-9]{1,30})?)(?![\w.%])
    | (?P<word>[\w.%+-]+)
    | (?P<mark><>|<=|>=|==|!=|[=<>(){},;])
    """,
    re.VERBOSE,
)


class ConstraintError(UserError):
    """A syntax error: its position in the text (lines and columns from 1), the expected and the found token."""

    def __init__(self, text: str, offset: int, expected: str, found: str, place: Place | None) -> None:
        before = text[:offset]
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self.expected = expected
        self.found = found
        shown = text.split("\n")[self.line - 1]
        super().__init__(
            f"constraint, line {self.line}, column {self.column}: expected {expected}, found {found}\n"
            f"    {shown}\n    {' ' * (self.column - 1)}^",
            place,
        )


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """`parameter`, `text`, `number`, `word`, `end`; keywords and symbols are their own kind."""
    text: str
    offset: int
    written: str


def parse(text: str, place: Place | None = None) -> Constraint:
    """Parses one constraint; `place` is its position in the plan file.

    Raises `ConstraintError`.
    """
    return Constraint(_Parser(text, place).constraint(), text, place)


class _Parser:
    def __init__(self, text: str, place: Place | None) -> None:
        self._text = text
        self._place = place
        self._tokens = self._tokenise()
        self._next = 0

    def constraint(self) -> Expression:
        expression: Expression
        if self._take("IF"):
            condition = self._or(0)
            self._expect("THEN", after="AND, OR")
            then = self._or(0)
            otherwise = self._or(0) if self._take("ELSE") else None
            expression = rule(condition, then, otherwise)
            rest = "AND, OR, ELSE or the end" if otherwise is None else "AND, OR or the end"
        else:
            expression = self._or(0)
            rest = "AND, OR or the end"
        self._take(";")
        if self._peek.kind != "end":
            raise self._error(rest)
        return expression

    def _or(self, depth: int) -> Expression:
        terms = [self._and(depth)]
        while self._take("OR"):
            terms.append(self._and(depth))
        return terms[0] if len(terms) == 1 else Disjunction(tuple(terms))

    def _and(self, depth: int) -> Expression:
        terms = [self._not(depth)]
        while self._take("AND"):
            terms.append(self._not(depth))
        return terms[0] if len(terms) == 1 else Conjunction(tuple(terms))

    def _not(self, depth: int) -> Expression:
        if depth == _DEEPEST:
            raise self._error(f"at most {_DEEPEST} levels of NOT and parentheses")
        if self._take("NOT"):
            return Negation(self._not(depth + 1))
        if self._take("("):
            inside = self._or(depth + 1)
            self._expect(")", after="AND, OR")
            return inside
        return self._relation()

    def _relation(self) -> Expression:
        if self._peek.kind != "parameter":
            raise self._error("a parameter in brackets as in `[stack.cc]`, NOT or `(`")
        parameter = self._advance().text
        negated = self._take("NOT")
        relation: Expression
        if self._take("IN"):
            relation = Member(parameter, self._set())
        elif self._take("LIKE"):
            if self._peek.kind != "text":
                raise self._error('a pattern in quotation marks as in `"linux*"`')
            relation = Like(parameter, self._advance().text)
        elif negated:
            raise self._error("IN or LIKE")
        elif self._peek.kind in _OPERATORS:
            operator = cast("Operator", self._advance().text)
            if self._peek.kind == "parameter":
                relation = Comparison(parameter, operator, self._advance().text)
            else:
                relation = Relation(parameter, operator, self._value("a value or a parameter in brackets"))
        else:
            raise self._error("one of = <> < <= > >= IN LIKE NOT")
        return Negation(relation) if negated else relation

    def _set(self) -> tuple[Value, ...]:
        self._expect("{")
        values = [self._value("a value")]
        while self._take(","):
            values.append(self._value("a value"))
        self._expect("}", after="`,`")
        return tuple(values)

    def _value(self, expected: str) -> Value:
        token = self._peek
        match token.kind:
            case "text":
                value: Value = token.text
            case "number":
                value = float(token.text) if "." in token.text else int(token.text)
            case "TRUE" | "FALSE":
                value = token.kind == "TRUE"
            case "word":
                raise self._error(
                    f'{expected} (a text or a quantity needs quotation marks: `"{token.text}"`)'
                )
            case _:
                raise self._error(
                    f'{expected} (a text in quotation marks, a quantity as `"10ms"`, a number, TRUE or FALSE)'
                )
        self._advance()
        return value

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _take(self, kind: str) -> bool:
        if self._peek.kind != kind:
            return False
        self._next += 1
        return True

    def _expect(self, kind: str, after: str = "") -> None:
        if not self._take(kind):
            wanted = kind if kind.isalpha() else f"`{kind}`"
            raise self._error(f"{after} or {wanted}" if after else wanted)

    def _error(self, expected: str) -> ConstraintError:
        token = self._peek
        found = "the end" if token.kind == "end" else f"`{token.written}`"
        hint = {"==": "=", "!=": "<>"}.get(token.kind)
        if hint:
            expected += f" (write `{hint}`)"
        return ConstraintError(self._text, token.offset, expected, found, self._place)

    def _tokenise(self) -> Sequence[_Token]:
        tokens, offset = [], 0
        while offset < len(self._text):
            match = _TOKEN.match(self._text, offset)
            if match is None:
                raise ConstraintError(self._text, offset, *self._unreadable(offset), self._place)
            if match.lastgroup != "space":
                tokens.append(self._token(match))
            offset = match.end()
        tokens.append(_Token("end", "", offset, ""))
        return tokens

    def _token(self, match: re.Match[str]) -> _Token:
        kind, written = cast("str", match.lastgroup), match[0]
        text = match[kind]
        match kind:
            case "mark":
                kind = text
            case "word" if text.upper() in _KEYWORDS:
                kind = text.upper()
            case "text":
                text = re.sub(r"\\(.)", r"\1", text)
            case "parameter":
                text = text.strip()
                if not text:
                    raise ConstraintError(
                        self._text, match.start(), "the path of a parameter", "`[]`", self._place
                    )
        return _Token(kind, text, match.start(), written)

    def _unreadable(self, offset: int) -> tuple[str, str]:
        """The expected and the found text where no token starts."""
        char = self._text[offset]
        if char == '"':
            return (
                'the closing quotation mark on the same line (`\\"` and `\\\\` are the only escapes)',
                "a text without it",
            )
        if char == "[":
            return "the closing bracket on the same line", "a parameter without it"
        if char == "'":
            return 'a text in quotation marks as in `"dctcp"`', "`'`"
        return "a parameter in brackets, a value, an operator or a keyword", f"`{char}`"
