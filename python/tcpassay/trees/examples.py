"""Pairs of runs that differ, run again with packets and event log, with a packetdrill script where one end shows it."""

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.isolate.triples import DURATION
from tcpassay.kernel import store
from tcpassay.messages import Outcome, Triples
from tcpassay.output import write_whole
from tcpassay.recording import Recording
from tcpassay.result_format import RunRow
from tcpassay.results import Results
from tcpassay.run.inputs import base_of
from tcpassay.run.replay import again, spec_of
from tcpassay.trees import scripts
from tcpassay.trees.causes import FOLDER, Causes, TreeCause
from tcpassay.trees.first import First, first
from tcpassay.trees.groups import Group
from tcpassay.trees.pairs import TreePair
from tcpassay.trees.side import Side

MOST_SHOWN: Final = 4
"""Maximum number of causes and groups for which the first difference is determined."""

Sides = tuple[Side, Side]


@dataclass(frozen=True, slots=True)
class Script:
    """A script that passes on the first kernel and fails on the second, in a file."""

    file: Path
    made: scripts.PairScript

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {"file": str(self.file)} | self.made.as_json()


@dataclass(frozen=True, slots=True)
class Example:
    """A pair that differs, run again with packets and event log."""

    pair: TreePair
    cause: TreeCause | None
    group: Group | None
    """The group that it stands for, if it is not the example of a cause."""
    first: First
    commands: tuple[str, str]
    """The commands that repeat the run on each kernel."""
    recordings: tuple[str, str]
    """The folders with packets and event logs."""
    script: Script | None
    no_script: str
    """Why there is no script; empty if there is one."""

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "case": self.pair.head["case"],
            "seed": self.pair.seed,
            "varied": self.pair.varied,
            "first": self.first.as_json(),
            "replay": list(self.commands),
            "recordings": list(self.recordings),
            "script": None if self.script is None else self.script.as_json(),
            "no_script": self.no_script,
        }


def commands(folder: Path, pair: TreePair) -> tuple[str, str]:
    """The commands that repeat a pair."""
    made = [
        f"tcpassay replay {shlex.quote(str(folder))} {run['case']} --seed {run['seed']}"
        for run in (pair.base, pair.head)
    ]
    return made[0], made[1]


def examples(  # noqa: PLR0913, PLR0917 - the results, and what is known of them
    results: Results,
    why: Causes,
    groups: Sequence[Group],
    different: Sequence[TreePair],
    sides: Sides,
    jobs: int,
    watch: Callable[[str], None],
) -> list[Example]:
    """For each cause and each group, and for pairs without either, the first difference of a pair."""
    chosen: list[tuple[TreePair, TreeCause | None, Group | None]] = [
        (one.pair, one, None) for one in why.found if one.triples or not groups
    ]
    chosen += [(one.example, None, one) for one in groups]
    known = {id(one) for cause in why.found for one in cause.explains}
    known |= {id(one) for group in groups for one in group.pairs}
    if not groups:
        chosen += [(one, None, None) for one in different if id(one) not in known]
    made = []
    for number, (pair, cause, group) in enumerate(chosen[:MOST_SHOWN]):
        watch(f"first difference {number + 1} of {min(len(chosen), MOST_SHOWN)}")
        made.append(_Maker(results, sides, pair, jobs).made(cause, group))
    return made


class _Maker:
    """Makes the example of a pair."""

    def __init__(self, results: Results, sides: Sides, pair: TreePair, jobs: int) -> None:
        self._results = results
        self._sides = sides
        self._pair = pair
        self._jobs = jobs
        self._spec, _ = spec_of(results)
        self._home = results.folder / FOLDER / f"{pair.head['case']}-{pair.seed}"
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)

    def made(self, cause: TreeCause | None, group: Group | None) -> Example:
        """The example."""
        places = self._home / "base", self._home / "head"
        outcomes = self._ran(places, None)
        comparable = outcomes == ["done", "done"] and not self._pair.head.get("script")
        found = (
            first(*places)
            if comparable
            else First(None, None, note=f"{outcomes[0]} on base, {outcomes[1]} on head")
        )
        settings = cause if group is None else group.smallest
        script, why = self._script(settings) if comparable else (None, found.note)
        return Example(
            self._pair,
            cause,
            group,
            found,
            commands(self._results.folder, self._pair),
            (str(places[0]), str(places[1])),
            script,
            why,
        )

    def _ran(self, places: tuple[Path, Path], triples: Triples | None) -> list[str]:
        def run(one: tuple[RunRow, Path]) -> str:
            folder, row = self._results.folder, one[0]
            return again(folder, row, self._spec, one[1], packets=True, triples=triples).outcome

        with ThreadPoolExecutor(min(self._jobs, 2)) as pool:
            both = (self._pair.base, places[0]), (self._pair.head, places[1])
            return list(pool.map(run, both))

    def _script(self, cause: TreeCause | None) -> tuple[Script | None, str]:
        """The script of the smallest settings of which one is found, or why there is none."""
        kernels = [side for side in self._sides if isinstance(side, store.Kernel)]
        if len(kernels) < len(self._sides):
            return None, ""
        names = [kernel.name for kernel in kernels]
        runs = scripts.on(names[0]), scripts.on(names[1])
        title = (
            f"{names[0]} (Linux {kernels[0].release}) and {names[1]} (Linux {kernels[1].release}) "
            "differ: the script passes on the first kernel and fails on the second in its last line."
        )
        why = []
        for number, triples in enumerate(self._settings(cause)):
            places = self._home / f"script-{number}-base", self._home / f"script-{number}-head"
            if self._ran(places, triples) != [Outcome.DONE, Outcome.DONE]:
                continue
            try:
                pair = scripts.Pair(
                    Recording.open(places[0]),
                    Recording.open(places[1]),
                    triples,
                    str(base_of(self._results.folder)),
                    title,
                )
                made = scripts.script_of(pair, *runs)
            except UserError as error:
                why.append(str(error))
                continue
            finally:
                for place in places:
                    shutil.rmtree(place, ignore_errors=True)
            file = self._home / "difference.pkt"
            write_whole(file, made.text)
            return Script(file, made), ""
        return None, "; ".join(dict.fromkeys(why))

    def _settings(self, cause: TreeCause | None) -> Iterator[Triples]:
        """Those of the cause alone first. Scripts have no timestamps."""
        whole = dict(self._pair.head["triples"])
        if cause is not None and cause.complete:
            alone = {path: value for path, value in whole.items() if path == DURATION}
            yield {**alone, **{one.path: one.value for one in cause.triples}, "stack.timestamps": False}
        yield {**whole, "stack.timestamps": False}
