"""A check of a series: each commit or patch beside the one before it, in the cases of a plan and in scripts.

    told = check(line, build, Material(plan, scripts), folder, options, watch)
    told.problems, reply(told), junit(told)

A state that cannot be built is a problem, and the next one is compared with the last that could be built. `states.py`
builds the states, `comparison.py` compares two kernels; this module orders both and words the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tcpassay._native import __version__
from tcpassay.errors import UserError
from tcpassay.guard import Stop
from tcpassay.interface import METRICS
from tcpassay.kernel.revision import Revision
from tcpassay.kernel.source import last_line, run
from tcpassay.plan.read import Plan
from tcpassay.plural import plural
from tcpassay.terminal import number
from tcpassay.trees import behaviour
from tcpassay.trees.bisect import UnbuildableError
from tcpassay.trees.comparison import Options, TreeComparison, compare_trees, read_plan
from tcpassay.trees.junit import clean
from tcpassay.trees.pairs import Shift, TreePair

_SHIFTS: Final = 6
_PACKETS: Final = 2
_ERRORS: Final = 12
_PLACES: Final = 4
"""Maximum numbers of metrics, of packets on each side, and of lines of a failed build, in the text."""


@dataclass(frozen=True)
class Material:
    """What runs on each kernel."""

    plan: Path | None
    """The plan; `None` is that of `kernel compare`."""
    scripts: tuple[Path, ...] = ()

    def plans(self, base: str, head: str) -> dict[str, Plan]:
        """The plans for two kernels, by the names of their folders. Raises `UserError`."""
        made = {"plan": read_plan(self.plan, base, head)}
        if self.scripts:
            made["scripts"] = behaviour.scripts_on(self.scripts, [f"kernel:{base}", f"kernel:{head}"])
        return made

    @property
    def words(self) -> str:
        """In words, for the text."""
        said = "the default plan" if self.plan is None else f"the plan {self.plan.name}"
        return said + (" and packetdrill scripts" if self.scripts else "")


@dataclass(frozen=True)
class Step:
    """A state beside the one before it."""

    title: str
    problem: str = ""
    """Why it cannot be built; empty if it was."""
    beside: str = ""
    """The title of the state that it is compared with, if that is not the one before it."""
    told: dict[str, TreeComparison] = field(default_factory=dict)
    """The comparisons, by `plan` and `scripts`."""

    @property
    def differs(self) -> bool:
        """Whether the state cannot be built, or behaves differently."""
        return bool(self.problem) or any(one.different for one in self.told.values())

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "title": self.title,
            "problem": self.problem,
            "beside": self.beside,
            "comparisons": {name: one.as_json() for name, one in self.told.items()},
        }


@dataclass
class Check:
    """The result."""

    material: Material
    base: str
    """The title of the state before the series."""
    steps: list[Step] = field(default_factory=list)
    interrupted: bool = False

    @property
    def unfinished(self) -> bool:
        """Whether an interrupt ended the check, or runs did not end for a reason outside of the kernels."""
        return self.interrupted or any(one.unfinished for step in self.steps for one in step.told.values())

    @property
    def different(self) -> list[Step]:
        """The steps that cannot be built, or behave differently."""
        return [step for step in self.steps if step.differs]

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "format": 1,
            "base": self.base,
            "steps": [step.as_json() for step in self.steps],
            "interrupted": self.interrupted,
        }


def commits(repository: Path, series: str) -> list[str]:
    """The commits of `BASE..HEAD`, oldest first, after the parent of the first one; of merges the first parent.

    Raises `UserError` if there are none.
    """
    low, dots, high = series.partition("..")
    if not (low and dots and high) or high.startswith("."):
        raise UserError(
            f"`{series}`: give two revisions as in `v6.12..my-branch`; the second has the changes"
        )
    ends = [Revision(repository, one).commit for one in (low, high)]
    git = ["git", "-C", str(repository), "rev-list", "--first-parent", "--reverse"]
    listed = run([*git, f"{ends[0]}..{ends[1]}"])
    if listed.returncode != 0:
        raise UserError(f"`{series}`: {last_line(listed.stderr)}")
    found = listed.stdout.split()
    if not found:
        raise UserError(f"`{series}`: no commit is in HEAD and not in BASE")
    return [Revision(repository, f"{found[0]}^").commit, *found]


def check(  # noqa: PLR0913, PLR0917 - what is compared, where, how, and who is told
    states: Sequence[tuple[str, str]],
    build: Callable[[str], str],
    material: Material,
    folder: Path,
    options: Options,
    watch: Callable[[str], None],
) -> Check:
    """Builds the states in order, each a name and a title, and compares each with the one before it.

    `build` returns the name of the kernel of a state, or raises `UnbuildableError`. The results of the state number N
    are in `folder/N`. Raises `UserError`, also if the first state cannot be built.
    """
    made = Check(material, states[0][1])
    with Stop():
        try:
            watch(f"building {states[0][1]}")
            try:
                before = (build(states[0][0]), states[0][1])
            except UnbuildableError as error:
                raise UserError(
                    f"`{states[0][1]}` cannot be built, so that nothing can be compared:\n{error}"
                ) from None
            for place, (state, title) in enumerate(states[1:], 1):
                watch(f"{place} of {len(states) - 1}: {title}")
                apart = before[1] if before[1] != states[place - 1][1] else ""
                try:
                    kernel = build(state)
                except UnbuildableError as error:
                    made.steps.append(Step(title, str(error)))
                    continue
                plans = material.plans(before[0], kernel)
                told = {
                    name: compare_trees(
                        before[0], kernel, plan, folder / str(place) / name, options, None, watch
                    )
                    for name, plan in plans.items()
                }
                made.steps.append(Step(title, beside=apart, told=told))
                before = (kernel, title)
        except KeyboardInterrupt:
            made.interrupted = True
    return made


def reply(told: Check) -> str:
    """The result as plain text for a mail."""
    lines = [
        f"Checked with tcpassay {__version__}: each change beside the one before it, with {told.material.words},",
        "on User-Mode Linux in virtual time. Equal kernels give equal packets at equal times.",
        f"Base: {told.base}",
        "",
    ]
    for place, step in enumerate(told.steps, 1):
        lines += [f"[{place}/{len(told.steps)}] {step.title}", *(f"  {line}" for line in _step(step)), ""]
    if told.interrupted:
        lines += ["Interrupted: the changes after these were not checked.", ""]
    different = len(told.different)
    lines.append(f"{plural(len(told.steps), 'change')} checked, {different} with a difference or a problem.")
    return "\n".join(lines)


def _step(step: Step) -> list[str]:
    if step.problem:
        shown = step.problem.splitlines()
        return [
            "cannot be built:",
            *(f"  {line}" for line in shown[:_ERRORS]),
            *(["  ..."] * (len(shown) > _ERRORS)),
        ]
    lines = [f"compared with {step.beside}"] if step.beside else []
    for name, one in step.told.items():
        lines += _scripts(one) if name == "scripts" else _plan(one)
        lines += _executed(one, name)
    return lines


def _executed(one: TreeComparison, name: str) -> list[str]:
    """The changed lines that the runs executed, and the places that none did."""
    told = one.executed
    if told is None:
        return []
    if not told.places:
        return ["no changed line has a counter (TCP, queue disciplines)"]
    some, all_ = (sum(of) for of in zip(*told.lines, strict=True))
    what = "scripts" if name == "scripts" else "cases"
    return [
        f"the {what} executed {some} of {plural(all_, 'changed line')}",
        *(f"  never executed: {missed.words}" for missed in told.missed[:_PLACES]),
        *(["  ..."] * (len(told.missed) > _PLACES)),
    ]


def _plan(one: TreeComparison) -> list[str]:
    if not one.different:
        return [f"no difference in {plural(len(one.pairs), 'pair')} of runs ({plural(one.cases, 'case')})"]
    where = f": {one.separation.text}" if one.separation is not None else ""
    lines = [f"{len(one.different)} of {plural(len(one.pairs), 'pair')} of runs differ{where}"]
    lines += _findings(one)
    lines += [_shift(shift, one.pairs) for shift in one.shifts[:_SHIFTS]]
    if len(one.shifts) > _SHIFTS:
        lines.append(f"and {len(one.shifts) - _SHIFTS} further metrics of cases")
    for example in one.examples[:1]:
        lines.append(f"first difference ({_case(example.pair)})")
        if (packets := example.first.packets) is not None:
            lines[-1] += f" after {plural(packets.same, 'identical packet')}"
            for side, texts in (("before", packets.base), ("after", packets.head)):
                lines += [
                    f"  {side}:",
                    *(f"    {text}" for text in texts[:_PACKETS] or ("no further packet",)),
                ]
        elif (decisions := example.first.decisions) is not None:
            lines += [f"  {side}: {text}" for side, text in zip(("before", "after"), decisions, strict=True)]
        lines += [f"  {command}" for command in example.commands]
        if example.script is not None:
            lines.append(f"  packetdrill script: {example.script.file}")
    return lines


def _findings(one: TreeComparison) -> list[str]:
    said = []
    for word, names in (
        ("new findings", [name for pair in one.different for name in pair.new]),
        ("findings that are gone", [name for pair in one.different for name in pair.gone]),
    ):
        counts = [f"{name} ({plural(names.count(name), 'run')})" for name in dict.fromkeys(names)]
        said += [f"{word}: {', '.join(counts)}"] if counts else []
    return said


def _shift(shift: Shift, pairs: Sequence[TreePair]) -> str:
    unit = METRICS[shift.metric].unit
    before, after = (number(sum(side) / len(side), unit) for side in (shift.base, shift.head))
    case = next(_case(pair) for pair in pairs if pair.head["case"] == shift.case)
    return f"{shift.metric}: {before} to {after} ({case})"


def _case(pair: TreePair) -> str:
    return pair.label or f"seed {pair.seed}"


def _scripts(one: TreeComparison) -> list[str]:
    if not one.different:
        return [f"no difference in {plural(len(one.pairs), 'script')}"]
    lines = [f"{len(one.different)} of {plural(len(one.pairs), 'script')} behave differently:"]
    for pair in one.different:
        verdict = "fails now" if pair.new else "passes now" if pair.gone else "other packets"
        lines.append(f"  {Path(pair.varied.get('script', pair.label)).name}: {verdict}")
    return lines


def junit(told: Check) -> str:
    """JUnit XML: for each change a test of its build, one of the plan and one of the scripts."""
    root = ET.Element("testsuites", name="tcpassay kernel check")
    for place, step in enumerate(told.steps, 1):
        name = clean(f"{place}: {step.title}")
        tests: dict[str, list[str]] = {"build": step.problem.splitlines()}
        tests |= {
            what: (_scripts(one) if what == "scripts" else _plan(one)) if one.different else []
            for what, one in step.told.items()
        }
        failures = sum(bool(lines) for lines in tests.values())
        suite = ET.SubElement(
            root, "testsuite", name=name, tests=str(len(tests)), failures=str(failures), errors="0"
        )
        for what, lines in tests.items():
            case = ET.SubElement(suite, "testcase", classname=name, name=what)
            if lines:
                failure = ET.SubElement(case, "failure", message=clean(lines[0]))
                failure.text = clean("\n".join(lines))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
