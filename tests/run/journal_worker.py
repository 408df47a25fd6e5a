"""A process that works on a journal until no case is pending, and that tests kill. Its log lists the started cases.

Usage: journal_worker.py FOLDER LOG
It says that it is ready, and finishes one case for each line of its standard input, and all the others when that ends.
"""

import sys
from pathlib import Path

from tcpassay.messages import Outcome
from tcpassay.run.journal import Journal

folder, log = Path(sys.argv[1]), Path(sys.argv[2])
with Journal.open(folder) as journal, log.open("a", buffering=1) as trace:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while (claim := journal.claim()) is not None:
        trace.write(f"{claim.number}\n")
        sys.stdin.readline()
        outcome = Outcome.FAILED if claim.number % 7 == 0 else Outcome.DONE
        journal.finish(claim, outcome, {"square": claim.number**2, "case": claim.case})
