"""Isolation: which settings together cause a finding.

    isolation = isolate(Path("results/plan"), None, Options(jobs=2))

Delta debugging over the triples `<entity, parameter, value>` of a run: every set that is tried is a run, judged by the
same oracles. Then each triple of the cause is reset, and the finding must be gone.

`ddmin.py` is the algorithm and `shrink.py` makes runs small: both know no runs. `triples.py` says which sets can run;
`experiment.py` asks `runner.py` for runs, which `ran.py` remembers; `symptoms.py` is what the plan found; `search.py`
looks for one cause, `session.py` for all of a folder; `cause.py` and `isolation.py` are what comes out, `files.py` what
stays, `show.py` prints.
"""

from tcpassay.isolate.cause import Cause, Reset, Smallest
from tcpassay.isolate.files import causes, neighbour
from tcpassay.isolate.isolation import Isolation, Options
from tcpassay.isolate.runner import Budget
from tcpassay.isolate.session import isolate

__all__ = ["Budget", "Cause", "Isolation", "Options", "Reset", "Smallest", "causes", "isolate", "neighbour"]
