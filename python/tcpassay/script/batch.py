"""Runs the scripts of a command on the selected target; in virtual time each script has a worker process.

A script whose process dies or exceeds its time or memory limit is `crashed`; the other scripts are not affected.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tcpassay.run.pool import Limits, Pool
from tcpassay.script import linux, model
from tcpassay.script.files import ALLOW_SHELL
from tcpassay.script.report import PacketdrillAnswer, crashed
from tcpassay.script.results import Result
from tcpassay.stacks.catalogue import column

SECONDS: Final = 120.0
"""Time limit of a script on the model in real time; the longest public script takes less than a second."""


def run(files: Sequence[Path], wanted: model.Wanted) -> Iterator[Result]:
    """Runs scripts on the selected target in this order: in virtual time, in a guest, or on the kernel of this host."""
    if wanted.on in {"kernel", "host"}:
        yield from linux.run(files, wanted)
    elif (ALLOW_SHELL, "") in wanted.options and wanted.stack is None:
        # Its commands use the terminal of the user, which a worker process does not have.
        yield from (model.run(file, wanted) for file in files)
    else:
        yield from _apart(files, wanted)


def _apart(files: Sequence[Path], wanted: model.Wanted) -> Iterator[Result]:
    """Runs each script in a worker process, whose failure affects only its own script."""
    requests = [model.request(file, wanted) for file in files]
    name = column(wanted.stack) if wanted.stack else None
    pool = Pool(max(1, min(os.cpu_count() or 1, len(files) // 8)), Limits(SECONDS, model.MEMORY))
    ready: dict[int, Result] = {}
    following = 0
    with contextlib.closing(pool.run(requests)) as answers:
        for some in answers:
            for index, found in some:
                report = found.report if isinstance(found, PacketdrillAnswer) else None
                ready[index] = Result.of(
                    files[index], name or requests[index].profile, report or crashed(found.message.strip())
                )
            while following in ready:
                yield ready.pop(following)
                following += 1
