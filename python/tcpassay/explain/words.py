"""Sentences that the terminal and the drawing have in common."""

from tcpassay.explain.explanation import Explanation
from tcpassay.explain.lines import Omitted


def run_words(explanation: Explanation) -> str:
    """Which run is shown."""
    if explanation.isolated:
        return "The run below sets the cause and nothing else."
    return "The run below is that of the plan." if explanation.cause else ""


def neighbour_words(explanation: Explanation) -> list[str]:
    """Which run it is compared with, and where the two begin to differ."""
    neighbour = explanation.neighbour
    if neighbour is None:
        return []
    finds = "finds something, too" if neighbour.finds else "finds nothing"
    said = [
        f"The same run with {neighbour.path} = {neighbour.reset_to}, in which {explanation.finding.oracle} {finds}:"
    ]
    found = neighbour.difference
    if found is None:
        return [*said, "both event logs are the same to the end."]
    here = "nothing more" if found.here is None else found.here.text
    there = "nothing more" if found.there is None else found.there.text
    return [
        *said,
        f"the first {found.same} events of both logs are the same. Then comes",
        f"  here:  {here}",
        f"  there: {there}",
    ]


def marks(explanation: Explanation) -> str:
    """The meaning of the marks that occur in the diagram."""
    said = [f"Positions count from {explanation.base} of {explanation.connection.flow}."]
    if any(one.first_difference for one in explanation.written):
        said.append("* is the first event that the other run does not have.")
    if any(isinstance(one, Omitted) for one in explanation.shown):
        said.append("`--lines` shows more.")
    return " ".join(said)
