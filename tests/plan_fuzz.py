"""Random plans for fuzzing: mutations of real plans, and valid keys with random values."""

import re
from pathlib import Path

from hypothesis import strategies as st

from tcpassay.errors import UserError
from tcpassay.plan import read

# Values that a reader may misinterpret: extreme numbers, quantities of all kinds, keywords of the format.
SCALARS = st.sampled_from(
    [
        *(
            "0",
            "1",
            "2",
            "3",
            "-1",
            "7",
            "1000",
            "9223372036854775807",
            "1.5",
            "-0.0",
            "1e-300",
            "nan",
            "inf",
        ),
        *(
            "true",
            "false",
            '""',
            '"x"',
            '"1ms"',
            '"10ms"',
            '"5%"',
            '"1KB"',
            '"1GiB"',
            '"1Gbit"',
            '"10p"',
            '"off"',
        ),
        *(
            '"reno"',
            '"cubic"',
            '"dctcp"',
            '"model"',
            '"kernel"',
            '"full"',
            '"t-way"',
            '"random"',
            '"boundary"',
        ),
        *(
            '"one-at-a-time"',
            '"uniform"',
            '"loguniform"',
            '"normal"',
            '"choice"',
            '"linear"',
            '"log"',
            '"all"',
        ),
        *(
            '"goodput"',
            '"stack.cc"',
            '"offload"',
            '"a"',
            '"\\u0000"',
            '"trace:x"',
            "1979-05-27",
            "'[stack.cc] = 1'",
        ),
        *("'[link.delay] < [link.jitter]'", '\'IF [offload] = "a" THEN [stack.ecn] <> "off"\'', "'[a'"),
    ]
)
KEYS = st.sampled_from(
    [
        *(
            "name",
            "from",
            "to",
            "steps",
            "scale",
            "distribution",
            "count",
            "seed",
            "mean",
            "deviation",
            "values",
        ),
        *(
            "weights",
            "kind",
            "strength",
            "family",
            "of",
            "recordings",
            "sample",
            "case_time",
            "time",
            "cases",
            "op",
        ),
        *(
            '"stack.cc"',
            '"stack.ecn"',
            '"link.delay"',
            '"link.loss"',
            '"sender/stack.ecn"',
            '"app.flows"',
            '"topology"',
        ),
        *(
            "offload",
            "a",
            "b",
            "metric",
            "value",
            "why",
            "where",
            "times",
            "file",
            "series",
            "stack.cc",
            "link",
        ),
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda of: f"[{', '.join(of)}]")
        | st.dictionaries(KEYS, inner, max_size=4).map(
            lambda of: "{ " + ", ".join(f"{k} = {v}" for k, v in of.items()) + " }"
        )
    ),
    max_leaves=12,
)
TOP = st.sampled_from(
    [
        *(
            "name",
            "doc",
            "substrates",
            "seeds",
            "repetitions",
            "fixed",
            "axes",
            "groups",
            "negative",
            "constraints",
        ),
        *("strategy", "metrics", "oracles", "limits", "keep", "collect", "check", "figure"),
    ]
)
PARAMETERS = st.sampled_from(
    ['"stack.cc"', '"stack.ecn"', '"link.delay"', '"link.jitter"', '"link.loss"', '"app.flows"']
)
AXES = st.dictionaries(
    PARAMETERS,
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda of: f"[{', '.join(of)}]")
    | st.dictionaries(
        st.sampled_from(
            ["from", "to", "steps", "scale", "distribution", "count", "mean", "deviation", "values"]
        ),
        SCALARS,
        max_size=5,
    ).map(lambda of: "{ " + ", ".join(f"{k} = {v}" for k, v in of.items()) + " }"),
    max_size=4,
).map(lambda of: "{ " + ", ".join(f"{k} = {v}" for k, v in of.items()) + " }")


def random_plans() -> st.SearchStrategy[str]:
    """Plans whose keys are right, at the top at least."""
    said = st.dictionaries(TOP, VALUES, max_size=6)
    good = st.fixed_dictionaries({"name": st.just('"x"'), "axes": AXES})
    return st.tuples(said, good | st.just({}), st.booleans()).map(
        lambda parts: "".join(
            f"{k} = {v}\n" for k, v in (parts[0] | parts[1] if parts[2] else parts[1] | parts[0]).items()
        )
    )


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """The text with a few of its values, lines or characters changed."""
    for _ in range(draw(st.integers(1, 3))):
        match draw(st.integers(0, 4)):
            case 0:
                spots = list(re.finditer(r'"[^"\n]*"|\b\d+\b|true|false', text))
                spot = draw(st.sampled_from(spots)) if spots else None
                if spot:
                    text = text[: spot.start()] + draw(VALUES) + text[spot.end() :]
            case 1:
                lines = text.splitlines(keepends=True)
                at, to = draw(st.integers(0, len(lines))), draw(st.integers(0, len(lines)))
                text = "".join(lines[:at] + lines[to : to + draw(st.integers(0, 3))] + lines[at:])
            case 2:
                lines = text.splitlines(keepends=True)
                at = draw(st.integers(0, len(lines)))
                text = "".join(lines[:at] + lines[at + draw(st.integers(1, 5)) :])
            case 3:
                at = draw(st.integers(0, len(text)))
                text = text[:at] + draw(st.text(max_size=3)) + text[at + draw(st.integers(0, 4)) :]
            case 4:
                text = f"{draw(TOP)} = {draw(VALUES)}\n{text}"
    return text


def tells(text: str, file: Path) -> None:
    """Reads the plan; an error must be the user's, with a message and a place for each of its problems."""
    try:
        plan = read.read(text, file)
    except UserError as error:
        for problem in error.problems:
            assert problem.message, text
            assert problem.place, text
        return
    assert plan.cases or not plan.suite.rows.size
    assert len({case.id for case in plan.cases}) == len(plan.cases)
