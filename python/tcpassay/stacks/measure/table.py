"""The table of facts in docs/stacks.md."""

from collections.abc import Mapping, Sequence

from tcpassay.stacks.measure.facts import Measured

BEGIN = "<!-- facts: tcpassay stack measure NAME... --markdown -->"
END = "<!-- end of the facts -->"


def markdown(columns: Mapping[str, Sequence[Measured]]) -> str:
    """A table with a column for each TCP."""
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    lines = [
        f"| fact | section | {' | '.join(names)} |",
        f"| --- | --- |{' --- |' * len(names)}",
        *(
            f"| {row[0].fact.what} | {row[0].fact.section} | {' | '.join(one.value for one in row)} |"
            for row in rows
            if row[0].fact.published
        ),
    ]
    return "\n".join(lines) + "\n"
