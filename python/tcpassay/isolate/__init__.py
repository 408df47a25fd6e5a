"""Isolation: which settings together cause a finding.

    isolation = isolate(Path("results/plan"), None, Options(jobs=2))

The triples `<entity, parameter, value>` of a run are reduced by delta debugging: each candidate set is run, and the
same oracles evaluate the run. Then each triple of the cause is reset, and the finding must be gone.

| module | content |
| --- | --- |
| `ddmin` | the algorithm; it does not depend on runs |
| `shrink` | reduces duration, rates and bytes of a run that shows the effect |
| `triples` | which sets of triples can be run |
| `experiment` | whether a set of triples produces the effect |
| `runner`, `ran` | executes runs within a budget; stores their results |
| `symptoms` | the findings of the plan, as input of the isolation |
| `search` | searches one cause and proves it |
| `session` | searches the causes of all findings of a result folder |
| `bound` | the effect that a metric is beyond a limit |
| `best`, `asked` | such effects of a best case of a search, of a failed check, of a metric of two cases |
| `reproduce` | why a finding does not reproduce |
| `cause`, `isolation` | types of the results |
| `files`, `show` | the results as files, and as text |
"""

from tcpassay.isolate.asked import Question
from tcpassay.isolate.cause import Cause, Reset, Smallest
from tcpassay.isolate.files import causes, neighbour
from tcpassay.isolate.isolation import Isolation, Options
from tcpassay.isolate.runner import Budget
from tcpassay.isolate.session import isolate

__all__ = [
    "Budget",
    "Cause",
    "Isolation",
    "Options",
    "Question",
    "Reset",
    "Smallest",
    "causes",
    "isolate",
    "neighbour",
]
