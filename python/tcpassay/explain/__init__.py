"""Explanation: what happened on the connection of a finding, event by event.

    explanation = explain(Path("results/plan"), "1a2b3c4d5e-1/late-ack")

`moments.py` is the log of one connection, `arrows.py` joins segments that left and segments that arrived, `waiting.py`
determines what each end waits for, `difference.py` compares two runs, `lines.py` selects and describes the events;
`explanation.py` makes the runs; `show.py` prints the diagram, `svg.py` draws it,
`page.py` writes a page for maintainers.
"""

from tcpassay.explain.explanation import Explanation, Neighbour, explain

__all__ = ["Explanation", "Neighbour", "explain"]
