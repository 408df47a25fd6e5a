"""Exhaustive reference implementations, and random spaces for comparisons with them."""

from itertools import combinations, product

from hypothesis import strategies as st

from tcpassay.cover.space import Parameter, Space
from tcpassay.plan.constraint_parser import parse


def allowed_rows(space: Space) -> list[tuple[int, ...]]:
    """Every combination of valid levels that every constraint holds for, by trying all."""
    found = []
    for row in product(*(range(len(p.levels)) for p in space.parameters)):
        case = space.values(row)
        if all(constraint.holds(case) for constraint in space.constraints):
            found.append(row)
    return found


def tuples(
    rows: list[tuple[int, ...]], parameters: tuple[int, ...], strength: int
) -> set[tuple[tuple[int, int], ...]]:
    """Every combination of levels of `strength` parameters that is in some row."""
    return {tuple((v, row[v]) for v in scope) for row in rows for scope in combinations(parameters, strength)}


@st.composite
def expressions(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    name = st.sampled_from(names)
    number = st.integers(0, 3)
    if depth == 0 or draw(st.booleans()):
        form = draw(st.integers(0, 3))
        if form == 0:
            return f"[{draw(name)}] {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(number)}"
        if form == 1:
            return f"[{draw(name)}] {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} [{draw(name)}]"
        if form == 2:
            return f"[{draw(name)}] IN {{{draw(number)}, {draw(number)}}}"
        return f'[{draw(name)}] NOT LIKE "{draw(number)}"'
    inner = expressions(names, depth - 1)
    form = draw(st.integers(0, 2))
    if form == 0:
        return f"NOT ({draw(inner)})"
    return f"({draw(inner)} {'AND' if form == 1 else 'OR'} {draw(inner)})"


@st.composite
def constraints(draw: st.DrawFn, names: list[str]) -> str:
    inner = expressions(names)
    form = draw(st.integers(0, 2))
    if form == 0:
        return draw(inner)
    text = f"IF {draw(inner)} THEN {draw(inner)}"
    return text if form == 1 else f"{text} ELSE {draw(inner)}"


@st.composite
def spaces(draw: st.DrawFn, most_parameters: int = 5, *, invalid: bool = False) -> Space:
    """Up to five parameters of up to four levels with up to four constraints; perhaps contradictory."""
    number = draw(st.integers(1, most_parameters))
    names = [f"p{n}" for n in range(number)]
    parameters = []
    for name in names:
        levels = draw(st.integers(1, 4))
        extra = draw(st.integers(0, 2)) if invalid else 0
        default = draw(st.integers(0, levels - 1))
        parameters.append(Parameter(name, tuple(range(levels)), tuple(range(90, 90 + extra)), default))
    texts = draw(st.lists(constraints(names), max_size=4))
    return Space(tuple(parameters), tuple(parse(text) for text in texts))
