"""The one place that asks: what a command may execute of a plan or result folder.

A plan that the user names is consent to the code that it names. Code of a result folder needs `--allow-code`, unless
the user has accepted or run a file with the same digest before.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tcpassay import _native, regular
from tcpassay.controllers.load import LONGEST
from tcpassay.errors import Place, Problem, UserError
from tcpassay.plan.read import Plan
from tcpassay.trust import accepted, consent, needs
from tcpassay.trust.needs import Needed

_SHOWN: Final = 20
"""Maximum number of files in a message."""


def plan(wanted: Plan, again: Callable[[], Plan] | None = None) -> Plan:
    """Allows and remembers the code of a plan that the user runs, and creates an object of each class in it.

    The hosts of its testbeds may be connected; with such hosts the plan is read `again`, so that they check the cases.
    Returns the plan. Raises `UserError` for a class that cannot be created.
    """
    needed = needs.of_plan(wanted.spec, wanted.file.parent)
    _allow(needed.files)
    if problems := list(_failing(wanted)):
        raise UserError.several(problems)
    consent.connect()
    return again() if again is not None and needed.named("remote") else wanted


def folder(path: Path, *, allow: bool) -> None:
    """Allows the code of a result folder if it was accepted before, or with `allow`, which is remembered.

    Otherwise raises `UserError` with the files and digests. The hosts of testbeds may be connected afterwards.
    """
    files = [one for one in needs.of_folder(path).files if one.sha256 is not None]
    before = accepted.known() | consent.current().code
    new = [one for one in files if one.sha256 not in before]
    if new and not allow:
        raise UserError.several(_refusal(new, path))
    _allow(files)
    consent.connect()


def _failing(wanted: Plan) -> Iterator[Problem]:
    """The classes of controllers in Python that cannot be created, each once."""
    values = {value for case in wanted.cases if case.expect == "done" for value in case.triples.values()}
    for value in sorted(value for value in values if isinstance(value, str)):
        if (named := needs.controller(value)) is None:
            continue
        file, name = named
        try:
            source = regular.read_bytes(wanted.file.parent / file, largest=LONGEST).decode()
            _native.try_controller(source, file, name)
        except _native.ControllerError as error:
            yield Problem(f"`stack.cc` = `{value}`: {error}", Place(wanted.file))
        except (OSError, UnicodeDecodeError) as error:
            yield Problem(f"`stack.cc` = `{value}`: it cannot be read: {error}", Place(wanted.file))


def _refusal(new: Sequence[Needed], place: Path) -> Iterator[Problem]:
    yield Problem(
        "the command would execute or read these files, which you have neither accepted nor run before (one that was "
        "edited is another one); read them, then give --allow-code",
        Place(place),
    )
    for one in new[:_SHOWN]:
        yield Problem(f"{one.words}, SHA-256 {one.sha256}", Place(one.file))
    if len(new) > _SHOWN:
        yield Problem(f"and {len(new) - _SHOWN} more: `tcpassay inspect {place}` lists them")


def _allow(files: Iterable[Needed]) -> None:
    known = [(one.sha256, one.file) for one in files if one.sha256 is not None]
    consent.grant(digest for digest, _ in known)
    if why := accepted.add(known):
        sys.stderr.write(f"tcpassay: note: the accepted code is not remembered: {why}\n")


def testbeds(given: Iterable[str]) -> None:
    """Names the testbed files of the command line: `FILE` or `NAME=FILE`. Raises `UserError`."""
    files = []
    plain = []
    for text in given:
        name, equals, file = text.partition("=")
        path = Path(file if equals else text).expanduser()
        if not path.is_file():
            raise UserError(f"`--testbed {text}`: there is no such file")
        files.append((name if equals else path.stem, path))
        if not equals:
            plain.append(path)
    if len(plain) == 1:
        files.append(("", plain[0]))
    consent.give_testbeds(files)
