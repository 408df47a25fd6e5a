"""Cases of a plan that are packetdrill scripts: files, stacks, substrates.

Such a case has a name and supports the journal, selection and repetition like other cases; a deviation from the
script's expectations is a finding. The parameters of the plan do not apply to it, because a script contains its own
settings.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tcpassay import _native, regular
from tcpassay.errors import Place, Problem, UserError
from tcpassay.messages import Script
from tcpassay.plan import document, fields, model, table
from tcpassay.plan.document import Document
from tcpassay.plan.expand import SUBSTRATE, Case, name_of
from tcpassay.script.files import ALLOW_SHELL, REAL, profile_of

SCRIPT: Final = "script"
"""The factor that distinguishes these cases; no parameter has this name."""
PROFILE: Final = "stack.profile"
_PATTERN: Final = re.compile(r"[*?\[]")


def cases(spec: model.PlanFile, doc: Document) -> list[Case]:
    """The scripts of a plan as cases, each once. Raises `UserError` with all errors."""
    made: dict[str, Case] = {}
    problems: list[Problem] = []
    for number, entry in enumerate(spec.scripts):
        problems += _settings(entry, doc, number)
        for index, wanted in enumerate(entry.files):
            place = doc.place("scripts", number, "files", index)
            try:
                for file in _files(wanted, doc.file.parent):
                    for case in _cases(spec, entry, file, doc.file.parent):
                        made.setdefault(case.id, case)
            except UserError as error:
                problems += [
                    Problem(f"`files` = `{wanted}`: {one.message}", one.place or place)
                    for one in error.problems
                ]
    if problems:
        raise UserError.several(problems)
    return list(made.values())


def _settings(entry: model.Scripts, doc: Document, number: int) -> Iterator[Problem]:
    """Unknown profiles and options."""
    known = table.parameters()[PROFILE].choices
    for profile in _listed(entry.profile):
        if profile not in known:
            message = (
                f"`profile` = `{profile}`: allowed are {', '.join(known)}{document.suggest(profile, known)}"
            )
            yield Problem(message, doc.place("scripts", number, "profile"))
    if ALLOW_SHELL in entry.options:
        message = "`options.allow-shell`: a plan never executes shell commands; `tcpassay script --allow-shell` does"
        yield Problem(message, doc.place("scripts", number, "options", "allow-shell"))
        return
    try:
        _native.run_script("", REAL, False, [list(pair) for pair in _options(entry)])  # noqa: FBT003
    except ValueError as error:
        yield Problem(f"`options`: {error}", doc.place("scripts", number, "options"))


def _listed(profile: str | list[str] | None) -> list[str]:
    return [profile] if isinstance(profile, str) else profile or []


def _options(entry: model.Scripts) -> Iterator[tuple[str, str]]:
    for name, value in entry.options.items():
        for one in value if isinstance(value, list) else [value]:
            yield name, str(one)


def _files(wanted: str, base: Path) -> list[str]:
    """The scripts of a name, a folder or a pattern, relative to `base`."""
    try:
        if _PATTERN.search(wanted):
            # A pattern may contain `..`, which `Path.glob` does not support.
            parts = Path(wanted).parts
            fixed = next(n for n, part in enumerate(parts) if _PATTERN.search(part))
            top = Path(*parts[:fixed])
            found = [
                top / file.relative_to(base / top) for file in (base / top).glob(str(Path(*parts[fixed:])))
            ]
            found = [file for file in found if (base / file).is_file()]
        elif (base / wanted).is_dir():
            found = [wanted / file.relative_to(base / wanted) for file in (base / wanted).rglob("*.pkt")]
        else:
            found = [Path(wanted)]
            regular.check((base / wanted).stat().st_mode)
            with (base / wanted).open("rb"):
                pass
    except OSError as error:
        raise UserError((error.strerror or type(error).__name__).lower()) from None
    if not found:
        raise UserError("no script there; a folder is searched for *.pkt")
    return sorted(map(str, found))


def _cases(spec: model.PlanFile, entry: model.Scripts, file: str, base: Path) -> Iterator[Case]:
    profiles = _listed(entry.profile) or [_said(base / file)]
    several = len(spec.substrates) > 1
    for profile in profiles:
        script = Script(file, profile, entry.compare == "loose", tuple(_options(entry)))
        for substrate in spec.substrates:
            if substrate != "model" and profile != REAL:
                continue
            where: dict[str, fields.Scalar] = {SUBSTRATE: substrate} if several else {}
            triples: dict[str, fields.Scalar] = {SCRIPT: file, PROFILE: profile}
            said = {name: str(value) for name, value in (script.as_json() | {SUBSTRATE: substrate}).items()}
            yield Case(name_of(said), triples, where | triples, substrate=substrate, script=script)


def _said(file: Path) -> str:
    """The profile in the first line of a script, if cases support it."""
    said = profile_of(file)
    if said not in table.parameters()[PROFILE].choices:
        raise UserError(f"`{said}` is not a profile", Place(file, 1))
    return said
