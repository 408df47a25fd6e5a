"""Runs the scripts of a command where they are wanted, each script on the model in a worker process.

A script that ends the process that runs it, or takes too much time or memory, is `crashed`; the others go on.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tcpassay.run.pool import Limits, Pool
from tcpassay.script import linux, model
from tcpassay.script.results import Result

SECONDS: Final = 120.0
"""What a script may take on the model by the clock of the machine; the longest public one takes less than one."""


def run(files: Sequence[Path], wanted: model.Wanted) -> Iterator[Result]:
    """Runs scripts where they are wanted, in this order: against the model, in a guest, or on this host's kernel."""
    if wanted.on != "model":
        yield from linux.run(files, wanted)
    elif ("allow-shell", "") in wanted.options:
        # Its commands talk to the user, whose terminal a worker process does not have.
        yield from (model.run(file, wanted) for file in files)
    else:
        yield from _apart(files, wanted)


def _apart(files: Sequence[Path], wanted: model.Wanted) -> Iterator[Result]:
    """Each script in a worker process; one that ends badly costs its own result and no other."""
    requests = [model.request(file, wanted) for file in files]
    pool = Pool(max(1, min(os.cpu_count() or 1, len(files) // 8)), Limits(SECONDS, model.MEMORY))
    ready: dict[int, Result] = {}
    following = 0
    with contextlib.closing(pool.run({"packetdrill": request} for request in requests)) as answers:
        for some in answers:
            for index, found in some:
                report = found.get("report") or linux.crashed(found["message"].strip())
                ready[index] = Result.of(files[index], requests[index]["profile"], report)
            while following in ready:
                yield ready.pop(following)
                following += 1
